"""The file to fill in: a class that turns ids into scores, part by part; never the answer."""

from __future__ import annotations

import os
from pathlib import Path

from regard.coursework.answers.report import Template
from regard.coursework.checker.notebook_template import NAME, notebook_text
from regard.files import write_new_file

SIGNATURE = f"{NAME}(source_words, target_words, ...)"

TEXT = '''\
"""translator: a one-layer Transformer encoder that turns a source sentence into target words.

    x = E[s_t] + P[t]                                token plus learned position
    c = softmax(q k^T / sqrt(d)) v, in every head     the heads side by side
    y = norm(x + c W_O + b_O)
    z = norm(y + ReLU(y W_1 + b_1) W_2 + b_2)
    scores = z W + b                                 no softmax: the loss has its own

Write the constructor and the four methods; forward is there. Check it, as often as you like, with

    {check}

A method that is not written yet is no harm: what comes before it is checked. --hint says where a mistake
is, --hint --hint says what it is. Your own names and another structure are welcome: any class that maps ids
(N, T) to scores (N, T, target_words) can be checked. Where the meaning of a constructor's argument cannot be
guessed from its name, declare it: REGARD = {{"arguments": {{"my_size": "width"}}}}.

Train it when it is right: regard translator train coursework --model FILE.py:{name}
"""

import torch
from torch import nn

PAD = 0  # the id that fills a sentence up to the length of the longest


class {name}(nn.Module):
    def __init__(self, source_words, target_words, width=128, heads=2, head_width=96, inner=2048, longest=20):
        """Two tables, the matrices of the heads, W_O, two norms, the feed-forward part, the output."""
        super().__init__()
        self.heads, self.head_width = heads, head_width
        # write your layers here

    def embed(self, ids):
        """ids (N, T) to x (N, T, width): the token's row plus the place's row."""
        raise NotImplementedError("write the embedding")

    def attend(self, x):
        """x (N, T, width) to y (N, T, width): several heads, W_O, the sum with x, the norm."""
        raise NotImplementedError("write the attention")

    def feed_forward(self, y):
        """y (N, T, width) to z (N, T, width): two layers, the sum with y, the norm."""
        raise NotImplementedError("write the feed-forward part")

    def output(self, z):
        """z (N, T, width) to scores (N, T, target_words)."""
        raise NotImplementedError("write the output")

    def forward(self, ids):
        return self.output(self.feed_forward(self.attend(self.embed(ids))))
'''


def write_class_template(claim: str, path: str | os.PathLike[str] | None) -> Template:
    """Write the template to a new file; one that exists is never overwritten. A notebook goes on to the report."""
    target = Path(path if path is not None else f"{claim}.py")
    text = TEXT.format(check=f"regard claims {claim} --answer {target}:{NAME}", name=NAME)
    if target.suffix == ".ipynb":
        text = notebook_text(text, path=target.name)
    made = Template(claim=claim, path=os.fspath(target), signature=SIGNATURE, text=text)
    write_new_file(target, text, endings=(".py", ".ipynb"))
    return made
