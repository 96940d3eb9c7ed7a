"""What is left to gain in training: the matrix products of a step of the encoder-decoder, and how fast they could be.

CPU time of one thread. Every product of a step is timed where it happens (`in the step`), then again alone, with
operands of the same shapes and layouts that nothing else pushes out of the cache (`alone`), and at last beside it a
product of 1,024 x 1,024 x 1,024, the easiest there is. What attention multiplies inside torch's own kernel is counted
with the rest of the step. The whole step is timed without any of these clocks.
"""

from __future__ import annotations

import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from benchmarks.bench_training import Ours, prepared
from regard.translator.runs.settings import Settings
from regard.translator.training.loop import deterministic_algorithms

STEPS, WARM, ROUNDS = 8, 4, 3
EASIEST = 1024
PRODUCTS = {
    torch.ops.aten.mm.default: 0,
    torch.ops.aten.mm.out: 0,
    torch.ops.aten.addmm.default: 1,
    torch.ops.aten.addmm_.default: 1,
}  # and at which of its arguments the first factor is

Layout = tuple[tuple[int, ...], tuple[int, ...]]  # shape and strides


@dataclass(frozen=True)
class Product:
    """A product of two matrices, by their layouts."""

    left: Layout
    right: Layout

    @property
    def flop(self) -> int:
        (rows, inner), (_, columns) = self.left[0], self.right[0]
        return 2 * rows * inner * columns

    def of(self, settings: Settings, words: int) -> str:
        """Which part of the model it belongs to."""
        sides = {*self.left[0], *self.right[0]}
        if words in sides:
            return "output layer and loss"
        return "feed-forward" if settings.model.feed_forward in sides else "attention's projections"


class Clock(TorchDispatchMode):
    """Times every matrix product inside."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds: dict[Product, list[float]] = defaultdict(list)

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func not in PRODUCTS:
            return func(*args, **(kwargs or {}))
        left, right = args[PRODUCTS[func] : PRODUCTS[func] + 2]
        began = time.process_time()
        result = func(*args, **(kwargs or {}))
        self.seconds[Product(layout(left), layout(right))].append(time.process_time() - began)
        return result


def layout(matrix: Tensor) -> Layout:
    return tuple(matrix.shape), tuple(matrix.stride())


def main() -> None:
    torch.set_num_threads(1)
    settings, data = prepared()
    arm = Ours(settings, data)
    batches = [data.train.batch(rows) for rows in arm.plan[: WARM + STEPS]]
    with deterministic_algorithms(1):
        for batch in batches[:WARM]:
            arm.step(batch)
        step = min(spent(lambda: [arm.step(batch) for batch in batches[WARM:]]) for _ in range(ROUNDS)) / STEPS
        with Clock() as clock:
            for batch in batches[WARM:]:
                arm.step(batch)
    tokens = sum(len(batch.labels) - len(batch) for batch in batches[WARM:]) / STEPS
    print(f"a step of {tokens:,.0f} target tokens, {1e3 * step:,.0f} ms; mean of {STEPS} steps")
    table(clock.seconds, step, lambda product: product.of(settings, len(data.target)))


def table(seconds: dict[Product, list[float]], step: float, part: Callable[[Product], str]) -> None:
    rows: dict[str, list[float]] = defaultdict(lambda: [0.0, 0.0, 0.0])
    for product, times in seconds.items():
        whole = [len(times) * product.flop / STEPS, sum(times) / STEPS, len(times) * alone(product) / STEPS]
        for name in (part(product), "all products"):
            rows[name] = [a + b for a, b in zip(rows[name], whole, strict=True)]
    print(f"{'':<26}{'GFLOP':>7}{'ms':>7}{'of the step':>13}{'GFLOP/s':>9}{'alone':>7}")
    for name, (flop, inside, best) in sorted(rows.items(), key=lambda row: row[1][0]):
        rates = f"{flop / inside / 1e9:>9.1f}{flop / best / 1e9:>7.1f}"
        print(f"{name:<26}{flop / 1e9:>7.2f}{1e3 * inside:>7.0f}{inside / step:>13.0%}{rates}")
    flop, inside, _ = rows["all products"]
    print(f"{'everything else':<26}{'':>7}{1e3 * (step - inside):>7.0f}{1 - inside / step:>13.0%}")
    square: Layout = ((EASIEST, EASIEST), (EASIEST, 1))
    easiest = Product(square, square)
    rate = easiest.flop / alone(easiest)
    print(f"a product of {EASIEST:,} x {EASIEST:,} x {EASIEST:,}: {rate / 1e9:.1f} GFLOP/s")
    print(
        f"all products at that rate: the step {step / (step - inside + flop / rate):.2f} x as fast as it is;", end=" "
    )
    print(f"nothing but the products at that rate: {step / (flop / rate):.2f} x")


def alone(product: Product) -> float:
    """Seconds of one product, at its best."""
    left, right = (torch.randn(shape).as_strided(shape, strides) for shape, strides in (product.left, product.right))
    result = torch.empty(len(left), right.shape[1])
    return min(spent(lambda: torch.mm(left, right, out=result)) for _ in range(1 + ROUNDS))


def spent(do: Callable[[], Any]) -> float:
    began = time.process_time()
    do()
    return time.process_time() - began


if __name__ == "__main__":
    main()
