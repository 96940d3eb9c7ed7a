"""Audit every text model class of the installed transformers that can be built small from its configuration.

    python -m benchmarks.audit_in_the_wild --minutes 30          as many classes as fit; the same again goes on
    python -m benchmarks.audit_in_the_wild --table               write the table of what is there so far

Every class is built with random weights, in eager and in sdpa, and audited in a process that is started anew when a
class takes it down. What was done is kept as one line of JSON for every class in docs/results/audit-in-the-wild.jsonl;
the table is docs/results/audit-in-the-wild.txt. What the failures mean was looked into by hand: VERDICTS.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import signal
import subprocess
import sys
import time
import warnings
from collections import Counter
from pathlib import Path

RESULTS = Path(__file__).parent.parent / "docs" / "results"
KEPT, TABLE = RESULTS / "audit-in-the-wild.jsonl", RESULTS / "audit-in-the-wild.txt"
SECONDS = 60  # of CPU time, for one class
KERNELS = ("eager", "sdpa")

SMALL = {
    32: "hidden_size d_model n_embd dim emb_dim embedding_size d_embed model_dim word_embed_proj_dim projection_dim",
    64: "intermediate_size ffn_dim d_ff encoder_ffn_dim decoder_ffn_dim hidden_dim n_inner ffn_hidden_size "
        "max_position_embeddings n_positions max_seq_len max_sequence_length n_ctx dim_ff d_inner "
        "shared_expert_intermediate_size",
    2: "num_hidden_layers n_layer n_layers num_layers encoder_layers decoder_layers num_decoder_layers "
       "num_encoder_layers num_experts_per_tok num_key_value_heads num_kv_heads n_kv_heads moe_topk top_k moe_k "
       "num_selects",
    4: "num_attention_heads n_head n_heads num_heads encoder_attention_heads decoder_attention_heads num_local_experts "
       "num_experts n_routed_experts moe_num_experts num_routed_experts",
    8: "head_dim d_kv qk_nope_head_dim qk_rope_head_dim v_head_dim state_size d_state attention_head_dim mamba_d_head",
    16: "q_lora_rank kv_lora_rank moe_intermediate_size expert_ffn_hidden_size",
    99: "vocab_size",
    6: "sliding_window",
    1: "n_group topk_group first_k_dense_replace n_shared_experts moe_layer_start_index bos_token_id",
    0: "pad_token_id",
    3: "eos_token_id",
}  # fmt: skip
SIZES = {name: size for size, names in SMALL.items() for name in names.split()}


def classes() -> list[tuple[str, str]]:
    """(class, configuration) of every text model that transformers' own tables name."""
    from transformers.models.auto import configuration_auto, modeling_auto

    configs = configuration_auto.CONFIG_MAPPING_NAMES
    heads = (
        modeling_auto.MODEL_FOR_CAUSAL_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_MASKED_LM_MAPPING_NAMES,
        modeling_auto.MODEL_FOR_SEQ_TO_SEQ_CAUSAL_LM_MAPPING_NAMES,
    )
    types = dict.fromkeys(kind for table in heads for kind in table)
    found: dict[tuple[str, str], None] = {}
    for table in (*heads, {k: v for k, v in modeling_auto.MODEL_MAPPING_NAMES.items() if k in types}):
        for kind, names in table.items():
            for name in names if isinstance(names, (tuple, list)) else (names,):
                if kind in configs:
                    found[name, configs[kind]] = None
    return list(found)


def build(name: str, config_name: str, attn: str):
    """The model, small."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    kind = getattr(transformers, config_name)
    known = kind().to_dict()
    sizes = {k: v for k, v in SIZES.items() if (k in known and known[k] is not None) or k == "pad_token_id"}
    if "kv_lora_rank" in known and "num_key_value_heads" in sizes:
        sizes["num_key_value_heads"] = sizes["num_attention_heads"]  # its keys are made for every head
    if "is_decoder" in known and name.endswith(("ForCausalLM", "LMHeadModel", "Decoder")):
        sizes["is_decoder"] = True  # encoders write from left to right only if told so
    config = kind(**sizes)
    torch.manual_seed(0)
    model = getattr(transformers, name)._from_config(config, attn_implementation=attn)
    if sum(p.numel() for p in model.parameters()) > 30_000_000:
        raise ValueError("it stays large however small its configuration is made")
    return model.eval()


class TooLongError(BaseException):
    pass


def ring(number, frame):
    raise TooLongError


def audited(name: str, config_name: str, attn: str) -> dict:
    """One line of the results."""
    from regard.models import audit

    about = {"class": name, "kernel": attn}
    start = time.monotonic()
    signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, SECONDS)
    try:
        with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
            warnings.simplefilter("ignore")
            model = build(name, config_name, attn)
            about["stage"] = "audit"
            found = audit(model)
        signal.setitimer(signal.ITIMER_PROF, 0)
        about |= {
            "outcome": "audited",
            "arithmetic": found.arithmetic,
            "failed": [[f.property, f.check, f.sentence, str(f.culprit or "")] for f in found.failures],
            "notes": [[f.property, f.check, f.sentence] for f in found.findings if f.status == "note"],
            "passed": sum(f.status == "pass" for f in found.findings),
        }
    except TooLongError:
        about |= {"outcome": "too long", "why": f"more than {SECONDS} s of CPU time"}
    except BaseException as error:
        if isinstance(error, KeyboardInterrupt):
            raise
        about |= {
            "outcome": "not run",
            "why": f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0][:160]}",
        }
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
    return {**about, "seconds": round(time.monotonic() - start, 1)}


def read() -> list[dict]:
    return [json.loads(line) for line in KEPT.read_text().splitlines()] if KEPT.exists() else []


def work(minutes: float) -> None:
    """In a process of its own: audit what is not there yet, a line as soon as it is known."""
    until = time.monotonic() + 60 * minutes
    done = {(r["class"], r["kernel"]) for r in read()}
    for attn in KERNELS:
        for name, config in classes():
            if (name, attn) in done:
                continue
            if time.monotonic() > until:
                return
            print(f"BEGIN {name} {attn}", flush=True)
            line = json.dumps(audited(name, config, attn))
            with KEPT.open("a") as stream:
                stream.write(line + "\n")
    print("ALL", flush=True)


def run(minutes: float) -> None:
    """Start the worker anew as often as a class takes it down."""
    until = time.monotonic() + 60 * minutes
    while time.monotonic() < until:
        left = (until - time.monotonic()) / 60
        command = [sys.executable, "-m", "benchmarks.audit_in_the_wild", "--worker", "--minutes", f"{left:.2f}"]
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "OMP_NUM_THREADS": "1"})
        lines = done.stdout.splitlines()
        if done.returncode == 0:
            break
        if lines and lines[-1].startswith("BEGIN "):
            _, name, attn = lines[-1].split()
            about = {
                "class": name,
                "kernel": attn,
                "outcome": "not run",
                "why": f"it ended the process ({done.returncode})",
            }
            with KEPT.open("a") as stream:
                stream.write(json.dumps({**about, "seconds": 0.0}) + "\n")
        else:
            raise SystemExit(f"the worker failed with {done.returncode}")


# What the failures mean, looked into by hand: a beginning of a class name and a property, and one sentence.
VERDICTS: dict[tuple[str, str], str] = {}


def verdict(name: str, prop: str) -> str:
    fitting = [words for (begin, p), words in VERDICTS.items() if name.startswith(begin) and p == prop]
    return fitting[0] if fitting else "not looked into yet"


def table() -> str:
    """The page of results."""
    import torch
    import transformers

    rows = read()
    ok = [r for r in rows if r["outcome"] == "audited"]
    wanted = len(classes()) * len(KERNELS)
    clean = [r for r in ok if not r["failed"]]
    lines = [
        f"Audit in the wild: transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, CPU, "
        "small models with random weights.",
        f"{len(rows)} of {wanted} combinations of class and kernel tried; {len(ok)} built and audited, {len(clean)} of "
        "them without a failure.",
        "",
        "Failures by property (combinations that fail it):",
    ]
    counts = Counter(p for r in ok for p in {f[0] for f in r["failed"]})
    lines += [f"  {prop:12} {n}" for prop, n in counts.most_common()] or ["  none"]
    lines += ["", "Each failure:"]
    for r in ok:
        for prop in dict.fromkeys(f[0] for f in r["failed"]):
            first = next(f for f in r["failed"] if f[0] == prop)
            lines.append(f"  {r['class']}, {r['kernel']}: {prop}, {first[1]}. {first[2]}")
            if first[3]:
                lines.append(f"    where: {_short(first[3])}")
            lines.append(f"    meaning: {verdict(r['class'], prop)}")
    lines += ["", "Not run:"]
    lines += [f"  {r['class']}, {r['kernel']}: {r.get('why', '')}" for r in rows if r["outcome"] != "audited"]
    lines += ["", "Without a failure:"]
    lines += [f"  {r['class']}, {r['kernel']} ({r['passed']} checks)" for r in clean]
    return "\n".join(lines) + "\n"


def _short(where: str) -> str:
    """Paths from the package on."""
    head, found, tail = where.partition("site-packages/")
    return f"{head.rpartition('(')[0]}({tail}" if found else where


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--table", action="store_true")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    chosen = parser.parse_args()
    if chosen.worker:
        work(chosen.minutes)
        return
    if not chosen.table:
        run(chosen.minutes)
    TABLE.write_text(table())
    print(TABLE.read_text().split("Each failure:")[0])


if __name__ == "__main__":
    main()
