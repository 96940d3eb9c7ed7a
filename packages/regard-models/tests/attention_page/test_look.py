"""The verb and its result: what goes into a page, what is said about it, what is refused, and that words stay words."""

from __future__ import annotations

import html
import json
import re

import numpy as np
import pytest

from regard.errors import InputError
from regard.written_numbers import at_most
from regard_models.attention_page.html_document import SCRIPTS, Window, encode_page, joined_scripts, static, unpack
from regard_models.attention_page.layers import Kind, layers_of, printable_token
from regard_models.attention_page.page_result import look
from regard_models.capturing.records import AttentionRecord, Capture

HOSTILE = ["</script>", "<img src=x onerror=alert(1)>", "<!--", "]]>", "\u2028", "&lt;", '"\\', "$x$", "Ġ\n\x00", ""]


def attention(*shape, seed=0):
    logits = 2 * np.random.default_rng(seed).normal(size=shape)
    return (np.exp(logits) / np.exp(logits).sum(-1, keepdims=True)).astype(np.float32)


def streams(page):
    return dict(re.findall(r'<script type="text/plain" id="([\w-]+)">([^<]*)</script>', page))


def facts(page):
    return json.loads(re.search(r'<script type="application/json" id="facts">(.*?)</script>', page, re.DOTALL)[1])


def stored(page, layer, place, rows, columns):
    data = unpack(streams(page)[f"head-{layer}-{place}"])
    largest = np.frombuffer(data[: 4 * rows], "<f4")
    codes = np.frombuffer(data[4 * rows :], np.uint8).reshape(rows, columns)
    return largest[:, None] * (codes / 255.0) ** 2


def test_the_page_holds_every_head_and_states_how_far_it_is_off():
    weights = attention(3, 5, 7, 11)
    found = look(weights, name="seven by eleven")
    page = found.page
    worst = 0.0
    worst_row = 0.0
    for layer in range(3):
        for head in range(5):
            off = np.abs(stored(page, layer, head, 7, 11) - weights[layer, head])
            worst, worst_row = max(worst, off.max()), max(worst_row, (off.sum(1) / weights[layer, head].sum(1)).max())
    assert found.worst_weight == pytest.approx(worst, rel=1e-3)
    assert found.worst_row == pytest.approx(worst_row, rel=1e-3)
    assert 0 < worst <= weights.max() / 255 * 1.0001
    about = facts(page)
    assert about["errors"] == {"entry": found.worst_weight, "row": found.worst_row}
    assert [len(layer["heads"]) for layer in about["layers"]] == [5, 5, 5]
    assert (found.layers, found.heads, found.queries, found.keys) == (("0", "1", "2"), 15, 7, 11)
    assert f"no weight is off by more than {at_most(found.worst_weight, 2)}" in str(found)


def test_small_pictures_are_the_largest_weights_of_blocks():
    weights = attention(1, 2, 67, 41)
    page = look(weights).page
    codes = np.frombuffer(unpack(streams(page)["small-0"]), np.uint8).reshape(2, 32, 32)
    assert facts(page)["layers"][0]["small"] == [32, 32]
    assert codes.reshape(2, -1).max(1).tolist() == [255, 255]
    first = [n * 67 // 32 for n in range(33)], [n * 41 // 32 for n in range(33)]
    block = weights[0, 1, first[0][3] : first[0][4], first[1][8] : first[1][9]].max()
    assert codes[1, 3, 8] == round(255 * float(np.sqrt(block / weights[0, 1].max())))


def test_words_stay_words():
    found = look(attention(1, 1, len(HOSTILE), len(HOSTILE)), tokens=HOSTILE, name="</title><script>alert(1)</script>")
    page = found.page
    assert page.count("<script") == 3 + len(streams(page)) - 1  # facts, the page's own, and streams
    assert "onerror=alert" not in page.replace("\\u003cimg src=x onerror=alert(1)\\u003e", "")
    assert "<title>&lt;/title&gt;&lt;script&gt;" in page
    assert facts(page)["words"] == [[printable_token(word) for word in HOSTILE]]
    framed = found._repr_html_()
    inside = re.fullmatch(r'<iframe title="([^"<>]*)" style="[^"]*" srcdoc="([^"]*)"></iframe>', framed)
    assert inside
    assert html.unescape(inside[2]) == page


def test_nothing_in_a_page_points_outside():
    page = look(attention(2, 2, 3, 3)).page
    outside = [url for url in re.findall(r"https?://[^\s\"'`<>)]+", page) if url != "http://www.w3.org/2000/svg"]
    assert outside == []
    assert "default-src 'none'" in page
    assert not re.search(r"<link|<img|@import|url\(|\bimport\(|fetch\(|XMLHttpRequest|WebSocket|eval\(", page)


def test_no_name_of_one_script_hides_that_of_another():
    exported = [
        name for file in SCRIPTS for name in re.findall(r"^export \w+ (?:\w+ )?(\w+)", static(file), re.MULTILINE)
    ]
    assert len(exported) == len(set(exported))
    joined = joined_scripts()
    assert not re.search(r"^(import|export)\b", joined, re.MULTILINE)
    assert "</script" not in joined


@pytest.mark.parametrize("file", SCRIPTS)
def test_scripts_import_what_stands_before_them(file):
    used = re.findall(r'^import .* from "\./(\w+\.js)";$', static(file), re.MULTILINE)
    assert all(SCRIPTS.index(one) < SCRIPTS.index(file) for one in used)


def test_influence_is_the_weight_times_the_length_of_what_is_added():
    weights, rng = attention(1, 2, 5, 5), np.random.default_rng(3)
    values, project = rng.normal(size=(1, 2, 5, 3)).astype("f"), rng.normal(size=(2, 3, 7)).astype("f")
    record = AttentionRecord(index=4, module="a", kernel="k", heads=(0, 1), weights=weights, v=values, w_o=project)
    found = look(Capture(records=(record,), name="one"), heads=[1])
    assert found.influence
    page = found.page
    norms = np.frombuffer(unpack(streams(page)["norms-0"]), "<f4")
    by_hand = np.linalg.norm(values[0, 1] @ project[1], axis=1)
    assert norms == pytest.approx(by_hand, rel=1e-5)
    peak = facts(page)["layers"][0]["peaks"]["influence"][0]
    assert peak == pytest.approx((weights[0, 1] * by_hand).max(), rel=1e-5)


def test_without_values_the_page_says_why_there_is_no_influence():
    found = look(attention(1, 1, 2, 2))
    assert not found.influence
    assert "influence needs the values and the output projection, which are not there" in found.notes
    assert facts(found.page)["layers"][0]["peaks"]["influence"] is None


def test_encoder_decoder_and_cross_are_told_apart():
    modules = ["encoder.block.0.SelfAttention", "decoder.block.0.SelfAttention", "decoder.block.0.EncDecAttention"]
    shapes = [(1, 2, 7, 7), (1, 2, 5, 5), (1, 2, 5, 7)]
    records = tuple(
        AttentionRecord(index=n, module=module, kernel="k", heads=(0, 1), weights=attention(*shape))
        for n, (module, shape) in enumerate(zip(modules, shapes, strict=True))
    )
    capture = Capture(records=records, tokens=[list("qwertyu")], target_tokens=[list("abcde")])
    layers = layers_of(capture)
    assert [layer.kind for layer in layers] == [Kind.ENCODER, Kind.DECODER, Kind.CROSS]
    assert (layers[2].queries, layers[2].keys) == (tuple("abcde"), tuple("qwertyu"))
    about = facts(look(capture).page)
    assert about["words"] == [list("qwertyu"), list("abcde")]
    assert [(one["queries"], one["keys"]) for one in about["layers"]] == [(0, 0), (1, 1), (1, 0)]


def test_of_a_chosen_layer_and_head_nothing_else_is_in_the_page():
    weights = attention(3, 4, 5, 5)
    found = look(weights, layers=[2], heads=[3, 1])
    assert sorted(streams(found.page)) == ["head-0-0", "head-0-1", "small-0"]
    assert facts(found.page)["layers"][0]["heads"] == [3, 1]
    assert np.abs(stored(found.page, 0, 0, 5, 5) - weights[2, 3]).max() <= found.worst_weight * 1.001


def test_a_long_input_keeps_a_window_and_the_rest_in_blocks():
    weights = attention(2, 3, 300, 300)
    drawn = encode_page(layers_of(Capture.from_arrays(weights)), title="long", most=400_000)
    window = drawn.window
    assert window is not None
    assert window.start == 0
    assert 100 < window.stop < 300
    assert drawn.letters <= 400_000
    about = drawn.facts["layers"][0]
    assert about["rows"] == about["columns"] == [0, window.stop]
    assert about["wide"] == [128, 128]
    codes = np.frombuffer(unpack(drawn.streams["wide-1-2"]), np.uint8).reshape(128, 128)
    assert codes.max() == 255


def test_the_window_that_was_asked_for_is_the_window():
    weights = attention(1, 1, 50, 50)
    found = look(weights, window=(20, 35))
    assert found.window == (20, 35)
    assert np.abs(stored(found.page, 0, 0, 15, 15) - weights[0, 0, 20:35, 20:35]).max() <= found.worst_weight * 1.001
    assert "Stored in full are tokens 20 to 34; the rest in blocks." in str(found)
    assert Window(20, 35).of(10) == (0, 10)
    assert Window(20, 35).of(25) == (10, 25)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ({"layers": [7]}, r"There is no layer 7 in weights; it has layers 0 to 1\."),
        ({"layers": ["nowhere"]}, "There is no layer 'nowhere' in weights"),
        ({"heads": [3]}, r"Layer 0 has no head 3; it has 0 to 2\."),
        ({"example": 1}, r"There is no example 1; the batch has 1, counted from 0\."),
        ({"window": (3, 3)}, "The window 3:3 does not fit"),
        ({"window": (0, 6)}, "The window 0:6 does not fit.*at 5 at the latest"),
        ({"text": "words"}, "A text and inputs are for a model"),
        ({"tokens": ["a"]}, "one word for each of the 5 keys"),
    ],
)
def test_what_is_refused(arguments, said):
    with pytest.raises(InputError, match=said):
        look(attention(2, 3, 5, 5), **arguments)


def test_numbers_that_cannot_be_weights_are_refused_with_their_place():
    weights = attention(1, 2, 3, 3)
    weights[0, 1, 2, 0] = -0.5
    with pytest.raises(InputError, match=r"Layer 0, head 1 holds -0\.5 at query 2, key 0; .* finite and not negative"):
        look(weights)
    weights[0, 1, 2, 0] = np.nan
    record = AttentionRecord(index=0, module="", kernel="", heads=(0, 1), weights=weights)
    with pytest.raises(InputError, match="Layer 0, head 1 holds nan at query 2, key 0"):
        look(Capture(records=(record,)))
    with pytest.raises(InputError, match="holds no attention: there is nothing to look at"):
        look(Capture(records=()))


def test_too_many_weights_for_a_page_are_refused_with_the_cure():
    layers = layers_of(Capture.from_arrays(attention(2, 3, 40, 40)))
    with pytest.raises(InputError, match=r"would have .* MB, and .* is the most; choose layers, heads or a smaller"):
        encode_page(layers, title="x", window=Window(0, 40), most=1000)
    with pytest.raises(InputError, match="6 heads of 40 tokens are too many for one page; choose layers or heads"):
        encode_page(layers, title="x", most=5000)
    with pytest.raises(InputError, match="6 heads of 40 tokens are too many for one page; choose layers or heads"):
        encode_page(layers, title="x", most=11_000)  # nearly: the first try finds out


def test_a_page_is_written_whole_or_not_at_all(tmp_path):
    found = look(attention(1, 1, 2, 2))
    found.to_html(tmp_path / "a.html")
    assert (tmp_path / "a.html").read_text(encoding="utf-8") == found.page
    with pytest.raises(InputError, match=r"must end in \.html"):
        found.to_html(tmp_path / "a.txt")
    assert [file.name for file in tmp_path.iterdir()] == ["a.html"]


@pytest.mark.slow
@pytest.mark.parametrize("ending", ["svg", "png", "pdf"])
@pytest.mark.parametrize("shape", [(1, 1, 6, 9), (2, 3, 70, 5)])
def test_figures(shape, ending, tmp_path):
    pytest.importorskip("matplotlib", reason="pictures need matplotlib")
    words = [*HOSTILE, "漢字"][: shape[-1]]
    words = [*words, *map(str, range(shape[-1] - len(words)))]
    found = look(attention(*shape), tokens=words, name="$\\frac{$")
    found.plot(tmp_path / f"f.{ending}")
    data = (tmp_path / f"f.{ending}").read_bytes()
    assert len(data) > 2000
    found.plot(tmp_path / f"g.{ending}")
    if ending != "svg":  # whose names of parts are drawn at random
        assert (tmp_path / f"g.{ending}").read_bytes() == data


def test_tokens_are_shown_as_people_read_them():
    assert [printable_token(word) for word in ("▁the", "   ", "x" * 50, "a\u202eb", "\n")] == [
        "·the", "···", "x" * 39 + "…", "a\ufffdb", "↵",
    ]  # fmt: skip


def test_the_page_begins_with_the_head_that_follows_a_pattern():
    weights = np.full((2, 3, 5, 5), 0.2, np.float32)
    weights[1, 2] = np.eye(5, k=-1)  # each token reads the one before
    weights[1, 2, 0, 0] = 1
    found = facts(look(weights, tokens=list("abcde")).page)["striking"]
    assert (found["layer"], found["place"]) == (1, 2)
    assert found["sentence"] == (
        "Layer 1, head 2 reads the token before: 100% of its weight, where chance would give 20%."
    )
    assert facts(look(np.full((3, 1, 4, 4), 0.25)).page)["striking"] == {"layer": 1, "place": 0, "sentence": ""}


def test_padding_that_some_word_reads_is_shown():
    weights = np.zeros((1, 1, 4, 4), np.float32)
    weights[..., 0] = 1
    words = ["a", "b", "<pad>", "<pad>"]
    assert facts(look(weights, tokens=words).page)["words"] == [["a", "b"]]
    weights[0, 0, 1] = [0.5, 0, 0, 0.5]
    assert facts(look(weights, tokens=words).page)["words"] == [["a", "b"], words]
