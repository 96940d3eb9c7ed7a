"""How long an audit takes: BERT of 12 layers, 768 wide, at 128 tokens; healthy, and with three faults.

Prints seconds by the clock and the most memory of the process, beside the time of one forward of the same model on the
same input, as a ratio. Run on idle cores: python -m benchmarks audit
"""

from __future__ import annotations

import contextlib
import io
import resource
import time
import warnings
from importlib.util import find_spec


def main() -> None:
    if find_spec("transformers") is None:
        print("left out: transformers is not installed")
        return
    import torch

    from regard_models import audit

    torch.set_num_threads(2)
    for words, spoil in (("healthy", lambda model: model), ("three faults", faulty)):
        model = spoil(bert())
        ids = torch.randint(1, 30522, (3, 128), generator=torch.Generator().manual_seed(0))
        forward = seconds(lambda m=model, i=ids: m(i))
        start = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = audit(model, length=128)
        took = time.perf_counter() - start
        memory = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
        failing = sorted({f.property for f in found.failures})
        print(
            f"BERT-base, 3 x 128 tokens, {words}: {took:.1f} s, {took / forward:.0f} forwards of {forward:.2f} s; "
            f"at most {memory:.1f} GB; fails: {', '.join(failing) or 'nothing'}"
        )


def bert():
    """Random weights; only sizes matter here."""
    import torch
    import transformers

    transformers.logging.set_verbosity_error()
    torch.manual_seed(0)
    with contextlib.redirect_stderr(io.StringIO()):
        return transformers.BertModel(transformers.BertConfig()).eval()


def faulty(model):
    """A leak over the batch, a layer that reads padding, and a norm in bfloat16."""
    import torch

    def leaks(plain, self, x):
        return plain(self, x) + 1e-9 * x[..., 0].mean()  # the mean of all is 0 behind a norm

    def reads_padding(plain, self, x, mask=None, *rest, **more):
        return plain(self, x, None, *rest, **more)

    def narrow(plain, self, x):
        return plain(self, x.to(torch.bfloat16).to(x.dtype))

    exchange(model.encoder.layer[3].intermediate, leaks)
    exchange(model.encoder.layer[7].attention, reads_padding)
    exchange(model.encoder.layer[9].output.LayerNorm, narrow)
    return model


def exchange(module, forward) -> None:
    """Another forward for one module, which is handed the old one."""
    plain = type(module)

    def new(self, *args, **kwargs):
        return forward(plain.forward, self, *args, **kwargs)

    module.__class__ = type(plain.__name__, (plain,), {"forward": new})


def seconds(run) -> float:
    import torch

    with torch.no_grad():
        run()
        start = time.perf_counter()
        run()
        return time.perf_counter() - start


if __name__ == "__main__":
    main()
