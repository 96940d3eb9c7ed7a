# Two commands for everybody: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1

.PHONY: demo test check bench corpus docs lab clean

demo: $(VENV)/.ready
	$(BIN)/regard demo --out regard-demo

test: $(VENV)/.ready
	$(ONE_THREAD) $(BIN)/python -m pytest -n auto

check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(MAKE) test
	$(MAKE) docs

bench: $(VENV)/.bench
	$(ONE_THREAD) $(BIN)/python -m benchmarks --write

# The built-in corpus, written again by its grammar; the file must come out as it is in the repository.
corpus: $(VENV)/.ready
	$(BIN)/python -m grammar

# `make docs ANSWERS=no` builds the walkthroughs of the coursework without our answers.
ANSWERS ?= yes
docs: $(VENV)/.ready
	$(BIN)/python docs/_pictures.py
	ANSWERS=$(ANSWERS) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lab: $(VENV)/.ready
	$(BIN)/regard lab

clean:
	rm -rf $(VENV) site regard-demo

$(VENV)/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[dev]'
	touch $@

$(VENV)/.bench: $(VENV)/.ready benchmarks/joeynmt.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e '.[bench]'
	rm -rf $(VENV)/peers/joeynmt
	$(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/peers/joeynmt -r benchmarks/joeynmt.txt
	touch $@
