"""Joey NMT 2.3 for bench_training, in a process of its own: its own model, loader and training loop, our sizes.

The text comes tokenised into our pieces, with our vocabulary, so that a token means the same and splitting it costs
Joey next to nothing. The sizes are those of configs/good.toml; the rest is written as Joey's users write it: Adam,
warm-up, inverse square root (it has no cosine), batches by tokens. The highest step size is Joey's own: the best of
:data:`STEPS` by validation BLEU. Joey counts padding in a batch's size, and both sides.

    python -m benchmarks.joey_peer FOLDER TOKENS STEP                  trains a turn for every line that comes in
    python -m benchmarks.joey_peer FOLDER TOKENS STEP SECONDS SPLIT    trains so many CPU-seconds, then translates
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Any

from regard.translator.runs.settings import Settings, load_settings
from regard.translator.studies.comparison import evaluation_pairs
from regard.translator.training.preparation import PreparedData

INSTALLED = Path(sys.prefix) / "peers" / "joeynmt"  # where `make bench` puts it, away from our own packages
TURN = 3.0  # CPU-seconds
STEPS = (0.0005, 0.001, 0.002, 0.004)
PIECES, SAID, LOG = "pieces.txt", "said.txt", "log.txt"


def missing() -> str:
    """Why Joey cannot take part, or nothing."""
    return "" if INSTALLED.is_dir() else "Joey NMT is not installed; `make bench` installs benchmarks/joeynmt.txt"


def write_data(folder: Path, data: PreparedData) -> None:
    """The corpus in pieces with blanks between, and the vocabulary without the markers, which Joey puts there."""
    splits = {"train": data.corpus.train, "dev": data.corpus.validation, "test": evaluation_pairs(data.corpus)[0]}
    for name, pairs in splits.items():
        for side, sentences, words in [("src", pairs.source, data.source), ("trg", pairs.target, data.target)]:
            lines = [" ".join(words.tokens(sentence)) + "\n" for sentence in sentences]
            (folder / f"{name}.{side}").write_text("".join(lines), encoding="utf-8")
    (folder / PIECES).write_text("\n".join(data.target.words[4:]) + "\n", encoding="utf-8")


def start(folder: Path, tokens: int, step: float = STEPS[1], *more: object) -> subprocess.Popen[str]:
    """Joey in a process of its own, one thread; what it has to say for itself goes to a file of the folder."""
    paths = [str(INSTALLED), *filter(None, [os.environ.get("PYTHONPATH")])]
    with open(folder / LOG, "w", encoding="utf-8") as log:
        return subprocess.Popen(
            [sys.executable, "-m", "benchmarks.joey_peer", str(folder), str(tokens), str(step), *map(str, more)],
            cwd=Path(__file__).parents[1], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log,
            env=os.environ | {"PYTHONPATH": os.pathsep.join(paths), "OMP_NUM_THREADS": "1"},
        )  # fmt: skip


def said(folder: Path, stream: IO[str] | None) -> dict[str, Any]:
    """The next thing that Joey's process tells."""
    line = stream.readline() if stream else ""
    if not line:
        raise RuntimeError(f"Joey NMT stopped: {(folder / LOG).read_text(encoding='utf-8')[-2000:]}")
    found: dict[str, Any] = json.loads(line)
    return found


def configuration(settings: Settings, folder: Path, tokens: int, step: float) -> dict[str, Any]:
    """What a user of Joey would write into a YAML file."""
    size, training = settings.model, settings.training
    side = {"level": "word", "max_length": settings.data.longest, "voc_file": str(folder / PIECES)}
    stack = {
        "type": "transformer",
        "num_heads": size.heads,
        "embeddings": {"embedding_dim": size.width, "scale": True, "dropout": size.dropout},
        "hidden_size": size.width,
        "ff_size": size.feed_forward,
        "dropout": size.dropout,
        "layer_norm": "pre",
    }
    return {
        "name": "peer",
        "model_dir": str(folder / "model"),
        "use_cuda": False,
        "random_seed": training.seed,
        "data": {
            **{split: str(folder / split) for split in ("train", "dev", "test")},
            "src": {"lang": "src", **side},
            "trg": {"lang": "trg", **side},
        },
        "model": {
            "tied_embeddings": size.tied,
            "tied_softmax": size.tied,
            "encoder": {**stack, "num_layers": size.layers},
            "decoder": {**stack, "num_layers": size.decoder_layers},
        },
        "training": {
            "optimizer": "adam",
            "adam_betas": [0.9, training.beta2],
            "learning_rate": step,
            "learning_rate_min": 1e-8,
            "learning_rate_warmup": training.warmup,
            "scheduling": "warmupinversesquareroot",
            "clip_grad_norm": training.clip,
            "label_smoothing": training.smoothing,
            "normalization": "tokens",
            "batch_type": "token",
            "batch_size": tokens,
            "epochs": 1000,
            "validation_freq": 10**9,
            "logging_freq": 1000,
        },
        "testing": {"batch_size": 100, "max_output_length": settings.data.longest, "eval_metrics": ["bleu"]},
    }


def work(folder: Path, tokens: int, step: float, seconds: float | None, split: str) -> None:
    """What the process does: Joey's own preparation and loop."""
    import torch
    from joeynmt.config import parse_global_args, set_validation_args
    from joeynmt.prediction import predict, prepare
    from joeynmt.training import TrainManager

    torch.set_num_threads(1)
    args = parse_global_args(configuration(load_settings("good"), folder, tokens, step))
    args.model_dir.mkdir()
    model, train, development, test = prepare(args, rank=0, mode="train")
    trainer = TrainManager(
        model=model, rank=0, model_dir=args.model_dir, device=args.device, autocast=args.autocast, seed=args.seed,
        train_args=args.train, dev_args=set_validation_args(args.test),
    )  # fmt: skip
    trainer._train_step = asking(trainer._train_step, turns(trainer) if seconds is None else until(seconds))
    began = time.process_time()
    trainer.train_and_validate(train, development)
    if seconds is not None:
        facts = state(trainer)
        found = predict(
            model,
            {"dev": development, "test": test}[split],
            args.device,
            0,
            args=trainer.dev_cfg,
            autocast=args.autocast,
        )
        (folder / SAID).write_text("\n".join(found[2]) + "\n", encoding="utf-8")
        print(json.dumps(facts | {"seconds": facts["seconds"] - began}), flush=True)


def asking(step: Callable[[Any], Any], answers: Iterator[bool]) -> Callable[[Any], Any]:
    """A training step that is taken if the next answer is yes; Joey takes an interruption for a wish to stop."""

    def asked(batch: Any) -> Any:
        if not next(answers):
            raise KeyboardInterrupt
        return step(batch)

    return asked


def turns(trainer: Any) -> Iterator[bool]:
    """Yes; at the start and after every turn only when another line has come in."""
    while True:
        print(json.dumps(state(trainer)), flush=True)
        if not sys.stdin.readline():
            yield False
        end = time.process_time() + TURN
        while time.process_time() < end:
            yield True


def until(seconds: float) -> Iterator[bool]:
    """Yes, for so many CPU-seconds."""
    end = time.process_time() + seconds
    while True:
        yield time.process_time() < end


def state(trainer: Any) -> dict[str, float]:
    """How far Joey is, in its own count: <eos> is a token, <bos> and padding are not."""
    weights = sum(p.numel() for p in trainer.model.parameters())
    tokens, steps = trainer.stats.total_tokens, trainer.stats.steps
    return {"weights": weights, "tokens": tokens, "steps": steps, "seconds": time.process_time()}


if __name__ == "__main__":
    place, size, step_size, *limit = sys.argv[1:]
    work(Path(place), int(size), float(step_size), float(limit[0]) if limit else None, limit[1] if limit else "")
