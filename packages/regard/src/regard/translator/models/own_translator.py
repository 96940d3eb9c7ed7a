"""A person's own model among ours: whatever maps ids (N, T) to scores (N, T, target words).

It is trained, scored and read off like the one-layer encoder. Every sentence is given padded to the same number of
places (the longest sentence and two markers), so that what a sentence gets does not depend on the batch it is in,
whether the model hides padding or reads it. Whatever it does wrong is said in one sentence that names its line.

Its input embedding may be exchanged for pretrained vectors: the table is found by what it does (the gradient of a
sentence of one word reaches that word's row and no other) or named, by ``REGARD = {"embedding": "words.weight"}``.

:func:`load_code` makes an :class:`OwnCode` from ``my.py:NAME``; nothing else here runs a file. ``NAME`` may be a class,
a function that returns a module (or a class), or a module. A class is given every size whose meaning its constructor's
names tell (:mod:`regard.tracing.constructor_arguments`); a function only those that it has no default for, since it may
belong to weights of one size. What cannot be guessed is declared in the file, by ``REGARD = {"arguments": {"my_size":
"width"}, "embedding": "words.weight"}``.

The file is run as your own code, with your rights: only name files that you trust.
"""

from __future__ import annotations

import contextlib
import hashlib
import inspect
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard import errors
from regard.errors import InputError
from regard.python_files import contain, load_named, neighbours_on_path
from regard.tracing.constructor_arguments import chosen_arguments, role_of
from regard.translator.data.batches import Batch
from regard.translator.data.vocabulary import FIRST_WORD, PAD
from regard.translator.models.embeddings import FrozenEmbedding, TokenEmbedding, Vectors
from regard.translator.models.encoder import pad_to_length
from regard.translator.models.translation import TranslationModel, best_tokens
from regard.translator.runs.settings import ARGUMENTS, Settings, own_arguments

KIND = "own"  # model.kind of a run whose model is somebody's own
_SETTINGS = {  # which setting decides a size that a constructor may ask for
    **{name: f"model.{name}" for name in ("width", "heads", "head_width", "layers", "dropout")},
    **dict.fromkeys(("inner", "expansion"), "model.feed_forward"),
}
_TRIED = 3  # sentences of the first trial: not the number of anything else


@dataclass(frozen=True, kw_only=True, eq=False)
class OwnCode:
    """A model that can be made: its name as given, its file and a digest of it, and what makes it from sizes.

    ``make`` gets the sizes under these names: source_words, target_words, width, heads, head_width, inner, longest,
    layers, pad, dropout, device, expansion, eps, and more arguments by the constructor's own names under arguments.
    ``asked_for`` are the sizes that it took when it was last called, and as arguments.NAME what else it takes.
    ``fresh`` is False where it gives one and the same module every time. ``table`` names the input embedding.
    """

    name: str
    path: str
    digest: str
    make: Callable[[Mapping[str, Any]], nn.Module]
    fresh: bool = True
    table: str = ""
    asked_for: set[str] = field(default_factory=set)


class OwnTranslator(TranslationModel):
    """``inner``, called with ids (N, places) and checked: scores (N, places, words) must come back.

    With an ``exchange`` its input table is that instead, wherever it reads it.
    """

    def __init__(self, inner: nn.Module, *, code: OwnCode, places: int, words: int) -> None:
        super().__init__()
        self.inner, self.code, self.places, self.words = inner, code, places, words
        self.exchange: TokenEmbedding | None = None
        self.table, self.across = "", False  # the name of the table, and whether its columns are the words

    def forward(self, source: Tensor) -> Tensor:
        """Scores at every place of ``source``, which is padded to the model's places first."""
        ids = pad_to_length(source, self.places)
        try:
            with contextlib.redirect_stdout(sys.stderr):  # what it prints is not the answer
                answer = self._call(ids.clone())  # a model that writes into its input must not spoil ours
        except (Exception, SystemExit) as error:
            given = f"ids of shape {tuple(ids.shape)} from 0 to {int(ids.max())}"
            fix = "give it as many places and words" if isinstance(error, IndexError) else "fix it first"
            if "same device" in str(error):
                fix = "make every tensor on ids.device, or give --device cpu"
            raise InputError(
                f"{self.code.name} raised {describe_error(error, self.code.path)} for {given}; {fix}."
            ) from None
        return self._check_answer(answer, ids)

    def _call(self, ids: Tensor) -> Any:
        if self.exchange is None:
            return self.inner(ids)
        rows = self.exchange.projection(self.exchange.table())
        # not copied into the module: frozen rows and a map to another width stay what they are
        return torch.func.functional_call(self.inner, {self.table: rows.T if self.across else rows}, (ids,))

    def exchange_input(self, vectors: Vectors, *, source_words: int, frozen: bool) -> None:
        """Read ``vectors`` where the model reads its input table; known rows stay as they are if ``frozen``."""
        self.table, self.across = _input_table(self, source_words)
        table = self.inner.get_parameter(self.table)
        kind = FrozenEmbedding if frozen else TokenEmbedding
        self.exchange = kind(source_words, table.shape[0 if self.across else 1], vectors).to(table.dtype)
        table.requires_grad_(False)  # read no more

    def scores(self, batch: Batch) -> Tensor:
        return self(batch.source)[:, : batch.target.shape[1]]  # type: ignore[no-any-return]

    def token_losses(self, batch: Batch) -> Tensor:
        """-log p of each target token of the batch, sentence after sentence; each must be a number."""
        losses = super().token_losses(batch)
        if bool(losses.isnan().any()):
            raise InputError(f"{self.code.name} gives scores that are NaN or infinite; make them finite first.")
        if bool(losses.isposinf().any()):
            raise InputError(
                f"{self.code.name} gives probability 0 to a target token, which makes its perplexity infinite; leave "
                "every word a finite score."
            )
        return losses

    def translate(self, source: Tensor, *, beam: int = 1) -> list[tuple[list[int], float]]:
        """The best word at every place, and the log-probability; the places are independent, so there is no beam."""
        return best_tokens(self(source))

    def attention(self, source: Tensor) -> Tensor:
        """Not known from outside; ``regard model capture`` records what a module computes inside."""
        raise InputError(f"{self.code.name} does not say its attention weights; see regard model capture --help.")

    def _check_answer(self, answer: Any, ids: Tensor) -> Tensor:
        name, wanted = self.code.name, (*ids.shape, self.words)
        if isinstance(answer, tuple) and answer and isinstance(answer[0], Tensor):
            answer = answer[0]  # scores, and something beside them
        if not isinstance(answer, Tensor):
            raise InputError(f"{name} returned {type(answer).__name__}; it must return scores (N, T, target words).")
        if tuple(answer.shape) != wanted:
            raise InputError(
                f"{name} turned ids {tuple(ids.shape)} into {tuple(answer.shape)}; scores {wanted} are wanted: one for "
                f"each of the {self.words:,} target words at each place."
            )
        if not answer.is_floating_point():
            raise InputError(f"{name} returned {str(answer.dtype).removeprefix('torch.')}; scores must be floats.")
        return answer


def build_own(
    code: OwnCode,
    settings: Settings,
    source_words: int,
    target_words: int,
    *,
    vectors: Vectors | None = None,
    device: str = "cpu",
    to_train: bool = True,
) -> OwnTranslator:
    """The model, its weights drawn from the seed, tried out on a few sentences.

    One ``to_train`` must also have all its weights where an optimiser and a checkpoint find them. With ``vectors`` its
    input embedding starts from them.
    """
    sizes = own_sizes(settings, source_words, target_words) | {"device": device}
    model = _build_translator(code, sizes, settings)
    ids = _some_ids(model.places, source_words).to(device)
    model.eval()
    with torch.no_grad():
        first = model(ids)
        _check_scores(first, code.name)
        if not torch.equal(first, model(ids)):
            raise InputError(
                f"{code.name} gives other scores for the same ids in eval(); let nothing be random there (dropout: "
                "nn.Dropout, or F.dropout with training=self.training)."
            )
        # 1e-3: kernels sum in another order for another batch size
        if not torch.allclose(model(ids[:1]), first[:1], rtol=1e-3, atol=1e-3):
            raise InputError(
                f"{code.name} gives a sentence other scores in another batch; let no sentence read another one."
            )
        if code.fresh and to_train:
            _check_registered(model, _build_translator(code, sizes, settings, other=True), ids, first)
    if vectors is not None:
        model.exchange_input(vectors, source_words=source_words, frozen=settings.embedding.frozen)
        model.to(device)
    return model.train()


def own_sizes(settings: Settings, source_words: int, target_words: int) -> dict[str, Any]:
    """The sizes that a constructor may ask for, by their meaning."""
    model = settings.model
    return {
        "source_words": source_words,
        "target_words": target_words,
        "width": model.width,
        "heads": model.heads,
        "head_width": model.head_width,
        "inner": model.feed_forward,
        "longest": settings.data.longest + 2,
        "layers": model.layers,
        "pad": PAD,
        "dropout": model.dropout,
        "device": "cpu",
        "expansion": max(1, model.feed_forward // model.width),  # some constructors ask for a factor instead of a width
        "eps": 1e-5,  # torch's own of LayerNorm
        "arguments": own_arguments(settings),
    }


def taken_settings(settings: Settings, own: OwnCode | None) -> set[str] | None:
    """The settings that reach the constructor of somebody's model; None for a model of ours."""
    if own is None:
        return None
    own.make(own_sizes(settings, 2 * FIRST_WORD, 2 * FIRST_WORD + 1))
    sizes = {_SETTINGS[size] for size in own.asked_for & _SETTINGS.keys()}
    more = {name for name in own.asked_for if name.startswith(ARGUMENTS)}
    return sizes | more | {"embedding.source", "embedding.frozen"}


def _build_translator(
    code: OwnCode, sizes: Mapping[str, Any], settings: Settings, *, other: bool = False
) -> OwnTranslator:
    with torch.random.fork_rng(devices=[]):
        # other weights, so that what a state_dict does not carry over shows
        torch.manual_seed(settings.training.seed + other)
        inner = code.make(sizes)
    return OwnTranslator(inner.to(sizes["device"]), code=code, places=sizes["longest"], words=sizes["target_words"])


def _some_ids(places: int, words: int) -> Tensor:
    """A few sentences of different lengths, one of them as long as can be."""
    draw = torch.Generator().manual_seed(0)
    ids = torch.randint(FIRST_WORD, max(words, FIRST_WORD + 1), (_TRIED, places), generator=draw).clamp_(max=words - 1)
    for row in range(1, _TRIED):
        ids[row, max(1, places // (row + 1)) :] = PAD
    return ids


def _check_scores(scores: Tensor, name: str) -> None:
    if not bool(torch.log_softmax(scores, dim=-1).isfinite().any(dim=-1).all()) or bool(scores.isnan().any()):
        raise InputError(f"{name} gives scores that are NaN or infinite; make them finite first.")
    sums = scores.sum(-1)
    if bool((scores >= 0).all()) and torch.allclose(sums, torch.ones_like(sums), atol=1e-3):
        raise InputError(
            f"{name} gives probabilities (at each place they sum to 1), and the loss has a softmax of its own; return "
            "the scores before the softmax, or its logarithm."
        )


def _check_registered(model: OwnTranslator, other: OwnTranslator, ids: Tensor, first: Tensor) -> None:
    """Refuse a model whose checkpoint would not bring it back: what is in no state_dict is neither trained nor kept."""
    state = model.inner.state_dict()
    strange = [key for key, value in state.items() if not isinstance(value, Tensor)]
    if strange or not any(p.requires_grad for p in model.parameters()):
        what = f"keeps {strange[0]!r}, which is no tensor, in its state" if strange else "has no weights to train"
        raise InputError(f"{model.code.name} {what}; make its layers attributes of the module.")
    try:
        other.inner.load_state_dict(state)
    except RuntimeError:  # other names, or other shapes
        raise InputError(
            f"{model.code.name} is another model every time it is made; make it from its arguments."
        ) from None
    other.eval()
    if not torch.equal(other(ids), first):
        raise InputError(
            f"{model.code.name} has weights that its state_dict does not hold, so they are neither trained nor kept; "
            "use nn.Parameter, register_buffer and nn.ModuleList instead of plain tensors and lists."
        )


def _input_table(model: OwnTranslator, words: int) -> tuple[str, bool]:
    """The name of the parameter that a source word's row is read from, and whether words are its columns."""
    code, found = model.code, dict(model.inner.named_parameters())
    if code.table:
        rows = found.get(code.table)
        if rows is None or rows.ndim != 2 or words not in rows.shape:
            raise InputError(
                f"{code.name} has no table {code.table!r} with a row for each of the {words:,} source words; its "
                f"parameters are {', '.join(found)}."
            )
        return code.table, rows.shape[0] != words
    tables = {name: p for name, p in found.items() if p.ndim == 2 and words in p.shape and p.requires_grad}
    word = words - 1
    ids = torch.full((1, model.places), word, device=next(model.parameters()).device)
    draw = torch.Generator().manual_seed(0)
    with torch.enable_grad():
        scores = model(ids)
        # a random sum: in a plain one the words' shares may cancel, as behind a norm
        total = (scores * torch.randn(scores.shape, generator=draw).to(scores)).sum()
        grads = torch.autograd.grad(total, list(tables.values()), allow_unused=True) if tables else ()
    read = []
    for name, grad in zip(tables, grads, strict=True):
        for axis in (a for a in (0, 1) if grad is not None and grad.shape[a] == words):
            reached = (grad.to_dense() != 0).any(1 - axis).nonzero().flatten().tolist()
            read += [(name, axis == 1)] if reached == [word] else []
    if len(read) != 1:
        named = ", ".join(name for name, _ in read)
        raise InputError(
            f"{code.name} has {f'{len(read)} input tables ({named})' if read else 'no table that only its input reads'}"
            f'; say in the file which one to exchange, as in REGARD = {{"embedding": "words.weight"}}.'
        )
    return read[0]


def describe_error(error: BaseException, path: str) -> str:
    """An exception in a few words, with the last line of the file ``path`` that it came through."""
    where = os.path.abspath(path)  # as Python calls the file it runs
    lines = [frame.lineno for frame in traceback.extract_tb(error.__traceback__) if frame.filename == where]
    return errors.describe_error(error) + (f" (line {lines[-1]})" if lines else "")


LIMIT = 600.0  # seconds that making a model may take, loading its weights included


def load_code(spec: str) -> OwnCode:
    """The model that ``my.py:NAME`` names; its file is run once, now."""
    path = spec.rpartition(":")[0]
    with contain(spec, limit=LIMIT):
        module, thing = load_named(
            spec, template="regard claims translator --template {path}", like="my.py:TransformerTranslator"
        )
    declared = _declared_arguments(getattr(module, "REGARD", {}), spec)
    table = getattr(module, "REGARD", {}).get("embedding", "")
    asked_for: set[str] = set()
    if not (isinstance(thing, nn.Module) or callable(thing)):
        raise InputError(f"{spec} is a {type(thing).__name__}; name a class, a function that returns a module, or one.")

    def make(sizes: Mapping[str, Any]) -> nn.Module:
        with contain(spec, limit=LIMIT), neighbours_on_path(path):
            return _make_module(thing, declared, sizes, spec, asked_for)

    digest = hashlib.sha256(Path(path).read_bytes()).hexdigest()
    fresh = not isinstance(thing, nn.Module)
    return OwnCode(name=spec, path=path, digest=digest, make=make, fresh=fresh, table=str(table), asked_for=asked_for)


def own_from_class(thing: type[nn.Module], *, table: str = "") -> OwnCode:
    """A class that was written in a notebook or a session; ``table`` names its input embedding, as REGARD would."""
    if not (isinstance(thing, type) and issubclass(thing, nn.Module)):
        raise InputError(f"{thing!r:.60} is no class of torch modules; hand over the class, not a model made from it.")
    asked_for: set[str] = set()
    # of its methods, since a notebook's class has no file to read
    parts = [inspect.getsource(part) for part in vars(thing).values() if inspect.isfunction(part)]
    return OwnCode(
        name=thing.__name__,
        path="",
        digest=hashlib.sha256("\n".join(parts).encode()).hexdigest(),
        make=lambda sizes: _make_module(thing, {}, sizes, thing.__name__, asked_for),
        table=table,
        asked_for=asked_for,
    )


def _declared_arguments(declared: Any, spec: str) -> dict[str, Any]:
    arguments = declared.get("arguments", {}) if isinstance(declared, dict) else None
    if not isinstance(arguments, dict):
        raise InputError(
            f'{spec}: REGARD must look like {{"arguments": {{"my_size": "width"}}}}, not {declared!r:.60}.'
        )
    return arguments


def _make_module(
    thing: Any, declared: Mapping[str, Any], sizes: Mapping[str, Any], spec: str, asked_for: set[str]
) -> nn.Module:
    made = thing
    asked_for.clear()
    for _ in range(2):  # a function may return a class
        if not isinstance(made, nn.Module):
            made = _call_with_sizes(made, declared, sizes, spec, asked_for)
    if not isinstance(made, nn.Module):
        kind = "a class" if isinstance(made, type) else f"a {type(made).__name__}"
        raise InputError(f"{spec} gave {kind}; it must give a torch module that maps ids (N, T) to scores.")
    return made


def _call_with_sizes(
    thing: Any, declared: Mapping[str, Any], sizes: Mapping[str, Any], spec: str, asked_for: set[str]
) -> Any:
    if not callable(thing):
        return thing
    try:
        if isinstance(thing, type):
            chosen, used = chosen_arguments(thing, declared, sizes)
        else:
            taken = inspect.signature(thing).parameters
            chosen, _ = chosen_arguments(thing, {n: role for n, role in declared.items() if n in taken}, sizes)
            chosen = {n: value for n, value in chosen.items() if n in declared or taken[n].default is taken[n].empty}
            used = {declared.get(n) or role_of(n) or "": n for n in chosen}
    except (InputError, ValueError) as error:
        raise InputError(f"{spec}: {error}") from None
    given = sizes.get("arguments", {})
    if strange := [name for name in given if name not in inspect.signature(thing).parameters]:
        raise InputError(f"{spec} takes no argument {strange[0]!r}, which model.arguments gives; leave it out.")
    chosen |= given
    try:
        made = thing(**chosen)
        asked_for.update(used)  # a configuration object knows only now what was read from it
        asked_for.update(f"{ARGUMENTS}{name}" for name in inspect.signature(thing).parameters if not role_of(name))
        return made
    except (Exception, SystemExit) as error:
        given = ", ".join(f"{name}={value!r}" for name, value in chosen.items()) or "nothing"
        raise InputError(
            f"{spec} raised {describe_error(error, spec.rpartition(':')[0])} when called with {given}; fix it first."
        ) from None
