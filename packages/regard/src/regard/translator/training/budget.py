"""How long a run will take, before it starts: a few steps of it are timed and thrown away."""

from __future__ import annotations

import time

import numpy as np

from regard.translator.data.batches import epoch_plan
from regard.translator.decoding.translation import device_of
from regard.translator.models.encoder import seed_dropout
from regard.translator.models.own_translator import OwnCode
from regard.translator.runs.settings import Settings
from regard.translator.training.loop import deterministic_algorithms, first_model, training_loss
from regard.translator.training.optimisers import build_optimiser
from regard.translator.training.preparation import PreparedData


def cpu_seconds_a_run(settings: Settings, data: PreparedData, *, steps: int = 6, own: OwnCode | None = None) -> float:
    """CPU-seconds that all epochs of ``settings`` will take on this machine, to within a quarter or so.

    ``steps`` batches, spread over the first epoch's plan, are trained on; the first is not counted. Validation is
    taken to cost a third of a training step for each batch. Nothing of it is kept.
    """
    s = settings.training
    batches = epoch_plan(data.train, settings, 1)
    chosen = [batches[i] for i in np.linspace(0, len(batches) - 1, steps).astype(int)]
    with deterministic_algorithms(s.threads):
        model = first_model(settings, data, own)
        device = device_of(model)
        optimiser = build_optimiser(settings, model, words=len(data.target))
        spent, tokens = 0.0, 0
        for number, rows in enumerate(chosen):
            batch = data.train.batch(rows).to(device)
            began = time.process_time()
            seed_dropout(model, s.seed, number)
            optimiser.zero_grad(set_to_none=True)
            training_loss(model, batch, s).backward()  # type: ignore[no-untyped-call]
            optimiser.step()
            # the first step also warms up caches and allocators
            if number:
                spent, tokens = spent + time.process_time() - began, tokens + len(batch.labels)
    a_token = spent / max(tokens, 1)
    return s.epochs * a_token * (data.train.target_tokens + data.validation.target_tokens / 3)
