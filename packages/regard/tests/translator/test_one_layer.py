"""The plain file: short, alone, equal to the reference and to the package's own encoder, and it learns."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from places import ROOT  # noqa: E402
from regard.attention import attend  # noqa: E402
from regard.translator import one_layer  # noqa: E402
from regard.translator.models.encoder import build_model  # noqa: E402
from regard.translator.runs.settings import Settings  # noqa: E402

FILE = Path(one_layer.__file__)
SOURCE, TARGET, LENGTH, WIDTH, HEADS = 23, 29, 13, 21, 3


def plain_model(seed: int = 0):
    torch.manual_seed(seed)
    return one_layer.OneLayerTranslator(SOURCE, TARGET, length=LENGTH, width=WIDTH, heads=HEADS)


def some_ids(seed: int = 1):
    ids = torch.randint(4, SOURCE, (5, LENGTH), generator=torch.Generator().manual_seed(seed))
    for row, length in enumerate((13, 11, 7, 2, 5)):
        ids[row, length:] = one_layer.PAD
    return ids


def test_it_fits_on_three_pages_and_needs_torch_alone():
    text = FILE.read_text(encoding="utf-8")
    imports = {
        name.partition(".")[0]
        for node in ast.walk(ast.parse(text))
        for name in (
            [alias.name for alias in node.names] if isinstance(node, ast.Import)
            else [node.module or ""] if isinstance(node, ast.ImportFrom) else []
        )
    }  # fmt: skip
    assert len(text.splitlines()) <= 150
    assert imports == {"csv", "gzip", "math", "pathlib", "re", "sys", "torch"}


def test_the_page_shows_the_file_as_it_is():
    folder = "packages/regard/src/regard/translator"
    assert f"docs/results, {folder}]" in (ROOT / "mkdocs.yml").read_text(encoding="utf-8")
    assert '--8<-- "one_layer.py"' in (ROOT / "docs" / "one-layer.md").read_text(encoding="utf-8")
    assert (ROOT / folder / "one_layer.py").read_text(encoding="utf-8") == FILE.read_text(encoding="utf-8")


def test_its_attention_is_the_reference():
    model, ids = plain_model().double(), some_ids()
    x = torch.randn(5, LENGTH, WIDTH, dtype=torch.float64)
    seen = []
    model.mix = torch.nn.Identity()
    with torch.no_grad():
        mixed = model.attention(x, ids != one_layer.PAD).numpy()
        for linear in (model.query, model.key, model.value):
            seen.append(linear(x).numpy().reshape(5, LENGTH, HEADS, -1).transpose(0, 2, 1, 3))
    allowed = (ids != one_layer.PAD).numpy()[:, None, None, :]
    expected = attend(*seen, allowed=allowed, scale=(WIDTH // HEADS) ** -0.5).output
    np.testing.assert_allclose(mixed, expected.transpose(0, 2, 1, 3).reshape(5, LENGTH, WIDTH), atol=1e-13)


def test_with_equal_weights_the_package_gives_equal_scores():
    plain = plain_model().double()
    sizes = [f"width={WIDTH}", f"heads={HEADS}", f"head_width={WIDTH // HEADS}", f"feed_forward={4 * WIDTH}"]
    ours = build_model(Settings().with_changes([*sizes, f"longest={LENGTH - 2}"]), SOURCE, TARGET).double().eval()
    with torch.no_grad():
        pairs = {
            ours.embedding.tokens: plain.words,
            ours.embedding.positions: plain.places,
            ours.layer.attention.queries: plain.query,
            ours.layer.attention.keys: plain.key,
            ours.layer.attention.values: plain.value,
            ours.layer.attention.mix: plain.mix,
            ours.layer.after_attention: plain.norm_1,
            ours.layer.feed_forward[0]: plain.inner,
            ours.layer.feed_forward[2]: plain.outer,
            ours.layer.after_feed_forward: plain.norm_2,
            ours.output.linear: plain.output,
        }
        for mine, theirs in pairs.items():
            for parameter, value in zip(mine.parameters(), theirs.parameters(), strict=True):
                parameter.copy_(value)
        torch.testing.assert_close(ours(some_ids()), plain(some_ids()), rtol=0, atol=1e-12)


def test_it_learns_from_a_table_of_pairs(tmp_path, monkeypatch, capsys):
    nouns = (("Hund", "dog"), ("Mann", "man"), ("Kind", "child"))
    verbs = (("schläft", "sleeps"), ("isst", "eats"), ("liest", "reads"), ("singt", "sings"))
    rows = [f"Ein {noun} {verb}.\tA {en} {does}." for noun, en in nouns for verb, does in verbs]
    (tmp_path / "pairs.tsv").write_text("\n".join(rows * 60) + "\n", encoding="utf-8")
    monkeypatch.setattr("sys.argv", ["one_layer.py", str(tmp_path / "pairs.tsv")])
    one_layer.main()
    before, after = (float(found) for found in re.findall(r"(?:model|pairs): ([0-9.]+)", capsys.readouterr().out))
    assert after < 1.1 < before


def test_perplexity_counts_every_token_once():
    model, source = plain_model(), some_ids()
    target = some_ids(2)
    with torch.no_grad():
        log_p = torch.log_softmax(model(source), dim=-1).gather(2, target[..., None])[..., 0]
    expected = float(torch.exp(-log_p[target != one_layer.PAD].mean()))
    assert one_layer.perplexity(model, source, target) == pytest.approx(expected, rel=1e-5)
