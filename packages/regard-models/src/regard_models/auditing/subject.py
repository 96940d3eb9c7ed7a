"""The model under audit: a float64 copy of it, questions made for it, and its answers.

A question is rows of tokens for every stream, which of them are real, and perhaps their positions; the subject turns
it into the inputs of forward. Sizes are chosen so that axes can be told apart: a batch of 3, a prime length, none of
them a size that the model's weights have.
"""

from __future__ import annotations

import contextlib
import ctypes
import dataclasses
import warnings
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn

from regard.errors import InputError, describe_error
from regard.torch_arithmetic import arithmetic
from regard_models.auditing.question import Output, Question, Rows, repeat_along, resize_square, rows_of
from regard_models.inputs.copies import LARGE, copy_module, weight_bytes
from regard_models.inputs.devices import first_device
from regard_models.inputs.input_roles import Stream
from regard_models.inputs.model_input import ModelInput, call, original, parameter_names

BATCH = 3
PAD = 4  # how many tokens of padding the tests of padding add
_LENGTHS = (13, 17, 11, 19, 23, 29, 31, 7, 5)
_LONGER = (37, 41, 43)
_LEAST = 5
_LONG = 64
JITTERS = 2  # disturbed runs that the rounding is measured by
_AT_ONCE = 2**20  # numbers of an answer that are compared at once
_REMEMBERED = 2**25  # bytes of answers, those to the first question not counted


class Subject:
    """A model, in a float64 copy if that runs, and what the audit does with it."""

    def __init__(self, given: ModelInput, *, length: int | None = None, seed: int = 0) -> None:
        self.given, self.streams, self.seed = given, given.streams, seed
        self.dtype = model_dtype(given.module)
        self.is_large = weight_bytes(given.module) > LARGE
        self.device = first_device(original(given.module))
        self.coarsest = _coarsest(given.module)
        self.was_training = given.module.training
        self.native = eval_copy(given.module)
        self.module = self.native
        self.wide, self.why_not_wide = False, ""
        self._answers: dict[tuple[int, bool], tuple[Question, list[Output]]] = {}
        self._questions: dict[tuple[int, tuple[int, ...], int], Question] = {}
        self._firsts: dict[int, tuple[Question, Question]] = {}
        self._noise: dict[str, float] | None = None
        self.padded_questions: dict[Any, Question] = {}  # made by the tests of padding, asked again by others
        self._usual, self.wanted = self._sizes(None), length
        self.lengths = self._usual if length is None else self._sizes(length)
        # Rounding of many numbers is told by one run as well as by two.
        self.jitters = 1 if self.is_long else JITTERS
        self.names = _names(self.native)
        if not self._try_float64():
            before = self.lengths
            self._check_runs()
            if self.lengths != before:
                self._try_float64()

    @property
    def arithmetic(self) -> str:
        """The arithmetic that properties are tested in, in words."""
        kind = str(self.dtype).removeprefix("torch.")
        if not self.wide:
            return f"{kind} (a float64 copy does not run: {self.why_not_wide})"
        return "float64" if self.dtype is torch.float64 else f"a float64 copy of the {kind} model"

    @property
    def is_long(self) -> bool:
        """Whether questions are so long that fewer of them do."""
        return sum(self.lengths) > _LONG

    # making questions

    def make(self, batch: int | None = None, *, lengths: tuple[int, ...] | None = None, draw: int = 0) -> Question:
        """A question drawn at random, all tokens real; the same ``draw`` gives the same tokens.

        Of three examples, where nothing else is said; of long texts two, because their answers are large.
        """
        lengths = lengths or self.lengths
        batch = batch or (BATCH if sum(lengths) <= _LONG else BATCH - 1)
        if (batch, lengths, draw) in self._questions:
            return self._questions[batch, lengths, draw]
        generator = torch.Generator().manual_seed(1009 * self.seed + draw)
        rows = []
        for stream, length in zip(self.streams, lengths, strict=True):
            values = self.tokens(stream, batch, length, generator)
            if self.given.tokens is not None and draw == 0 and stream is self.streams[0]:
                own = self.given.inputs[stream.name][0]  # the text is the first example, again and again if it is short
                values[0] = own[torch.arange(length, device=own.device) % len(own)]
            keep = torch.ones(batch, length, dtype=torch.bool, device=self.device)
            rows.append(Rows(values=values, keep=keep, extras=self._extras(stream, batch, length)))
        made = Question(rows=tuple(rows), others=self._others(batch, lengths))
        self._questions[batch, lengths, draw] = made
        return made

    def first_of(self, question: Question) -> Question:
        """The first example of a question, by itself; asked for again, the same one."""
        if id(question) not in self._firsts:
            lengths = tuple(r.length for r in question.rows)
            rows = tuple(r.at(slice(0, 1)) for r in question.rows)
            alone = Question(rows=rows, others=self._others(1, lengths))
            self._firsts[id(question)] = (question, alone)  # held, so that its id stays its own
        return self._firsts[id(question)][1]

    def tokens(
        self, stream: Stream, batch: int, length: int, generator: torch.Generator, *, blank: bool = True
    ) -> Tensor:
        """Tokens of a stream, drawn; one of them is to be filled in, where the model does such things."""
        if stream.vocabulary is None:
            example = self.given.inputs[stream.name]
            spread = float(example.float().std()) if example.numel() > 1 else 1.0
            drawn = torch.randn((batch, length, example.shape[-1]), generator=generator, dtype=torch.float64)
            return drawn.mul_(spread or 1.0).to(self.device)
        size = min(stream.vocabulary, 50_000)
        free = torch.tensor([i for i in range(size) if i not in stream.avoid] or [0])
        drawn = free[torch.randint(0, len(free), (batch, length), generator=generator)].to(self.device)
        if blank and stream.blank is not None and length > 2:
            drawn[:, 1] = stream.blank
        return drawn

    def other_tokens(self, stream: int, values: Tensor, *, seed: int = 2) -> Tensor:
        """Drawn tokens of the same shape, none of them the one that is there (where there is another)."""
        of = self.streams[stream]
        generator = torch.Generator().manual_seed(1009 * self.seed + seed)
        drawn = self.tokens(of, int(values.shape[0]), int(values.shape[1]), generator)
        free = [i for i in range(min(of.vocabulary or 0, 50_000)) if i not in of.avoid]
        if of.vocabulary is None or len(free) < 2:
            return drawn if of.vocabulary is None else values
        table = torch.tensor(free, device=drawn.device)
        following = table[(torch.searchsorted(table, drawn.contiguous()) + 1) % len(free)]
        return torch.where(drawn == values, following, drawn)

    def repeat_first(self, alone: Question, times: int) -> Question:
        """A question of one example, that many times in one batch."""
        zeros = torch.zeros(times, dtype=torch.long)
        rows = tuple(r.at(zeros) for r in alone.rows)
        first = self._others(1, tuple(r.length for r in rows))
        others = self._others(times, tuple(r.length for r in rows))
        for name, value in others.items():
            if isinstance(value, Tensor) and value.shape != first[name].shape:
                axis = next(i for i, n in enumerate(value.shape) if n != first[name].shape[i])
                others[name] = repeat_along(first[name], axis, times)
        return Question(rows=rows, others=others)

    def inputs(self, question: Question, *, wide: bool | None = None) -> dict[str, Any]:
        """The inputs of forward for a question."""
        wide = self.wide if wide is None else wide
        dtype = torch.float64 if wide else self.dtype
        inputs: dict[str, Any] = {k: _to_dtype(v, dtype) for k, v in question.others.items()}
        for stream, rows in zip(self.streams, question.rows, strict=True):
            tokens = dict.fromkeys((stream.name, *stream.also), _to_dtype(rows.values, dtype))
            extras = {name: _to_dtype(value, dtype) for name, value in rows.extras.items()}
            for name, value in (tokens | extras).items():
                inputs[name] = value if self.given.batch_first else value.transpose(0, 1)
            for mask in stream.masks:
                if not bool(rows.keep.all()) or mask.name in self.given.inputs:
                    inputs[mask.name] = mask.of(rows.keep, dtype)
            if stream.positions is not None and rows.positions is not None:
                inputs[stream.positions] = rows.positions.clone()  # a model may write into them
            elif stream.positions is not None and stream.positions in self.given.inputs:
                inputs[stream.positions] = torch.arange(rows.length, device=self.device).repeat(len(rows.keep), 1)
        return {k: inputs[k] for k in sorted(inputs, key=self._place)}

    def _place(self, name: str) -> tuple[int, str]:
        order = list(self.given.inputs)
        return (order.index(name) if name in order else len(order), name)

    def _extras(self, stream: Stream, batch: int, length: int) -> dict[str, Tensor]:
        """Inputs that have an entry for every token of a stream, for so many examples and tokens."""
        axes = (0, 1) if self.given.batch_first else (1, 0)
        moved = {name: self.given.inputs[name] for name in stream.extras}
        batch_first = {name: value if axes == (0, 1) else value.transpose(0, 1) for name, value in moved.items()}
        return {name: repeat_along(repeat_along(v, 0, batch), 1, length) for name, v in batch_first.items()}

    def _others(self, batch: int, lengths: tuple[int, ...]) -> dict[str, Any]:
        """Inputs that are no stream: tensors get the batch and the lengths, anything else is passed on."""
        roles = {n for s in self.streams for n in (s.name, *s.also, *s.extras, s.positions, *(m.name for m in s.masks))}
        rest = {k: v for k, v in self.given.inputs.items() if k not in roles and k != "labels"}
        return {k: self._resize(v, batch, lengths) if isinstance(v, Tensor) else v for k, v in rest.items()}

    def _resize(self, value: Tensor, batch: int, lengths: tuple[int, ...]) -> Tensor:
        if not self.streams:
            return repeat_along(value, 0, batch) if value.ndim else value
        first = self.given.inputs[self.streams[0].name]
        batch_axis, length_axis = (0, 1) if self.given.batch_first else (1, 0)
        examples = {self.given.inputs[s.name].shape[length_axis]: n for s, n in zip(self.streams, lengths, strict=True)}
        square = value.ndim >= 2 and value.shape[-1] == value.shape[-2]
        if square and value.shape[-1] in examples:
            value = resize_square(value, examples[value.shape[-1]])
        for axis, size in enumerate(value.shape):
            is_batch = size == first.shape[batch_axis] and axis == batch_axis and not (square and value.ndim == 2)
            if is_batch:
                value = repeat_along(value, axis, batch)
            elif size in examples and not (square and axis >= value.ndim - 2):
                value = repeat_along(value, axis, examples[size])
        return value

    # asking

    def ask(self, question: Question, *, wide: bool | None = None) -> list[Output]:
        """What the model answers, without gradients. Some answers are remembered."""
        wide = self.wide if wide is None else wide
        key = (id(question), wide)
        if key in self._answers:
            return self._answers[key][1]
        made = self._answer(question, None, wide)
        self._answers[key] = (question, made)  # held, so that its id stays its own
        return made

    def _answer(self, question: Question, jitter: int | None, wide: bool) -> list[Output]:
        """Asked at once; a model with room for fewer examples (a cache in buffers) is asked a few at a time."""
        try:
            with torch.no_grad(), self.running(wide=wide, jitter=jitter):
                made = call(self.module if wide else self.native, self.inputs(question, wide=wide))
            return self.outputs(made, question)
        except Exception:
            if question.batch <= BATCH:
                raise
        starts = range(0, question.batch, BATCH)
        parts = [
            self._answer(rows_of(question, list(range(i, min(i + BATCH, question.batch)))), jitter, wide)
            for i in starts
        ]
        return [replace(o[0], values=torch.cat([p.values for p in o])) for o in zip(*parts, strict=True)]

    def _make_room(self) -> None:
        """Before the model runs: the oldest answers go until the rest are small; those to the first always stay."""
        first = (id(self.make()), self.wide)
        sizes = {k: sum(o.values.nbytes for o in made) for k, (_, made) in self._answers.items() if k != first}
        while sizes and sum(sizes.values()) > _REMEMBERED:
            oldest = next(iter(sizes))
            del self._answers[oldest], sizes[oldest]
        if self.is_large:
            _return_freed_memory()

    def at_once(self, length: int) -> int:
        """How many examples of a length are asked at once: their answers are to take no more than those held."""
        base = self.make()
        first = sum(o.values.nbytes for o in self.ask(base)) // (base.batch * self.lengths[-1])
        return max(BATCH, _REMEMBERED // max(first * length, 1))

    def short_lengths(self) -> tuple[int, ...]:
        """Lengths for what does not hang on length: those of the audit, or the usual small ones where it has longer."""
        return tuple(min(n, m) for n, m in zip(self.lengths, self._usual, strict=True))

    def longer_lengths(self) -> tuple[int, ...] | None:
        """Lengths with a longer last stream, for what goes wrong above some length; None where there is no room."""
        most = self.streams[-1].longest or _LONG
        sizes = [n for n in (*_LONGER, most) if self.lengths[-1] + 1 < n <= most]
        return None if self.is_long or not sizes else (*self.lengths[:-1], sizes[0])

    def rounding_noise(self) -> dict[str, float]:
        """How far rounding moves each output: the first question again, with every rounding disturbed.

        Of a long one the first example: it has numbers enough.
        """
        if self._noise is None:
            question = self.first_of(self.make()) if self.is_long else self.make()
            base = {o.name: o.values for o in self.ask(question)}
            self._noise = dict.fromkeys(base, 0.0)
            for jitter in range(self.jitters):
                for o in self._answer(question, jitter, self.wide):  # asked for once, so not remembered
                    parts = (torch.split(values.reshape(-1), _AT_ONCE) for values in (o.values, base[o.name]))
                    for mine, plain in zip(*parts, strict=True):
                        moved = (mine - plain).abs_().nan_to_num_(nan=0.0, posinf=0.0, neginf=0.0)
                        self._noise[o.name] = max(self._noise[o.name], float(moved.max()))
        return self._noise

    def hangs_on_ties(self) -> bool:
        """Whether rounding alone moves an answer by a millionth of it: choices tie, and nothing smaller is seen."""
        noise = self.rounding_noise()
        sizes = {o.name: float(o.values.abs().nan_to_num_(nan=0.0, posinf=0.0).max()) for o in self.ask(self.make())}
        return self.wide and any(n > 1e-6 * sizes.get(name, 0.0) for name, n in noise.items())

    @contextlib.contextmanager
    def running(
        self, *, wide: bool | None = None, jitter: int | None = None, unit: torch.dtype | None = None
    ) -> Iterator[None]:
        """The arithmetic of the audit; warnings of the model are the model's business."""
        wide = self.wide if wide is None else wide
        self._make_room()
        with warnings.catch_warnings(), arithmetic(widen=wide, jitter=jitter, unit=unit):
            warnings.simplefilter("ignore")
            yield

    def outputs(self, made: Any, question: Question) -> list[Output]:
        """The float tensors of an answer whose first axis is the batch."""
        outputs = []
        for name, value in tensors_of(made):
            output = self._output(f"output{name}" if name[:1] in ("", "[") else name, value, question)
            if output is not None:
                outputs.append(output)
        if not outputs:
            raise InputError(
                f"{self.given.name} returned no tensor of numbers whose first axis is the batch ({question.batch}); "
                "wrap it so that it returns one."
            )
        return outputs

    def _output(self, name: str, value: Tensor, question: Question) -> Output | None:
        if not value.is_floating_point() or value.ndim == 0:
            return None
        lengths = [r.length for r in question.rows]
        if not self.given.batch_first and value.ndim > 1 and value.shape[1] == question.batch:
            value = value.transpose(0, 1)
        if value.shape[0] != question.batch:
            return None
        stream = None
        if value.ndim > 1:
            # The last stream is the one that the output follows.
            matching = [i for i in range(len(lengths)) if lengths[i] == value.shape[1]]
            stream = matching[-1] if matching else None
        return Output(name=name, values=value.detach(), stream=stream)

    # copies

    def _check_runs(self) -> None:
        """A model that runs at the length of its example only is asked at that length."""
        try:
            self.ask(self.make(), wide=False)
        except InputError:
            raise
        except Exception as error:
            axis = 1 if self.given.batch_first else 0
            own = tuple(int(self.given.inputs[s.name].shape[axis]) for s in self.streams)
            if own == self.lengths:
                raise InputError(
                    f"{self.given.name} runs on its example and not on a batch of {BATCH} like it "
                    f"({describe_error(error)}); let "
                    "it take any batch."
                ) from None
            if self.wanted is not None:
                raise InputError(
                    f"{self.given.name} runs on its example and not on {self.wanted} tokens "
                    f"({describe_error(error)}); choose another length."
                ) from None
            self.lengths = self._usual = own
            self._check_runs()

    def _try_float64(self) -> bool:
        """Whether a float64 copy answers the first question; if so, that is what is tested."""
        try:
            if self.dtype is not torch.float64:
                self.module = copy_module(self.native, torch.float64)
            self.wide = True
            answers = self.ask(self.make())
            if self.module is not self.native and not all(o.values.dtype is torch.float64 for o in answers):
                raise InputError("its answers are narrower all the same")
            self.names |= _names(self.module)
        except Exception as error:  # whatever stops it, the model itself can still be tested
            self.module, self.wide, self.why_not_wide = self.native, False, describe_error(error)
        return self.wide

    @contextlib.contextmanager
    def training(self) -> Iterator[None]:
        """A copy of the module under test, in train(), in its place."""
        module, names = self.module, self.names
        self.module = copy_module(module).train()
        self.names = names | _names(self.module)
        try:
            yield
        finally:
            self.module, self.names = module, names

    def drop_float64_copy(self) -> None:
        """Give its memory back. The last check calls this; what is asked afterwards is asked in the model's type."""
        self.module = self.native
        self._answers.clear()

    def renew(self) -> None:
        """The copy in the model's own type anew, without what earlier calls left behind in it."""
        alone = self.module is self.native
        self.native = eval_copy(self.given.module)
        self.module = self.native if alone else self.module
        self.names = _names(self.native) | _names(self.module)

    def _sizes(self, wanted: int | None) -> tuple[int, ...]:
        taken = {int(s) for p in self.given.module.parameters() for s in p.shape} | {BATCH}
        taken |= {v for m in self.given.module.modules() for v in vars(m).values() if type(v) is int}
        chosen: list[int] = []
        for stream in self.streams:
            most = stream.longest if stream.longest is not None else 10_000
            if most < _LEAST:
                raise InputError(
                    f"{self.given.name}: the example has {most} tokens in {stream.name}; an audit needs {_LEAST} or "
                    "more, better 17."
                )
            if wanted is not None:
                own = int(self.given.inputs[stream.name].shape[1 if self.given.batch_first else 0])
                most = 10_000 if most == own else most  # as long as the example is no bound of the model's: it is tried
                if not _LEAST <= wanted <= most:
                    raise InputError(f"The length {wanted} is not possible here; choose {_LEAST} to {most:,}.")
                size = wanted - len(chosen)
            else:
                fitting = [n for n in _LENGTHS if n + PAD <= most] or [n for n in _LENGTHS if n <= most]
                used = taken | {c + more for c in chosen for more in (0, PAD)}
                size = next((n for n in fitting if not {n, n + PAD} & used), fitting[-1])
            chosen.append(size)
        return tuple(chosen)


def _return_freed_memory() -> None:
    """Where glibc allocates, give the system back what was freed: it keeps pieces of a few megabytes for itself."""
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)


def model_dtype(module: nn.Module) -> torch.dtype:
    """The type that most of the model's numbers have."""
    counts: dict[torch.dtype, int] = {}
    for p in [*module.parameters(), *module.buffers()]:
        if p.is_floating_point():
            counts[p.dtype] = counts.get(p.dtype, 0) + p.numel()
    return max(counts, key=lambda d: counts[d]) if counts else torch.float32


def _coarsest(module: nn.Module) -> torch.dtype:
    """The coarsest type that a weight has: the model declares to work in it, somewhere."""
    types = {p.dtype for p in module.parameters() if p.is_floating_point() and p.element_size() > 1}
    return max(types, key=lambda d: torch.finfo(d).eps, default=torch.float32)


def eval_copy(module: nn.Module) -> nn.Module:
    """A copy in eval() mode, so that the model that was given is left as it was."""
    try:
        return copy_module(module).eval()
    except Exception as error:
        raise InputError(
            f"{type(module).__name__} cannot be copied ({describe_error(error)}), and an audit works on a copy; "
            "keep no "
            "tensors with gradients or open files in its attributes."
        ) from None


def _names(module: nn.Module) -> dict[int, str]:
    return {id(m): name for name, m in original(module).named_modules()}


def _to_dtype(value: Any, dtype: torch.dtype) -> Any:
    """A tensor of its own (a model may write into its input), floats in the given type."""
    if not isinstance(value, Tensor):
        return value
    return value.to(dtype, copy=True) if value.is_floating_point() else value.clone()


_NO_OUTPUT = (
    *("past_key_values", "attentions", "hidden_states", "cross_attentions", "decoder_attentions", "cache"),
    *("cache_params", "state", "mems", "past_buckets_states"),  # memory of other kinds
)


def tensors_of(made: Any, name: str = "") -> Iterator[tuple[str, Tensor]]:
    """The tensors of an answer, with names; caches and attention maps are left out."""
    if isinstance(made, Tensor):
        yield name, made
    elif isinstance(made, Mapping):
        for key, value in made.items():
            if key not in _NO_OUTPUT:
                yield from tensors_of(value, f"{name}.{key}".lstrip("."))
    elif dataclasses.is_dataclass(made):
        yield from tensors_of(vars(made), name)
    elif isinstance(made, (tuple, list)):
        for i, value in enumerate(made):
            if isinstance(value, Tensor) or (i == 0 and isinstance(value, (tuple, list, Mapping))):
                yield from tensors_of(value, f"{name}[{i}]" if len(made) > 1 else name)


def takes(module: nn.Module, name: str) -> bool:
    """Whether forward has a parameter of this name."""
    return name in parameter_names(module)
