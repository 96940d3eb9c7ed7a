"""The notebook to fill in: the class, then its training, embeddings (2A), tuning (2B) and report, all on that class."""

from __future__ import annotations

import json

NAME = "TransformerTranslator"
TEXT, CODE = "markdown", "code"
# Times are of one core with the parameters as they stand; in brackets, with Multi30k and the coursework's numbers.
CELLS = (
    (TEXT, """\
# A translator of your own

You write the class below. The other cells train it, put other word vectors on its input (2A), tune it (2B) and write
the report, all on *your* class. Stop any cell whenever you like: run it again, and it goes on where it was.

As it stands everything runs on a tenth of the built-in corpus, **a toy**: a grammar wrote it, and on all of it
perplexity falls to 2.
For figures that mean something get Multi30k (`train`, `val` and `test_2016_flickr`, each `.de` and `.en`, from
github.com/multi30k/dataset), put the files into one folder and name it in the next cell; there the coursework's model
reaches 14 to 18.

Needs `pip install 'regard[translator]'`."""),
    (CODE, """\
DATA = "builtin"  # or the folder of Multi30k
PAIRS = 2000  # of the built-in corpus
EPOCHS = 4  # 10 in the coursework
SEEDS = 2  # runs of each embedding; 3 or more give an interval worth printing
TRIALS = 4  # of the search; from 20 on it finds something
OUT = "runs"  # the folder of everything"""),
    (TEXT, "## The class: write it here\n\n```\n{formulas}\n```"),
    (CODE, "{code}"),
    (TEXT, f"""\
## Is it right? (seconds)

`regard claims translator --answer {{path}}:{NAME} --hint`, typed outside of the notebook, says where a mistake is.
Training tries the class on three sentences first, and refuses what cannot be trained."""),
    (CODE, f"""\
from regard.translator import compare, load_run, load_settings, report, score, train, tune
from regard.translator.models.own_translator import own_from_class
from regard.translator.training.preparation import load_data

own = own_from_class({NAME})
changes = ["model.kind=own", f"data.path={{DATA}}", f"epochs={{EPOCHS}}"]
toy = DATA == "builtin"
settings = load_settings("builtin" if toy else "coursework", changes=changes + [f"data.size={{PAIRS}}"] * toy)
print(load_data(settings).report)"""),
    (TEXT, "## Training (10 seconds; Multi30k: 15 minutes)"),
    (CODE, 'print(train(settings, f"{OUT}/mine", own=own))'),
    (TEXT, "## Perplexity, BLEU and some translations (5 seconds; Multi30k: a minute)"),
    (CODE, """\
mine, test = load_run(f"{OUT}/mine", own=own), load_data(settings).test
print(score(mine, test))
some = list(test.source[:5])
for source, target in zip(some, mine.translate(some, cut=True).target, strict=True):
    print(source, " -> ", target)"""),
    (TEXT, """\
## 2A: other vectors on the input (a minute; Multi30k with 3 seeds: 3 hours)

The vectors take the place of your own input table, which is found by what it does; `+frozen=true` keeps them as they
are. `word2vec:train` learns them from the training text, `glove:FILE` and `bert:DIR` read files (GloVe's words are
English: it is for an English source). Several seeds each, because two runs that differ in nothing else differ too."""),
    (CODE, """\
variants = ["learned", "word2vec:train", "word2vec:train+frozen=true"]
print(compare(settings, variants, f"{OUT}/embeddings", seeds=SEEDS, own=own, say=print))"""),
    (TEXT, "*Your words:* what did the vectors change, and is it more than noise?"),
    (TEXT, """\
## 2B: tuning (a minute; Multi30k with 20 trials: 5 hours)

The sizes that your constructor takes are tried, and how it is trained; validation perplexity alone decides."""),
    (CODE, 'print(tune(settings, f"{OUT}/tuned", trials=TRIALS, own=own, say=print))'),
    (TEXT, "*Your words:* what did you try, what improved, and what did not?"),
    (TEXT, "## The report (10 seconds; Multi30k: two minutes)\n\nOne file; with a name that ends in .pdf, a PDF."),
    (CODE, """\
parts = [f"{OUT}/{part}" for part in ("mine", "embeddings", "tuned")]
print(report(parts, f"{OUT}/report.html", own=own, replace=True, title="Homework 4"))"""),
)  # fmt: skip


def notebook_text(template: str, *, path: str) -> str:
    """The notebook, with the class of ``template``, the text of the file to fill in."""
    head, _, code = template.partition('"""\n\n')
    formulas = head.partition("\n\n")[2].partition("\n\nWrite")[0]
    cells: list[dict[str, object]] = []
    for number, (kind, text) in enumerate(CELLS):
        for name, value in (("formulas", formulas), ("code", code.strip()), ("path", path)):
            text = text.replace(f"{{{name}}}", value)
        cell = {"cell_type": kind, "id": f"cell-{number}", "metadata": {}, "source": text.splitlines(keepends=True)}
        cells.append(cell | ({"execution_count": None, "outputs": []} if kind == CODE else {}))
    cells[1]["metadata"] = {"tags": ["parameters"]}
    kernel = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
    book = {"cells": cells, "metadata": kernel, "nbformat": 4, "nbformat_minor": 5}
    return json.dumps(book, indent=1, ensure_ascii=False) + "\n"
