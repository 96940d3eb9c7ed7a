"""Search against trying every sentence, on models small enough for that."""

from __future__ import annotations

import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from regard.translator.data.vocabulary import EOS, PAD, SOS, UNK
from regard.translator.models.encoder import build_model
from regard.translator.models.encoder_decoder import POWER, EncoderDecoder, PartialTranslations, beam_search, greedy
from regard.translator.models.translation import translate_ids
from regard.translator.runs.settings import Settings

torch.set_num_threads(1)  # tiny tensors: a second thread only costs

LONGEST, WORDS = 3, 7  # three words that can be written, and <eos>
TINY = ["model.kind=encoder-decoder", "layers=1", "decoder_layers=2", "width=8", "heads=2", "head_width=5"]
TINY += ["feed_forward=11", f"longest={LONGEST}"]


def tiny(seed: int, *changes: str, words: int = WORDS) -> EncoderDecoder:
    """Random weights, larger than training would start from, so that sentences differ much in probability."""
    model = build_model(Settings().with_changes([*TINY, f"seed={seed}", *changes]), words, words)
    assert isinstance(model, EncoderDecoder)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(2)
    return model.eval()


def log_probability(model: EncoderDecoder, source: torch.Tensor, ids: list[int]) -> float:
    """Of ``ids`` and <eos>, without search, memory or batch."""
    target = torch.tensor([[SOS, *ids, EOS]])
    log_p = torch.log_softmax(model(source, target).double(), dim=-1)
    return sum(float(log_p[0, place, word]) for place, word in enumerate([*ids, EOS]))


def every_sentence(longest: int = LONGEST, words: int = WORDS) -> list[list[int]]:
    return [list(ids) for n in range(longest + 1) for ids in itertools.product(range(4, words), repeat=n)]


def source_of(seed: int) -> torch.Tensor:
    draw = torch.Generator().manual_seed(seed)
    return torch.tensor([[SOS, *torch.randint(4, WORDS, (1 + seed % 3,), generator=draw).tolist(), EOS]])


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("power", [0.0, 0.6, 1.0])
def test_a_beam_as_wide_as_there_are_beginnings_finds_the_best_of_all(seed, power):
    model, source = tiny(seed), source_of(seed)
    with torch.no_grad():
        values = {tuple(ids): log_probability(model, source, ids) for ids in every_sentence()}
        best = max(values, key=lambda ids: values[ids] / (len(ids) + 1) ** power)
        ids, value = beam_search(PartialTranslations(model, source), beam=len(values), longest=LONGEST, power=power)[0]
    assert tuple(ids) == best
    assert value == pytest.approx(values[best], abs=1e-4)


@pytest.mark.parametrize("positions", ["learned", "rotary"])
@pytest.mark.parametrize("seed", range(6))
def test_greedy_is_the_best_next_token_again_and_again(seed, positions):
    model, source = tiny(seed, f"positions={positions}", "head_width=6"), source_of(seed)
    ids: list[int] = []
    with torch.no_grad():
        while len(ids) < LONGEST:
            scores = model(source, torch.tensor([[SOS, *ids]]))[0, -1]
            word = max((w for w in range(WORDS) if w not in (PAD, SOS, UNK)), key=lambda w: float(scores[w]))
            if word == EOS:
                break
            ids.append(word)
        found, value = greedy(PartialTranslations(model, source), longest=LONGEST)[0]
        assert found == ids
        assert value == pytest.approx(log_probability(model, source, ids), abs=1e-4)


def reference_beam(model: EncoderDecoder, source: torch.Tensor, beam: int) -> tuple[list[int], float]:
    """A beam in words: lists of hypotheses, every one scored from its beginning."""
    alive, finished = [([], 0.0)], []
    for place in range(LONGEST + 1):
        allowed = [EOS] if place == LONGEST else [w for w in range(WORDS) if w not in (PAD, SOS, UNK)]
        candidates = []
        for ids, value in alive:
            log_p = torch.log_softmax(model(source, torch.tensor([[SOS, *ids]]))[0, -1], dim=-1)
            candidates += [(ids, w, value + float(log_p[w])) for w in allowed]
        candidates.sort(key=lambda c: -c[2])
        finished += [(ids, value) for ids, word, value in candidates[:beam] if word == EOS]
        alive = [([*ids, word], value) for ids, word, value in candidates[: 2 * beam] if word != EOS][:beam]
        if len(finished) >= beam or not alive:
            break
    return max(finished, key=lambda f: f[1] / (len(f[0]) + 1) ** POWER)


@pytest.mark.parametrize("beam", [1, 2, 3, 5])
@pytest.mark.parametrize("seed", range(4))
def test_a_narrow_beam_is_the_one_in_words(seed, beam):
    model, source = tiny(seed), source_of(seed)
    with torch.no_grad():
        expected, value = reference_beam(model, source, beam)
        found = beam_search(PartialTranslations(model, source), beam=beam, longest=LONGEST)[0]
    assert found[0] == expected
    assert found[1] == pytest.approx(value, abs=1e-4)


class Forgetful:
    """Writes without any memory: the whole sentence again at every step, one hypothesis after the other."""

    def __init__(self, model: EncoderDecoder, source: torch.Tensor) -> None:
        self.model, self.source, self.sentences, self.device = model, source, len(source), source.device
        self.ids: torch.Tensor | None = None

    def next(self, tokens: torch.Tensor) -> torch.Tensor:
        self.ids = tokens[..., None] if self.ids is None else torch.cat([self.ids, tokens[..., None]], dim=2)
        return torch.stack([self.model(self.source, self.ids[:, h])[:, -1] for h in range(tokens.shape[1])], dim=1)

    def keep(self, sentences: torch.Tensor | None, hypotheses: torch.Tensor) -> None:
        count = self.ids.shape[1]
        self.ids = self.ids.flatten(0, 1)[hypotheses].view(-1, count, self.ids.shape[2])
        if sentences is not None:
            self.source = self.source[sentences]


def many_sources(count: int, words: int) -> list[list[int]]:
    draw = torch.Generator().manual_seed(5)
    return [[SOS, *torch.randint(4, words, (1 + i % 9,), generator=draw).tolist(), EOS] for i in range(count)]


@pytest.mark.parametrize("beam", [1, 2, 5])
@pytest.mark.parametrize("tied", ["false", "true"])
def test_with_and_without_memory_together_and_alone(beam, tied):
    """Mixed lengths in one batch, sentences leaving it at different times: the same as each alone, and uncached."""
    model = tiny(1, "longest=9", f"tied={tied}", "joint=true", words=29)
    if tied == "true":
        model.output.bias.data[EOS] = 4  # or it would never end
    sources = many_sources(11, 29)
    together = translate_ids(model, sources, beam=beam, batch=7)
    search = (lambda w: greedy(w, longest=9)) if beam == 1 else (lambda w: beam_search(w, beam=beam, longest=9))
    assert len({len(ids) for ids, _ in together}) > 1
    with torch.no_grad():
        for source, (ids, value) in zip(sources, together, strict=True):
            for writing in (
                PartialTranslations(model, torch.tensor([source])),
                Forgetful(model, torch.tensor([source])),
            ):
                [(alone, alone_value)] = search(writing)
                assert alone == ids
                assert alone_value == pytest.approx(value, abs=1e-3)


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.integers(0, 12))
def test_a_beam_of_one_is_greedy(seed, longest):
    model = tiny(seed, "longest=12", words=13)
    source = torch.tensor(many_sources(1, 13))
    with torch.no_grad():
        one = beam_search(PartialTranslations(model, source), beam=1, longest=longest)[0]
        other = greedy(PartialTranslations(model, source), longest=longest)[0]
    assert one[0] == other[0]
    assert one[1] == pytest.approx(other[1], abs=1e-4)


class Says:
    """A model that says the same scores whatever came before."""

    sentences, device = 1, torch.device("cpu")

    def __init__(self, scores: list[float]) -> None:
        self.scores = torch.tensor(scores)

    def next(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.scores.expand(*tokens.shape, -1).clone()

    def keep(self, sentences: torch.Tensor | None, hypotheses: torch.Tensor) -> None:
        pass


@pytest.mark.parametrize("beam", [1, 3])
def test_markers_are_never_written_and_the_longest_sentence_ends(beam):
    says = Says([50.0, 50.0, 50.0, -9.0, 1.0, 0.0])  # <pad>, <unk>, <sos>, <eos>, and two words
    found = greedy(says, longest=4) if beam == 1 else beam_search(says, beam=beam, longest=4)
    assert found[0][0] == [4, 4, 4, 4]


def test_length_counts_against_short_sentences():
    """<eos> at once costs about 1.2, each word another 0.36: a longer sentence costs more, but less a token."""
    says = Says([-99.0, -99.0, -99.0, -1.2, -0.36, -99.0])
    assert beam_search(says, beam=5, longest=9, power=0.0)[0][0] == []
    assert len(beam_search(says, beam=5, longest=9, power=1.0)[0][0]) >= 3
