"""Models: a text through somebody's model, or through a run of ours, and all of its attention on one page.

The page that ``regard model look`` writes, with a field for the text. Which model it is, is said where the lab is
started (``regard lab --model MODEL``), never by an address: a model's file is run as your own code.
"""

from __future__ import annotations

import shlex
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from regard.errors import InputError
from regard.lab.page import Answer, Number, Page, State
from regard.lab.run_list import scan_runs_with_example
from regard.web.background_tasks import BackgroundTasks

if TYPE_CHECKING:
    from regard_models.attention_page.page_result import AttentionPage
    from regard_models.inputs.model_input import ModelInput

LETTERS = 4000  # of a text
MOST = 6_000_000  # letters of streams: the rest of a long text is shown in blocks
SENTENCE = "The dog that bit the man ran away because it was afraid."
HERE = Path(__file__).parent
STATIC = HERE / "attention_page" / "static"  # the same page as `regard model look` writes
FORMULAS = (
    r"\alpha_{ij} = \mathrm{softmax}_j\left(\tfrac{q_i \cdot k_j}{\sqrt d}\right)",
    r"\text{influence}_{ij} = \left\| \alpha_{ij}\, v_j W_O \right\|",
)

tasks = BackgroundTasks("regard_models.lab_page")


def answer(state: State) -> Answer:
    """The attention of the lab's model on the text of the address."""
    model = state.model or _newest_run(state.runs)
    if model is None:
        return _empty_answer(state.runs)
    text = " ".join(state.text("text").split())
    if len(text) > LETTERS:
        raise InputError(f"A text may have {LETTERS:,} letters here, not {len(text):,}; the shell line has no limit.")
    seen = tasks.ask("attention_page_data", model=model, text=text)
    return Answer(
        picture={"model": model, "running": seen is None, **(seen or {})},
        numbers=_numbers(seen),
        say=("Opening the model (the first time takes some seconds) …",) if seen is None else tuple(seen["say"]),
        formulas=FORMULAS,
        python=_python(model, text if seen is None else seen["text"]),
        shell=_shell(model, text if seen is None else seen["text"]),
        state={"text": text},
    )


def _newest_run(folder: Path) -> str | None:
    """The run that was written last, where no model was named; without runs the package's own, where it can be run."""
    runs = [
        run
        for run in scan_runs_with_example(folder)[0]
        if run.has_weights and (find_spec("torch") or not run.is_from_package)
    ]
    return runs[0].folder_argument if runs else None


def _numbers(seen: dict[str, Any] | None) -> tuple[Number, ...]:
    if seen is None:
        return ()
    shown = [("heads", "heads in all", seen["heads"], "g"), ("tokens", "tokens", seen["tokens"], "g")]
    shown.append(("worst-weight", "largest error of a stored weight", seen["worst_weight"], ".1e"))
    return tuple(Number(name=name, label=label, value=value, form=form) for name, label, value, form in shown)


def _python(model: str, text: str) -> str:
    given = f"{model!r}, text={text!r}" if text else repr(model)
    return "\n".join(
        [
            "from regard_models import look",
            "from regard_models.inputs.model_input import load",
            "from regard_models.attention_page.page_result import capture_for_page",
            f"page = look(capture_for_page(load({given})))",
            'page.to_html("look.html")',
            "print(page)",
        ]
    )


def _shell(model: str, text: str) -> str:
    words = f" --text {shlex.quote(text)}" if text else ""
    return f"regard model look {shlex.quote(model)}{words} --out look.html"


def _empty_answer(folder: Path) -> Answer:
    return Answer(
        picture={"running": False, "model": None},
        say=(
            f"No model was named, and there is no finished run in {folder}. Start the lab with one: regard lab --model "
            "FOLDER, where FOLDER is a Hugging Face folder or a run of ours; or FILE.py:build, which is run as your "
            "own code.",
        ),
        formulas=FORMULAS,
        python="import numpy as np\nfrom regard_models import look\n\n"
        'print(look(np.full((2, 3, 4, 4), 0.25), tokens=["your", "own", "weights", "here"]))',
        shell="regard lab --model huggingface:bert-base-uncased",
    )


# a task, in a process of its own ----------------------------------------------------------------------------------


def attention_page_data(model: str, text: str) -> dict[str, Any]:
    """Facts and streams of the page, and what is said beside it."""
    from regard_models.attention_page.layers import layers_of
    from regard_models.attention_page.page_result import capture_for_page, page_of

    given, used = _with_text(_load_model(model), text)
    recorded = capture_for_page(given)
    page: AttentionPage = page_of(recorded, layers_of(recorded), most=MOST)
    return {
        "facts": {**page.contents.facts, "title": "/".join(Path(model).parts[-2:])},
        "streams": page.contents.streams,
        "text": used,
        "heads": page.heads,
        "tokens": max(page.queries, page.keys),
        "worst_weight": page.worst_weight,
        "say": [*(f"Assumed: {one}." for one in given.assumed), *(f"Note: {one}." for one in page.notes)][:6],
    }


def _with_text(given: ModelInput, text: str) -> tuple[ModelInput, str]:
    """The model with a text, or with its own example where it reads no words."""
    from regard_models.inputs.model_input import model_input

    if given.tokenizer is None:
        if text:
            raise InputError("This model came without a tokenizer: it is shown on its own example; empty the field.")
        return given, ""
    used = text or _example_sentence(given.tokenizer)
    return model_input(given.module, text=used, tokenizer=given.tokenizer, name=given.name), used


def _example_sentence(words: Any) -> str:
    """One to begin with; a run of ours knows only the words of its corpus."""
    if not hasattr(words, "source"):
        return SENTENCE
    if words.settings.data.path == "builtin":
        from regard.lab.pages.translator import first_sentence

        return first_sentence(words.folder)
    known = [word for word in words.source.words if word.isalpha()]
    return " ".join(known[: min(4, words.settings.data.longest)])


@lru_cache(maxsize=1)
def _load_model(model: str) -> ModelInput:
    from regard_models.inputs.model_input import load

    return load(model)


PAGE = Page(
    place=7,
    title="Models",
    hint="Type a text and see what every head of a model reads of it; press ? for what the keyboard does.",
    about="What every head of a model reads of a text.",
    start={"text": ""},
    answer=answer,
    files={
        "/pages/models.js": HERE / "static" / "models.js",
        **{f"/look/{file.name}": file for file in STATIC.iterdir() if file.suffix in (".js", ".css")},
    },
    close=tasks.close,
)
