"""What the audit in the wild found to be faults of transformers, in a few lines each: run it and see.

    python -m benchmarks.faults_in_the_wild

Every model is small and random (:mod:`benchmarks.small_models`), in float64 so that rounding plays no part. A line
says what should be equal and how far it is apart.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

WRITTEN = Path(__file__).parent.parent / "docs" / "results" / "faults-in-the-wild.txt"


def model(name: str, config: str) -> Any:
    from benchmarks.small_models import build

    return build(name, config, "eager").double()


def tokens(length: int = 13, batch: int = 2) -> Any:
    import torch

    return torch.randint(4, 99, (batch, length), generator=torch.Generator().manual_seed(0))


def stepped(name: str, config: str, step: int, **more: Any) -> float:
    """How far the last tokens are apart, with ten tokens cached and all at once."""
    ids, it = tokens(), model(name, config)
    past = it(ids[:, :10], use_cache=True).past_key_values
    made = it(ids[:, 10 : 10 + step], past_key_values=past, use_cache=True, **more)[0]
    return float((made - it(ids)[0][:, 10 : 10 + step]).abs().max())


def bamba() -> str:
    import torch

    told = {"position_ids": torch.full((2, 1), 10)}
    apart, right = (stepped("BambaForCausalLM", "BambaConfig", 1, **more) for more in ({}, told))
    return (
        f"With a cache and no position_ids, positions start again at 0: a step is {apart:.0e} off, and "
        f"{right:.0e} when told its position. (generate() tells it.)"
    )


def moshi() -> str:
    apart = stepped("MoshiForCausalLM", "MoshiConfig", 1)
    return (
        "The cache keeps sliding_window keys (6 here, 3,000 by default), the mask lets all be read: a step behind "
        f"more tokens than that is {apart:.1g} off."
    )


def jamba() -> str:
    one, three = (stepped("JambaForCausalLM", "JambaConfig", step) for step in (1, 3))
    return (
        f"A Mamba layer goes on from its state in steps of one token only ({one:.0e} off); three tokens at once start "
        f"from an empty state ({three:.0e} off), and nothing is said."
    )


def prophetnet() -> str:
    ids, it = tokens(), model("ProphetNetForCausalLM", "ProphetNetConfig")
    other = ids.clone()
    other[:, 3] = 50
    apart = float((it(ids).logits - it(other).logits)[:, :3].abs().max())
    return (
        f"Changing token 3 moves the logits of tokens 0 to 2 by {apart:.0e}: in get_predict_relative_pos_embeddings a "
        "view takes (place, stream, head) for (stream, head, place), so that a query's bias is made of another "
        "token's state, later ones included."
    )


def yoso() -> str:
    import torch

    ids, it = tokens(), model("YosoForMaskedLM", "YosoConfig")
    keep = torch.ones_like(ids)
    keep[:, -4:] = 0
    apart = float((it(ids).logits - it(ids, attention_mask=keep).logits).abs().max())
    return (
        f"An attention_mask of 1 and 0 hides nothing: with it the logits move by {apart:.0e}. It is divided by 10000 "
        "and added to 1, as if it were 0 and -10000."
    )


def mra() -> str:
    it, seen = model("MraForMaskedLM", "MraConfig"), []
    it.mra.encoder.layer[0].attention.self.register_forward_hook(lambda *a: seen.append(a[-1][0]))
    it(tokens(16))
    return (
        f"Without its CUDA kernel attention returns zeros (largest number {float(seen[0].abs().max()):.0f}) instead of "
        "an error: the model runs, and reads nothing."
    )


def fsmt() -> str:
    ids, it = tokens(), model("FSMTForConditionalGeneration", "FSMTConfig")
    other = ids.clone()
    other[:, -1] = 50

    def apart(**more: Any) -> float:
        made = [it(ids, decoder_input_ids=d, **more).logits[:, :-1] for d in (ids, other)]
        return float((made[0] - made[1]).abs().max())

    return (
        "With use_cache left at its default, a whole target gets no causal mask: changing its last token moves "
        f"earlier logits by {apart():.0e}, and by {apart(use_cache=False):.0e} with use_cache=False."
    )


def xlm() -> str:
    import torch

    ids, it = tokens(), model("XLMWithLMHeadModel", "XLMConfig")
    keep = torch.ones_like(ids)
    keep[:, :4] = 0
    padded = it(ids, attention_mask=keep, position_ids=(keep.cumsum(1) - 1).clamp(min=0))[0]
    apart = float((padded[:, 4:] - it(ids[:, 4:])[0]).abs().max())
    return (
        "With causal=True the mask of padding is not applied to the keys (get_masks): four tokens of padding on the "
        f"left move real tokens' logits by {apart:.0e}, told their positions."
    )


def recurrentgemma() -> str:
    import torch

    ids, it = tokens(), model("RecurrentGemmaForCausalLM", "RecurrentGemmaConfig")
    keep, other = torch.ones_like(ids), ids.clone()
    keep[:, :4], other[:, :4] = 0, 50
    places = (keep.cumsum(1) - 1).clamp(min=0)
    made = [it(x, attention_mask=keep, position_ids=places).logits[:, 4:] for x in (ids, other)]
    return (
        f"Its convolution is not given the mask: other tokens in padding on the left move real "
        f"tokens' logits by {float((made[0] - made[1]).abs().max()):.0e}."
    )


def gemma3n() -> str:
    import torch

    from benchmarks.small_models import build

    def bad(attn: str) -> int:
        ids, it = tokens(), build("Gemma3nForCausalLM", "Gemma3nTextConfig", attn)
        keep = torch.ones_like(ids)
        keep[:, :4], ids[:, :4] = 0, 0
        with torch.enable_grad():
            it(ids, attention_mask=keep, use_cache=False)[0][:, 4:].sum().backward()
        return sum(p.grad is not None and not bool(torch.isfinite(p.grad).all()) for p in it.parameters())

    return (
        f"Fresh from its configuration and padded on the left, {bad('sdpa')} of its weights get a gradient of NaN in "
        f"sdpa, {bad('eager')} in eager: a padded token's vector is 0, and the root of its mean square has no eps."
    )


def led() -> str:
    import torch

    it = model("LEDForConditionalGeneration", "LEDConfig")
    ids, keep = tokens(12), torch.ones(2, 12, dtype=torch.long)
    keep[:, :4] = 0
    aparts = []
    for mask in (keep, torch.ones_like(keep)):
        begun = it(input_ids=ids, decoder_input_ids=ids[:, :-1], decoder_attention_mask=mask[:, :-1], use_cache=True)
        step = it(input_ids=ids, decoder_input_ids=ids[:, -1:], decoder_attention_mask=mask,
                  past_key_values=begun.past_key_values)  # fmt: skip
        whole = it(input_ids=ids, decoder_input_ids=ids, decoder_attention_mask=mask)
        aparts.append(float((whole.logits[:, -1:] - step.logits).abs().max()))
    return (
        f"A step of one token makes no mask at all, so decoder_attention_mask is not read: {aparts[0]:.0e} off beside "
        f"four tokens of padding on the left of what is written, and {aparts[1]:.0e} without padding."
    )


def deepseek_v4() -> str:
    import torch

    ids, it = tokens(), model("DeepseekV4ForCausalLM", "DeepseekV4Config")
    keep, other = torch.ones_like(ids), ids.clone()
    keep[:, :4], other[:, :4] = 0, 50
    places = (keep.cumsum(1) - 1).clamp(min=0)
    made = [it(x, attention_mask=keep, position_ids=places).logits[:, 4:] for x in (ids, other)]
    return (
        f"Its compressors are not given the mask: other tokens in padding on the left move real tokens' logits by "
        f"{float((made[0] - made[1]).abs().max()):.0e}."
    )


def llama4() -> str:
    import torch

    from benchmarks.small_models import build

    def apart(tuned: bool) -> float:
        settings = {"no_rope_layers": [1, 0], "floor_scale": 4, "attn_temperature_tuning": tuned}
        ids, it = tokens(), build("Llama4ForCausalLM", "Llama4Config", "eager", settings).double()
        keep = torch.ones_like(ids)
        keep[:, :4] = 0
        padded = it(ids, attention_mask=keep, position_ids=(keep.cumsum(1) - 1).clamp(min=0)).logits
        return float((padded[:, 4:] - it(ids[:, 4:]).logits).abs().max())

    return (
        "Layers without a rotation scale their queries by the column, not by position_ids: four tokens of padding on "
        f"the left move real tokens' logits by {apart(True):.0e} (floor_scale 4; 8,192 by default), and by "
        f"{apart(False):.0e} with attn_temperature_tuning=False."
    )


def mllama() -> str:
    import torch
    import transformers

    from benchmarks.small_models import sizes

    kind = transformers.models.mllama.MllamaTextConfig
    settings = sizes(kind) | {"cross_attention_layers": [1], "bos_token_id": 1}
    pictures = torch.randn(2, 9, 32, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    other = pictures.clone()
    other[:, -1] += 1
    moved = {}
    for kernel in ("eager", "sdpa"):
        torch.manual_seed(0)
        it = transformers.MllamaForCausalLM._from_config(kind(**settings), attn_implementation=kernel).eval().double()
        for gate in (it.model.layers[1].cross_attn_attn_gate, it.model.layers[1].cross_attn_mlp_gate):
            gate.data.fill_(1.0)  # 0 in a fresh model, which shuts the picture out
        made = [it(tokens(), cross_attention_states=states).logits[:, 0] for states in (pictures, other)]
        moved[kernel] = float((made[0] - made[1]).abs().max())
    return (
        "In sdpa, without a cross_attention_mask, word i reads patches 0 to i of the picture only: the last patch "
        f"moves the first word's logits by {moved['eager']:.0e} in eager and by {moved['sdpa']:.0e} in sdpa."
    )


def dbrx() -> str:
    import transformers

    try:
        model("DbrxForCausalLM", "DbrxConfig")
    except AttributeError as error:
        return f"It cannot be built from its own configuration: {error}."
    return f"It can be built with transformers {transformers.__version__}."


FAULTS: dict[str, Callable[[], str]] = {
    "Bamba": bamba,
    "Moshi": moshi,
    "Jamba": jamba,
    "ProphetNet": prophetnet,
    "YOSO": yoso,
    "MRA": mra,
    "FSMT": fsmt,
    "XLM, FlauBERT": xlm,
    "RecurrentGemma": recurrentgemma,
    "Gemma 3n": gemma3n,
    "LED": led,
    "DeepSeek V4": deepseek_v4,
    "Llama 4": llama4,
    "Mllama": mllama,
    "DBRX": dbrx,
}


def main() -> None:
    import torch
    import transformers

    from regard.torch_arithmetic import arithmetic

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--write", action="store_true", help=f"write {WRITTEN.name} too")
    chosen = parser.parse_args()
    lines = [f"transformers {transformers.__version__}, torch {torch.__version__.split('+')[0]}, small random models"]
    with torch.no_grad(), arithmetic(widen=True), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        lines += [f"{name}: {show()}" for name, show in FAULTS.items()]
    print("\n".join(lines))
    if chosen.write:
        WRITTEN.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
