"""Capturing attention: what is covered, what it costs, and how that stands beside TorchLens and AttnRead.

Coverage is a table: every case is run plainly and captured, and must give the same output bit for bit, weights whose
product with the values is the kernel's output, weights that pass the identity probe, and, where there is one, the
weights of a slow version. The cost is a ratio in one run: seconds of one thread for a captured forward over seconds for
a plain one, BERT-base, best of three, taking turns; for 2,048 tokens the weights go to a file and the memory above the
model is measured in a process of its own.

The peers want other versions of torch and transformers than ours, so they are installed apart, each package by itself,
into a folder that the environment variable REGARD_PEERS names; without it they are left out:

    pip install --no-deps --target peers torchlens graphviz attnread nnsight==0.7.0 (and what these import)
    REGARD_PEERS=peers python -m benchmarks capture --write
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import io
import logging
import os
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import torch

TESTS = Path(__file__).parent.parent / "packages" / "regard-models" / "tests"  # the cases are the tests'
LENGTHS, ROUNDS, LONG = (128, 512), 3, 2048


def main() -> None:
    warnings.simplefilter("ignore")
    logging.getLogger("transformers").setLevel(logging.ERROR)
    torch.set_num_threads(1)
    sys.path.insert(0, str(TESTS))
    print(f"torch {torch.__version__}, one thread; transformers {version('transformers')}")
    coverage()
    if importlib.util.find_spec("transformers") is None:
        print("left out: the cost and the peers, for want of transformers")
        return
    cost()
    long_input()
    peers()


def version(name: str) -> str:
    from importlib.metadata import PackageNotFoundError
    from importlib.metadata import version as of

    try:
        return of(name)
    except PackageNotFoundError:
        return "not installed"


# coverage


def coverage() -> None:
    zoo = importlib.import_module("attention_zoo")
    total = good = 0
    for title, cases in groups():
        print(f"\n{title}\n{'':<42}{'kernel':<22}{'layers':>6}{'grad':>6}{'no_grad':>9}{'inference':>11}{'W V':>8}")
        for case in cases:
            rows = {mode: examined(zoo, case, mode) for mode in case.modes}
            total, good = total + len(rows), good + sum(not isinstance(r, str) and r.good for r in rows.values())
            print(line(case, rows))
    print(f"\n{good} of {total} runs: same output bit for bit, W V = output, identity probe passed, nothing missed")


def groups() -> Iterator[tuple[str, list[Any]]]:
    zoo = {name: importlib.import_module(f"attention_zoo.{name}") for name in ("torch_layers", "by_hand", "wrappers")}
    yield "torch.nn", zoo["torch_layers"].CASES
    yield "written by hand", zoo["by_hand"].CASES
    yield "wrappers and number types", zoo["wrappers"].CASES
    if importlib.util.find_spec("transformers") is not None:
        families = importlib.import_module("attention_zoo.families")
        yield "Hugging Face families", list(family_cases(families))
        yield "generate, with a cache", list(writing_cases(zoo, families))


def family_cases(families: Any) -> Iterator[Any]:
    """Every implementation that the library offers here and that runs without us."""
    for family in families.FAMILIES:
        for implementation in families.IMPLEMENTATIONS:
            case = families.case(family, implementation)
            with quiet(), torch.no_grad(), torch.compiler.set_stance("force_eager"):
                try:
                    module, inputs = case.build()
                    module(**inputs)
                except Exception as error:
                    print(f"not offered: {case.name}: {str(error).splitlines()[0][:70]}", file=sys.stderr)
                    continue
            yield case


def writing_cases(zoo: Any, families: Any) -> Iterator[Any]:
    case = importlib.import_module("attention_zoo").Case
    for name, options in (("GPT-2", {}), ("GPT-2", {"cache_implementation": "static"}), ("T5", {})):
        family = next(f for f in families.FAMILIES if f.name == name)
        said = f"{name}, {options.get('cache_implementation', 'dynamic')} cache"
        inputs = {"input_ids": families.example(family)["input_ids"]}
        build = lambda f=family, i=inputs: (families.make(f, "sdpa"), i)  # noqa: E731
        yield case(said, build, run=families.generate(**options))


def examined(zoo: Any, case: Any, mode: str) -> Any:
    with quiet():
        try:
            return zoo.examine(case, mode)
        except Exception as error:
            return f"{type(error).__name__}: {error}"


def line(case: Any, rows: dict[str, Any]) -> str:
    shown = next((row for row in rows.values() if not isinstance(row, str)), None)
    marks = [mark(rows.get(mode)) for mode in ("grad", "no_grad", "inference")]
    kernels = ", ".join(sorted({short(k) for row in rows.values() if not isinstance(row, str) for k in row.kernels}))
    worst = max((row.residual for row in rows.values() if not isinstance(row, str)), default=float("nan"))
    layers = "" if shown is None else shown.layers
    return f"{case.name:<42}{kernels[:21]:<22}{layers:>6}{marks[0]:>6}{marks[1]:>9}{marks[2]:>11}{worst:>8.0e}"


def short(kernel: str) -> str:
    return {"native multi-head attention": "native", "encoder fast path": "encoder"}.get(kernel, kernel)


def mark(row: Any) -> str:
    return "" if row is None else "NO" if isinstance(row, str) or not row.good else "yes"


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    with contextlib.redirect_stderr(io.StringIO()), contextlib.redirect_stdout(io.StringIO()):
        yield


# cost


def bert(implementation: str) -> Any:
    from transformers import BertConfig, BertModel

    torch.manual_seed(0)
    config = BertConfig(max_position_embeddings=4096)
    return BertModel._from_config(config, attn_implementation=implementation).eval()


def seconds(work: Callable[[], Any]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


def cost() -> None:
    from regard_models.capturing.attention_capture import capture

    print("\nBERT-base, 12 layers of 12 heads")
    print(f"{'tokens':<10}{'kernel':<10}{'forward s':>12}{'captured s':>12}{'ratio':>8}")
    for implementation in ("sdpa", "eager"):
        model = bert(implementation)
        for length in LENGTHS:
            ids = torch.randint(5, 30_000, (1, length), generator=torch.Generator().manual_seed(1))
            with torch.no_grad():
                capture(model, ids)  # the first call pays for things once
                pairs = [(seconds(lambda: model(ids)), seconds(lambda: capture(model, ids))) for _ in range(ROUNDS)]  # noqa: B023
            plain, captured = (min(column) for column in zip(*pairs, strict=True))
            print(f"{length:<10}{implementation:<10}{plain:>12.2f}{captured:>12.2f}{captured / plain:>8.2f}")


LONG_RUN = """
import sys, time, torch
sys.path.insert(0, {root!r})
from benchmarks.bench_capture import bert, peak
from regard_models.capturing.attention_capture import capture
torch.set_num_threads({threads})
model, ids = bert("sdpa"), torch.randint(5, 30_000, (1, {length}))
with torch.no_grad():
    capture(model, ids[:, :16])
    start, used = time.time(), time.process_time()
    model(ids)
    plain, worked, before = time.time() - start, time.process_time() - used, peak()
    start, used = time.time(), time.process_time()
    captured = capture(model, ids, stream={file!r})
    wall, work = time.time() - start, time.process_time() - used
print(plain, wall, worked, work, peak() - before, captured.answer)
"""


def peak() -> float:
    """The most memory that this process has held, in GB."""
    text = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(text.split("VmHWM:")[1].split()[0]) / 1e6


def long_input() -> None:
    with tempfile.TemporaryDirectory() as folder:
        file = str(Path(folder) / "weights.safetensors")
        code = LONG_RUN.format(root=str(TESTS.parent), length=LONG, file=file, threads=min(2, os.cpu_count() or 1))
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
        if done.returncode:
            print(f"left out: {LONG} tokens: {done.stderr.strip().splitlines()[-1]}")
            return
        plain, wall, worked, work, more, sound = done.stdout.split()[-6:]
        size = os.path.getsize(file) / 1e9
    print(f"\n{LONG:,} tokens to a file of {size:.1f} GB, two threads, by the clock:")
    print(f"{float(plain):.1f} s plain, {float(wall):.1f} s captured, {float(more):.2f} GB above the plain run's peak")
    print(f"({float(worked):.1f} and {float(work):.1f} s of work, which do not hang on what else the machine does)")
    print(f"all checks passed: {sound}")


# peers


def peers() -> None:
    sys.path.append(os.environ.get("REGARD_PEERS", "peers"))
    arms: dict[str, Callable[[Any, Any], int]] = {"regard": by_regard}
    rivals = [
        ("torchlens", "", by_torchlens),
        ("torchlens", ", sparing", by_torchlens_sparing),
        ("attnread", "", by_attnread),
    ]
    for name, how, arm in rivals:
        try:
            with quiet():
                importlib.import_module(name)
            arms[f"{name} {version(name)}{how}"] = arm
        except Exception as error:
            print(f"\nleft out: {name}: {type(error).__name__}: {str(error).splitlines()[0][:100]}")
    print(f"\n{'layers found / layers there':<34}" + "".join(f"{name:>29}" for name in arms))
    for said, build, layers in subjects():
        print(f"{said:<34}" + "".join(f"{tried(arm, build, layers):>29}" for arm in arms.values()))


def tried(arm: Callable[[Any, Any], int], build: Callable[[], tuple[Any, Any]], layers: int) -> str:
    """How many layers' weights an arm finds, and in how many seconds."""
    try:
        with quiet(), torch.no_grad():
            model, inputs = build()
            arm(model, inputs)
            start = time.process_time()
            found = arm(model, inputs)
            return f"{found}/{layers} {time.process_time() - start:.2f} s"
    except Exception as error:
        return f"no: {type(error).__name__}"[:20]


def subjects() -> Iterator[tuple[str, Callable[[], tuple[Any, Any]], int]]:
    zoo = {name: importlib.import_module(f"attention_zoo.{name}") for name in ("torch_layers", "by_hand", "families")}
    ids = torch.randint(5, 30_000, (1, 128), generator=torch.Generator().manual_seed(1))
    yield "BERT-base, sdpa, 128 tokens", lambda: (bert("sdpa"), {"input_ids": ids}), 12
    yield "BERT-base, eager, 128 tokens", lambda: (bert("eager"), {"input_ids": ids}), 12
    for name, layers in (("Llama", 2), ("Mistral (grouped, window)", 2), ("T5", 3), ("GPT-OSS (sinks)", 2)):
        family = next(f for f in zoo["families"].FAMILIES if f.name == name)
        kind = "eager" if "OSS" in name else "sdpa"
        build = lambda f=family, k=kind: (zoo["families"].make(f, k), zoo["families"].example(f))  # noqa: E731
        yield f"{name}, {kind}", build, layers
    for case in zoo["torch_layers"].CASES:
        if case.name in ("need_weights=False", "encoder", "nn.Transformer"):
            yield f"torch.nn: {case.name}", case.build, case.layers or 1
    for case in zoo["by_hand"].CASES:
        if case.name in ("plain", "einsum bhqk", "sigmoid"):
            yield f"by hand: {case.name}", case.build, 1


def by_regard(model: Any, inputs: Any) -> int:
    from regard_models.capturing.attention_capture import capture

    return len(capture(model, inputs).layers)


def by_torchlens_sparing(model: Any, inputs: Any) -> int:
    """As little as it can be asked for: the outputs of softmaxes and of fused attention are saved, and no others."""
    import torchlens

    fused, by_hand = torchlens.func("scaled_dot_product_attention"), torchlens.func("softmax")
    return by_torchlens(model, inputs, save=fused | by_hand)


def by_torchlens(model: Any, inputs: Any, **saving: Any) -> int:
    """Its trace with what it needs to rebuild patterns; a module counts whose pattern can be read."""
    import torchlens

    named = isinstance(inputs, dict)
    args = () if named else inputs if isinstance(inputs, tuple) else (inputs,)
    trace = torchlens.trace(model, args, inputs if named else {}, reconstruction_ready=True, **saving)
    found = 0
    for module in trace.modules:
        with contextlib.suppress(Exception):
            found += module.facets["pattern"].dim() == 4
    return found


def by_attnread(model: Any, inputs: Any) -> int:
    from attnread import extract_attention

    found = extract_attention(model, inputs)
    return len({key[1] for key in found})


if __name__ == "__main__":
    main()
