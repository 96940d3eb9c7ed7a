"""Which heads matter: switch each one off (ablation), or give it what it gave for another input (patching).

    ablation    effect = how far the output moves when head h of layer l gives zero, its mean, or reads all keys alike
    patching    run the corrupted input, but let head h of layer l give what it gave for the clean one;
                effect = (m_patched - m_corrupted) / (m_clean - m_corrupted): 0 nothing is restored, 1 everything

``m`` is a number read off the model's output. Without one, patching measures how much of the way from the corrupted
output to the clean one is gone (1 - |patched - clean| / |corrupted - clean|), and ablation |changed - usual| / |usual|.
Effects of heads do not add up: each is measured with all others at work. A list of inputs gives the mean effect over
them, each run by itself, so that none is padded, with the standard deviation beside it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.utils._pytree import tree_leaves

from regard.array_types import Float
from regard.errors import InputError, RegardError
from regard.progress import Progress
from regard.results import Result as Answer
from regard.terminal import plain_cell
from regard_models.capturing.attention_capture import Run, run_model
from regard_models.capturing.dispatch_watch import Watch
from regard_models.capturing.records import format_ranges
from regard_models.editing.head_edits import edit, uniform
from regard_models.inputs.model_input import original
from regard_models.kernels.attention_call import AttentionCall, Result

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Metric = Callable[[Any], float]
ABLATIONS: dict[str, dict[str, Any]] = {
    "zero": {"output": 0.0},
    "mean": {"mean": True},
    "uniform": {"pattern": uniform},
}
PATCHES = ("output", "pattern")


@dataclass(frozen=True, kw_only=True, eq=False)
class Effects(Answer):
    """One number for every head: what editing it does. ``effects`` is layers x heads, NaN where there is no head."""

    name: str
    what: str
    measure: str
    layers: tuple[int, ...]
    modules: tuple[str, ...]
    effects: Float
    clean: float | None = None
    corrupted: float | None = None
    prompts: int = 1
    spread: Float | None = None  # standard deviation over several prompts

    def strongest(self, count: int = 10) -> list[tuple[int, int, float]]:
        """Layer, head and effect of the heads that matter most."""
        rows, heads = np.nonzero(np.isfinite(self.effects))
        order = np.argsort(-np.abs(self.effects[rows, heads]), kind="stable")[:count]
        return [(self.layers[rows[i]], int(heads[i]), float(self.effects[rows[i], heads[i]])) for i in order]

    def table(self) -> Iterator[tuple[int, str, int, float]]:
        """Layer, module, head, effect: every head there is."""
        for layer, module, row in zip(self.layers, self.modules, self.effects, strict=True):
            for head, effect in enumerate(row):
                if np.isfinite(effect):
                    yield layer, module, head, float(effect)

    def to_csv(self) -> str:
        """The table as text, a header first."""
        quoted = {module: plain_cell(module).replace('"', '""') for module in self.modules}
        lines = [f'{layer},"{quoted[module]}",{head},{effect!r}' for layer, module, head, effect in self.table()]
        return "\n".join(["layer,module,head,effect", *lines]) + "\n"

    def figure(self) -> Figure:
        from regard_models.editing.head_pictures import sketch_effects

        return sketch_effects(self)

    def __str__(self) -> str:
        count = int(np.isfinite(self.effects).sum())
        over = f", mean of {self.prompts} prompts" if self.prompts > 1 else ""
        heads = f"{count} heads in layers {format_ranges(self.layers)}"
        lines = [f"{self.name}: {self.what}, {heads}{over}. Effect: {self.measure}."]
        if self.clean is not None:
            lines.append(f"Clean {self.clean:.4g}, corrupted {self.corrupted:.4g}.")
        lines.append("The strongest heads:")
        lines += [f"  layer {layer:>2}  head {head:>2}  {effect:+.4f}" for layer, head, effect in self.strongest()]
        return "\n".join([*lines, "Each effect is measured with all other heads at work: effects do not add up."])


def ablate(
    model: nn.Module, inputs: Any, *, by: str = "zero", layers: Sequence[int] | None = None,
    metric: Metric | None = None, run: Run | None = None, progress: Progress | None = None,
) -> Effects:  # fmt: skip
    """What the output does when each head in turn gives zero, its mean, or reads all its keys alike.

    ``metric`` reads a number off the output; the effect is then its change. A list of inputs gives the mean.

    >>> attention = nn.MultiheadAttention(8, 2, batch_first=True).eval()
    >>> words = torch.randn(1, 5, 8)
    >>> ablate(attention, (words, words, words)).effects.shape
    (1, 2)
    """
    if by not in ABLATIONS:
        raise InputError(f"Heads are ablated by zero, mean or uniform, not by {by!r}.")
    if isinstance(inputs, list):
        options: dict[str, Any] = {"by": by, "layers": layers, "metric": metric, "run": run, "progress": progress}
        return mean_effects([ablate(model, one, **options) for one in inputs])
    with torch.no_grad():
        sites, usual = read_heads(model, inputs, run)
        measure = _output_change(usual) if metric is None else _metric_change(metric, usual)
        said = "|changed - usual| / |usual| of the output" if metric is None else "change of the metric"
        return _edit_each_head(
            model, inputs, sites, measure, run=run, progress=progress, layers=layers,
            change=lambda layer, head: ABLATIONS[by], what=f"ablation by {by}", measure_name=said,
        )  # fmt: skip


def patch(
    model: nn.Module, clean: Any, corrupted: Any, *, what: str = "output", layers: Sequence[int] | None = None,
    metric: Metric | None = None, run: Run | None = None, progress: Progress | None = None,
) -> Effects:  # fmt: skip
    """How much of the clean answer comes back when one head of the corrupted run gives what it gave for the clean one.

    ``what`` is exchanged: a head's "output" or only its "pattern". The two inputs must have the same shapes; lists of
    them, one corrupted for every clean one, give the mean.
    """
    if what not in PATCHES:
        raise InputError(f"A head's output or pattern can be patched, not its {what!r}.")
    if isinstance(clean, list) or isinstance(corrupted, list):
        options: dict[str, Any] = {"what": what, "layers": layers, "metric": metric, "run": run, "progress": progress}
        return mean_effects([patch(model, *pair, **options) for pair in pair_prompts(clean, corrupted)])
    with torch.no_grad():
        sites, good = read_heads(model, clean, run)
        other, bad = read_heads(model, corrupted, run)
        _refuse_different(sites, other)
        measure, ends = _output_recovery(good, bad) if metric is None else _metric_recovery(metric, good, bad)
        said = "part of the way from the corrupted to the clean " + ("output" if metric is None else "metric")
        result = _edit_each_head(
            model, corrupted, sites, measure, run=run, progress=progress, layers=layers,
            change=lambda layer, head: {what: getattr(sites[layer], what)[:, [head]]},
            what=f"patching of each head's {what}", measure_name=said,
        )  # fmt: skip
    return result if ends is None else Effects(**{**vars(result), "clean": ends[0], "corrupted": ends[1]})


def pair_prompts(clean: Any, corrupted: Any) -> list[tuple[Any, Any]]:
    """One corrupted input for every clean one."""
    if not isinstance(clean, list) or not isinstance(corrupted, list) or len(clean) != len(corrupted):
        counts = [len(one) if isinstance(one, list) else 1 for one in (clean, corrupted)]
        raise InputError(
            f"Every clean input needs its corrupted one, in the same order: there are {counts[0]} and {counts[1]}."
        )
    return list(zip(clean, corrupted, strict=True))


def mean_effects(results: Sequence[Effects]) -> Effects:
    """The mean over prompts and its standard deviation; every prompt must have run the same heads."""
    if not results:
        raise InputError("The list of inputs is empty; give at least one.")
    first = results[0]
    if any(one.modules != first.modules or one.effects.shape != first.effects.shape for one in results):
        raise InputError("The prompts ran different attention layers, so no mean over them can be taken.")
    effects = np.stack([one.effects for one in results])
    ends = {name: [getattr(one, name) for one in results] for name in ("clean", "corrupted")}
    means: dict[str, Any] = {name: None if None in v else float(np.mean(v)) for name, v in ends.items()}
    return replace(first, effects=effects.mean(axis=0), spread=effects.std(axis=0), prompts=len(results), **means)


@dataclass(frozen=True, eq=False)
class Site:
    """What a layer's heads gave in the first run of the model."""

    module: str
    output: Tensor  # batch, heads, queries, width
    pattern: Tensor


class _Reader(Watch):
    def __init__(self, model: nn.Module) -> None:
        super().__init__(model)
        self.by_layer: dict[int, Site] = {}

    def handle_attention(self, call: AttentionCall, result: Result) -> Result:
        module = self.stack.name
        index, _ = self.sites.next(module)
        site = Site(module, call.output(call.whole).clone(), call.weights(call.whole).clone())
        self.by_layer.setdefault(index, site)
        return result


def read_heads(model: nn.Module, inputs: Any, run: Run | None = None) -> tuple[dict[int, Site], Any]:
    """Every layer's outputs and patterns, by the layer's number, and the model's output."""
    reader = _Reader(model)
    with reader:
        output = run_model(model, inputs, run)
    if not reader.by_layer:
        raise InputError(f"No attention ran inside {type(model).__name__}, so there is no head to edit.")
    return reader.by_layer, output


def _edit_each_head(
    model: nn.Module, inputs: Any, sites: dict[int, Site], measure: Metric, *, run: Run | None,
    progress: Progress | None, layers: Sequence[int] | None, change: Callable[[int, int], dict[str, Any]],
    what: str, measure_name: str,
) -> Effects:  # fmt: skip
    chosen = _select_layers(sites, layers)
    counts = [sites[layer].output.shape[1] for layer in chosen]
    effects = np.full((len(chosen), max(counts)), np.nan)
    done = 0
    for row, layer in enumerate(chosen):
        for head in range(counts[row]):
            with edit(model, layer=layer, head=head, **change(layer, head)):
                effects[row, head] = measure(run_model(model, inputs, run))
            done += 1
            if progress is not None:
                progress(done, sum(counts))
    return Effects(
        name=type(original(model)).__name__, what=what, measure=measure_name, layers=tuple(chosen), effects=effects,
        modules=tuple(sites[layer].module for layer in chosen),
    )  # fmt: skip


def _select_layers(sites: dict[int, Site], layers: Sequence[int] | None) -> list[int]:
    chosen = sorted(sites) if layers is None else list(layers)
    if wrong := [layer for layer in chosen if layer not in sites]:
        raise InputError(f"There is no layer {wrong[0]}: {len(sites)} attention layers ran, counted from 0.")
    return chosen


def main_tensor(output: Any) -> Tensor:
    """The first tensor of floats in a model's output: logits, or states."""
    for leaf in tree_leaves(output):
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf.double()
    values = output.values() if hasattr(output, "values") else ()
    for leaf in values:
        if isinstance(leaf, Tensor) and leaf.is_floating_point():
            return leaf.double()
    raise InputError("The model's output holds no tensor of floats; give a metric that reads a number off it.")


def _output_change(usual: Any) -> Metric:
    before = main_tensor(usual)
    size = float(before.norm()) or 1.0
    return lambda output: float((main_tensor(output) - before).norm()) / size


def _metric_change(metric: Metric, usual: Any) -> Metric:
    before = _number(metric, usual)
    return lambda output: _number(metric, output) - before


def _output_recovery(good: Any, bad: Any) -> tuple[Metric, None]:
    clean = main_tensor(good)
    gap = float((main_tensor(bad) - clean).norm())
    _refuse_no_gap(gap)
    return (lambda output: 1 - float((main_tensor(output) - clean).norm()) / gap), None


def _metric_recovery(metric: Metric, good: Any, bad: Any) -> tuple[Metric, tuple[float, float]]:
    clean, corrupted = _number(metric, good), _number(metric, bad)
    _refuse_no_gap(clean - corrupted)
    return (lambda output: (_number(metric, output) - corrupted) / (clean - corrupted)), (clean, corrupted)


def _number(metric: Metric, output: Any) -> float:
    try:
        return float(metric(output))
    except RegardError:
        raise
    except (TypeError, ValueError, RuntimeError):
        raise InputError("The metric must return one number for the model's output.") from None


def _refuse_no_gap(gap: float) -> None:
    if gap == 0:
        raise InputError("The clean and the corrupted input give the same result, so there is nothing to restore.")


def _refuse_different(clean: dict[int, Site], corrupted: dict[int, Site]) -> None:
    for layer, site in clean.items():
        other = corrupted.get(layer)
        if other is None or other.pattern.shape != site.pattern.shape:
            came = "nothing" if other is None else tuple(other.pattern.shape)
            raise InputError(
                f"The clean and the corrupted input must have as many tokens: layer {layer} has weights of shape "
                f"{tuple(site.pattern.shape)} for the one and {came} for the other."
            )
