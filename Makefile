# Two commands for everybody: `make demo` and `make test`. Both set up what they need.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
ONE_THREAD := OMP_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1 MKL_NUM_THREADS=1
PYTEST := $(ONE_THREAD) $(BIN)/python -m pytest -n auto --dist worksteal
# The plainest arithmetic that every x86-64 CPU has: what a test says must not hang on a faster one.
PLAIN := ATEN_CPU_CAPABILITY=default OPENBLAS_CORETYPE=Prescott NPY_DISABLE_CPU_FEATURES="X86_V3 X86_V4 AVX512_ICL AVX512_SPR"

TESTS := packages/regard/tests

# Where the environment forbids compiled files, each of the many processes of the tests would compile everything again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo quick test check check-javascript check-tests check-rest nightly soak fuzz plain lines kernels package student bench corpus example docs lab licences lock clean

# The tour and the lab need a third of the packages that the tests need; where those are there already, they will do.
demo: $(if $(wildcard $(VENV)/.ready),$(VENV)/.ready,$(VENV)/.demo)
	$(BIN)/regard demo --out regard-demo

# A minute while you work: the mathematics and the house rules.
quick: $(VENV)/.ready
	$(PYTEST) -m "not slow" $(TESTS)/test_house.py $(TESTS)/test_attention.py $(TESTS)/test_arrays.py $(TESTS)/test_files.py $(TESTS)/test_toml.py \
	  $(TESTS)/rigor $(TESTS)/subspace $(TESTS)/symmetry $(TESTS)/lowrank $(TESTS)/noise/test_model.py $(TESTS)/positions/test_number_formats.py \
	  $(TESTS)/design/test_certificate.py $(TESTS)/design/test_verbs.py $(TESTS)/design/test_key_ceiling.py

# Three and a half minutes on two idle cores: everything that protects users, but for what drives a browser, and of long
# tables of cases a sample.
test: $(VENV)/.ready
	$(PYTEST) -m "not slow"

# What CI runs: both tiers in one run, since many slow tests wait (for a browser, for a clock) and quick ones fill the time. The long tables of models are asked where models changed since the last `make nightly`.
check: $(VENV)/.ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(MAKE) check-javascript
	$(MAKE) -j2 --output-sync=line check-tests check-rest

check-tests: $(VENV)/.ready
	$(PYTEST) -n 3 -m "not nightly $$($(BIN)/python -m tools.long_runs models-changed || echo 'and not table')"

# Biome, a program of its own that npm brings: the one thing here that needs node, and only `make check` does.
BIOME := tools/node_modules/.bin/biome
check-javascript: $(BIOME)
	$(BIOME) ci --config-path=tools --error-on-warnings $(shell git ls-files "packages/*/src/*.js")

$(BIOME): tools/package-lock.json
	npm install --prefix tools --no-save --no-audit --no-fund --silent
	touch $@

check-rest: $(VENV)/.ready
	$(BIN)/mypy
	$(MAKE) docs

# Before an issue is closed: coverage, every table of models, README's lines typed, every command of a core-only install, the
# plainest kernels, wheel and sdist.
# Some 20 minutes; docs/results/nightly.txt is the record.
nightly: $(VENV)/.ready
	$(BIN)/python -m tools.long_runs nightly

# The fast tier in five random orders beside six busy loops, then on one core; what needs no torch on Python 3.13. An hour
# and more, and it goes on where it was stopped; docs/results/soak.txt is the record.
PYTHON_3_13 ?= python3.13
soak: $(VENV)/.ready $(VENV)-3.13/.ready
	$(BIN)/python -m tools.long_runs soak

# Fresh damage to every reader of files, and fresh options for the verbs, FUZZ_SECONDS for each of some sixty tests; a
# failure says its seed, and FUZZ_SEED=... with `make test` draws that case alone.
FUZZ_SECONDS ?= 30
fuzz: $(VENV)/.ready
	HYPOTHESIS_PROFILE=fuzz FUZZ_SECONDS=$(FUZZ_SECONDS) $(PYTEST) $(TESTS)/fuzz

# A short second pass under the plainest kernels.
plain: $(VENV)/.ready
	$(PLAIN) $(PYTEST) -m "not slow" -k "not test_docs or noise or tutorial or design" $(TESTS)/test_attention.py $(TESTS)/test_docs.py \
	  $(addprefix $(TESTS)/,rigor noise positions lowrank subspace translator/scoring) \
	  $(addprefix $(TESTS)/design/test_,certificate.py verbs.py winnable_check.py evaluate.py)

# Every command line of every page of the docs, typed into a shell in an empty folder; `make nightly` types the README's.
lines: $(VENV)/.ready
	EVERY_PAGE=1 $(PYTEST) $(TESTS)/test_command_lines.py

# The whole suite under every kernel that this machine has, in two random orders, and beside two busy loops: hours.
kernels: $(VENV)/.ready
	$(BIN)/python -m tools.long_runs kernels

# The wheel and the sdist, built, checked, and the wheel installed in an environment of its own.
package: $(VENV)/.ready
	$(BIN)/python -m tools.package

# A wheel for students: it checks answers and carries none of ours.
student: $(VENV)/.ready
	$(BIN)/python -m tools.student

bench: $(VENV)/.bench
	$(ONE_THREAD) $(BIN)/python -m benchmarks --write

# The built-in corpus, written again by its grammar; the file must come out as it is in the repository.
corpus: $(VENV)/.ready
	$(BIN)/python -m tools.grammar

# The small translator that the package ships, trained again from the built-in corpus: five minutes of one CPU core.
example: $(VENV)/.ready
	rm -rf runs/example
	$(ONE_THREAD) $(BIN)/regard translator train example --out runs/example
	$(BIN)/python -m tools.example_run runs/example

# `make docs ANSWERS=no` builds the walkthroughs of the coursework without our answers.
ANSWERS ?= yes
docs: $(VENV)/.ready
	$(BIN)/python docs/_pictures.py
	ANSWERS=$(ANSWERS) NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

lab: $(VENV)/.ready
	$(BIN)/regard lab

# docs/licences.md, from the metadata of what the lock files have installed.
licences: $(VENV)/.ready
	$(BIN)/python -m tools.licences

clean:
	rm -rf $(VENV) $(VENV)-3.13 site tools/node_modules regard-demo dist

PYPROJECTS := $(wildcard packages/*/pyproject.toml)
OURS := $(addprefix -e ,$(dir $(PYPROJECTS)))

$(VENV)/.ready: $(PYPROJECTS) constraints.txt requirements.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(OURS)
	touch $@

$(VENV)/.demo: $(PYPROJECTS) constraints.txt requirements-demo.lock
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet -c constraints.txt torch
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements-demo.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation $(OURS)
	touch $@

$(VENV)-3.13/.ready: $(PYPROJECTS) requirements.lock
	$(PYTHON_3_13) -m venv $(VENV)-3.13
	$(VENV)-3.13/bin/python -m pip install --quiet --require-hashes --no-deps -r requirements.lock
	$(VENV)-3.13/bin/python -m pip install --quiet --no-deps --no-build-isolation $(OURS)
	touch $@

$(VENV)/.bench: $(VENV)/.ready benchmarks/joeynmt.txt
	$(BIN)/python -m pip install --quiet -c constraints.txt -e 'packages/regard[bench]'
	rm -rf $(VENV)/peers/joeynmt
	$(BIN)/python -m pip install --quiet --no-deps --target $(VENV)/peers/joeynmt -r benchmarks/joeynmt.txt
	touch $@

# New versions for both lock files, with the hashes of every file of each; some minutes. Then `make clean check`.
LOCK := pip-compile --quiet --generate-hashes --all-build-deps --strip-extras --unsafe-package torch -c constraints.txt \
  --no-header --no-annotate --no-emit-index-url --no-emit-find-links --no-emit-trusted-host
lock: $(VENV)/.ready
	$(BIN)/python -m pip install --quiet pip-tools
	$(BIN)/$(LOCK) --upgrade --extra dev -o requirements.lock packages/regard/pyproject.toml
	$(BIN)/$(LOCK) --upgrade --extra demo -c requirements.lock -o requirements-demo.lock packages/regard/pyproject.toml
