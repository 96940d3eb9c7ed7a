"""A graphics card that is only pretended: torch takes it for a device of its own, and its numbers are the processor's.

Every operation checks what a real card checks: all its tensors must be on the card, but for single numbers. What is
made without a device is made on the processor and refused as soon as it meets the card's. ``python pretended_card.py
FOLDER`` trains, goes on, scores and translates there; run by test_device.py in a process of its own, since
torch has one such backend for good.
"""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path

import torch
from torch.utils import _pytree as pytree
from torch.utils import backend_registration
from torch.utils._python_dispatch import TorchDispatchMode

NAME = "card"
ONE = torch.device("cpu")


class CardTensor(torch.Tensor):
    """A tensor on the card, with its numbers in ``inner``."""

    inner: torch.Tensor

    @staticmethod
    def __new__(cls, inner: torch.Tensor) -> CardTensor:
        made = torch.Tensor._make_wrapper_subclass(
            cls,
            inner.shape,
            strides=inner.stride(),
            storage_offset=inner.storage_offset(),
            dtype=inner.dtype,
            device=torch.device(NAME, 0),
        )
        made.inner = inner
        return made

    def __repr__(self) -> str:
        return f"CardTensor({self.inner!r})"

    def tolist(self):
        return self.inner.tolist()

    def numpy(self, *, force=False):
        raise TypeError("can't convert a tensor of the card to numpy; use .cpu() first")

    @classmethod
    def __torch_dispatch__(cls, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


aten = torch.ops.aten
MOVES = {aten._to_copy.default, aten.copy_.default, aten._copy_from.default}
READS = {aten._local_scalar_dense.default}
INDEXED = {aten.index.Tensor, aten.index_put_.default, aten.index_put.default, aten._index_put_impl_.default}


def run(func, args, kwargs):
    """The operation on the processor's numbers, if a card could do it."""
    flat, spec = pytree.tree_flatten((args, kwargs))
    tensors = [x for x in flat if isinstance(x, torch.Tensor)]
    on_card = [x for x in tensors if isinstance(x, CardTensor)]
    device = kwargs.get("device")
    if device is not None and (func in MOVES or not tensors or "_like" in str(func) or "new_" in str(func)):
        stays = torch.device(device).type == NAME
    elif func in READS:
        stays = False
    elif func in MOVES:
        stays = isinstance(flat[0], CardTensor)
    else:
        stays = bool(on_card)
        for x in tensors if stays else []:
            # torch itself copies indices, and takes a tensor without axes for a number
            fine = isinstance(x, CardTensor) or not x.ndim or (func in INDEXED and not x.is_floating_point())
            if not fine:
                raise RuntimeError(
                    f"Expected all tensors to be on the same device, but {func} got the card's and cpu's"
                )
    plain = [_plain(x) for x in flat]
    plain_args, plain_kwargs = pytree.tree_unflatten(plain, spec)
    answer = func(*plain_args, **plain_kwargs)
    known = {id(x.inner): x for x in on_card}

    def wrap(x):
        return (known.get(id(x)) if id(x) in known else CardTensor(x)) if isinstance(x, torch.Tensor) else x

    return pytree.tree_map(wrap, answer) if stays else answer


def _plain(x):
    if isinstance(x, CardTensor):
        return x.inner
    return ONE if isinstance(x, torch.device) and x.type == NAME else x


class Card(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return run(func, args, kwargs or {})


OWN = """
import torch
from torch import nn

class Mine(nn.Module):
    def __init__(self, source_words, target_words, d_model, max_len, device):
        super().__init__()
        self.words, self.places = nn.Embedding(source_words, d_model), nn.Embedding(max_len, d_model)
        self.out, self.device = nn.Linear(d_model, target_words), device
    def forward(self, ids):
        places = torch.arange(ids.shape[1], device=self.device)
        return self.out(torch.dropout(self.words(ids) + self.places(places), 0.1, self.training))

class Forgets(Mine):
    def forward(self, ids):
        return self.out(self.words(ids) + self.places(torch.arange(ids.shape[1])))
"""
DEEP = ["model.kind=encoder-decoder", "layers=2", "decoder_layers=1", "vocabulary.joint=true", "model.tied=true"]
SORTS = {
    "encoder": ["dropout=0.2", "clip=1.0", "average=0.9", "smoothing=0.1"],
    "frozen": ["embedding.source=word2vec:train", "embedding.target=word2vec:train", "frozen=true"],
    "padding": ["model.kind=reads-padding", "positions=sinusoidal", "optimiser=muon"],
    "deep": [*DEEP, "positions=rotary", "dropout=0.2", "training.agreement=1.0", "batching=equal-length"],
    "own": ["model.kind=own"],
    "own-vectors": ["model.kind=own", "embedding.source=word2vec:train", "frozen=true"],
}


def main(folder: Path) -> None:
    """Train each sort on the card, stop and go on, score and translate; then open it on the processor."""
    from regard.errors import InputError
    from regard.translator.models import run as opened
    from regard.translator.models import weights
    from regard.translator.models.own_translator import load_code
    from regard.translator.models.translation import device_of
    from regard.translator.scoring.scores import score
    from regard.translator.studies.comparison import compare_runs
    from regard.translator.training import loop, preparation
    from toy_translator import StopError, stop_at, tiny, write_corpus

    backend_registration._setup_privateuseone_for_python_backend(NAME)
    weights.new_noise = lambda device: torch.Generator()  # this backend has none of its own
    for module in (loop, opened, preparation):
        module.choose_device = lambda wanted="auto": torch.device("cpu" if wanted == "cpu" else NAME)
    data = write_corpus(folder / "toy")
    (folder / "mine.py").write_text(OWN)
    own = load_code(f"{folder / 'mine.py'}:Mine")
    for name, changes in SORTS.items():
        settings, code = tiny(data, *changes), own if name.startswith("own") else None
        with Card(), contextlib.suppress(StopError):
            loop.train(settings, folder / name, watch=stop_at(6), own=code)
        with Card():
            trained = loop.train(settings, folder / name, own=code)
            there = opened.load_run(folder / name, own=code)
            assert device_of(there.model).type == NAME
            pairs = preparation.load_data(settings).test
            judged = score(there, pairs, beam=2 if name == "deep" else 1)
            if code is None:
                there.attention("ein hund")
        here = opened.load_run(folder / name, own=code, device="cpu")
        assert device_of(here.model).type == "cpu"
        again = score(here, pairs, beam=2 if name == "deep" else 1)
        assert again.translations == judged.translations, name
        assert abs(again.perplexity.without_sos / judged.perplexity.without_sos - 1) < 1e-4, name
        print(name, trained.best.perplexity)
    with Card():
        compare_runs([folder / "encoder", folder / "frozen"], samples=10)
        try:
            loop.train(tiny(data, "model.kind=own"), folder / "no", own=load_code(f"{folder / 'mine.py'}:Forgets"))
        except InputError as error:
            print(error)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
