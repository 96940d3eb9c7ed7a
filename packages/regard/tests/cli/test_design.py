"""``regard design`` from the outside: the same answers as Python, four exit codes, whole files, no traceback."""

from __future__ import annotations

import io
import json
import re

import numpy as np
import pytest

from regard import design
from regard.cli import main
from regard.design import exact_answers, hull, pictures
from regard.errors import CouldNotFindOut
from regard.examples import example

SQUARE = "1,1; -1,1; -1,-1; 1,-1; 0,0"


def same(printed, found):
    """The JSON on the command line is the Python result, number for number."""
    assert json.loads(printed) == json.loads(found.to_json())


# the same answers ---------------------------------------------------------------------------------------------------


def test_every_verb_prints_what_python_returns(regard, tmp_path):
    keys, target = np.random.default_rng(0).standard_normal((7, 5)), np.random.default_rng(1).dirichlet(np.ones(7))
    path, aim = tmp_path / "keys.npy", tmp_path / "target.csv"
    np.save(path, keys)
    np.savetxt(aim, target, fmt="%.17g")
    target = np.loadtxt(aim)
    cases = [
        (("copy", path, 3, "--eps", 0.2), design.copy(keys, 3, eps=0.2)),
        (("copy", path, 3, "--max-norm", 2), design.copy(keys, 3, max_norm=2.0)),
        (("share", path, 1, 4, "--eps", 0.9), design.share(keys, [1, 4], eps=0.9)),
        (("share", path, 1, 4, "--max-norm", 0.5), design.share(keys, [1, 4], max_norm=0.5)),
        (("match", path, aim, "--kl", 0.3), design.match(keys, target, kl=0.3)),
        (("match", path, aim, "--max-norm", 0.5), design.match(keys, target, max_norm=0.5)),
        (("ceiling", path, 2), design.ceiling(keys, 2)),
        (("ceiling", path, 2, "--max-norm", 3, "--scale", 0.5), design.ceiling(keys, 2, max_norm=3.0, scale=0.5)),
        (("ceiling", path, "--all"), design.ceilings(keys)),
        (("copy", path, 3, "--scale", "1/sqrt(d)"), design.copy(keys, 3, eps=0.01, scale=5**-0.5)),
        (
            ("copy", path, 3, "--allowed", "1,0,1,1,0,1,0"),
            design.copy(keys, 3, eps=0.01, allowed=np.array([1, 0, 1, 1, 0, 1, 0]) == 1),
        ),
    ]
    for words, found in cases:
        code, out, err = regard("design", *words, "--json")
        same(out, found)
        assert code == (0 if found.answer else 1), words
        assert err == ""
        code, out, _ = regard("design", *words)
        assert out == f"{found}\n".replace("to_json()", "--json").replace("details()", "--details")


def test_several_keys_are_copied_together(regard):
    code, out, _ = regard("design", "copy", "example:orthonormal", 0, 3, 7)
    assert code == 0
    assert out.startswith("3 of 3 keys can be copied.\n")
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["0", "3", "7"]
    code, out, _ = regard("design", "copy", "--keys", SQUARE, 0, 4, "--json")
    assert code == 1
    assert [found["reachable"] for found in json.loads(out)["designs"]] == [True, False]
    code, out, _ = regard("design", "copy", "--keys", SQUARE, 0, 4)
    assert "never" in out
    assert "0.2 at most" in out
    assert regard("design", "ceiling", "--keys", SQUARE, 0, 4)[0] == 0
    assert len(regard("design", "ceiling", "--keys", SQUARE, "--all")[1].splitlines()) == 8


@pytest.mark.parametrize("verb", ["copy", "share", "match", "ceiling", "verify"])
def test_help_has_a_worked_example_that_works(regard, verb):
    code, out, _ = regard("design", verb, "--help")
    assert code == 0
    assert "Example" in out
    assert f"regard design {verb}" in out


# where keys come from -----------------------------------------------------------------------------------------------


def test_standard_input_text_and_npy(regard):
    same(regard("design", "copy", "-", 0, "--json", stdin=b"1 0\n0 1\n")[1], design.copy(np.eye(2), 0, eps=0.01))
    stream = io.BytesIO()
    np.save(stream, np.eye(3))
    same(
        regard("design", "share", "-", 0, 2, "--json", stdin=stream.getvalue())[1],
        design.share(np.eye(3), [0, 2], eps=0.01),
    )


@pytest.mark.parametrize(("dtype", "said"), [(np.float16, "float16"), (np.int32, "int32"), (np.float32, "float32")])
def test_conversions_are_said_on_standard_error(regard, tmp_path, dtype, said):
    np.save(tmp_path / "keys.npy", np.eye(3).astype(dtype))
    code, out, err = regard("design", "copy", tmp_path / "keys.npy", 0, "--json")
    assert code == 0
    assert f"{said} converted to float64" in err
    same(out, design.copy(np.eye(3), 0, eps=0.01))


def test_examples_by_name(regard):
    same(regard("design", "ceiling", "example:square", 4, "--json")[1], design.ceiling(example("square"), 4))


# exit codes ---------------------------------------------------------------------------------------------------------


@pytest.fixture
def hidden(tmp_path):
    """A key that is the middle of two others but for rounding, in so many dimensions that exact arithmetic gives up."""
    keys = np.random.default_rng(0).standard_normal((120, 101))
    keys[-1] = (keys[0] + keys[1]) / 2
    np.save(tmp_path / "hidden.npy", keys)
    return tmp_path / "hidden.npy"


@pytest.mark.slow
def test_the_four_exit_codes(regard, hidden):
    assert regard("design", "copy", "--keys", SQUARE, 0)[0] == 0
    assert regard("design", "copy", "--keys", SQUARE, 4)[0] == 1
    assert regard("design", "copy", "--keys", SQUARE, 5)[0] == 2
    code, out, err = regard("design", "copy", hidden, 119)
    assert (code, out) == (3, "")
    assert err.startswith("regard: Key 119 is a corner of the hull, so that some query meets the demand: one of norm")


BAD = [
    (("copy", "--keys", SQUARE, 5), "Key 5 does not exist: there are 5 keys, counted from 0"),
    (("copy", "--keys", SQUARE), "copy which key?"),
    (("copy", "--keys", SQUARE, "one"), "A key is named by a whole number counted from 0"),
    (("copy",), "copy needs keys"),
    (("copy", "--keys", SQUARE, 0, "--eps", 0), "eps must be a positive finite number"),
    (("copy", "--keys", SQUARE, 0, "--eps", "nan"), "'nan' is not a number"),
    (("copy", "--keys", SQUARE, 0, "--eps", "much"), "Invalid value for '--eps'"),
    (("copy", "--keys", SQUARE, 0, "--eps", 0.1, "--max-norm", 1), "Give either eps"),
    (("copy", "--keys", SQUARE, 0, 1, "--max-norm", 1), "one key at a time"),
    (("copy", "--keys", SQUARE, 0, 1, "--out", "x.json"), "one key at a time"),
    (("copy", "--keys", SQUARE, 0, "--scale", "large"), 'The scale must be a positive number or "1/sqrt\\(d\\)"'),
    (("copy", "--keys", SQUARE, 0, "--scale", "-1"), "The scale multiplies every score"),
    (("copy", "--keys", SQUARE, 0, "--allowed", "1,2,1,1,1"), "The mask must have a 1 .* or a 0 for each key"),
    (("copy", "--keys", SQUARE, 0, "--allowed", "1,1"), "one True or False per key, 5 in all"),
    (("copy", "--keys", "1,0; 0", 0), "keys"),
    (("copy", "--keys", "1,nan; 0,1", 0), "is nan"),
    (("copy", "nowhere.npy", 0), "there is no such file"),
    (("copy", "example:circle", 0), "There is no example 'circle'"),
    (("share", "--keys", SQUARE, 1, 1), "A key is named twice"),
    (("match", "--keys", SQUARE), "one target distribution"),
    (("match", "--keys", SQUARE, "0.5,0.5"), "each of the 5 keys its share"),
    (("match", "--keys", SQUARE, "0.5,0.4,0,0,0"), "must sum to 1"),
    (("ceiling", "--keys", SQUARE), "ceiling which key?"),
    (("verify", "nowhere.json", "--keys", SQUARE), "There is no file nowhere.json"),
    (("copy", "--keys", SQUARE, 0, "--out", "x.txt"), "the name must end in .json"),
    (("copy", "--keys", SQUARE, 0, "--out", "no/such/x.json"), "there is no directory"),
    (("copy", "--keys", SQUARE, 0, "--plot", "x.doc"), "the name must end in .svg"),
]


@pytest.mark.parametrize(("words", "message"), BAD, ids=[" ".join(map(str, words)) for words, _ in BAD])
def test_bad_input_is_one_sentence_exit_2_and_nothing_written(regard, words, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = regard("design", *words)
    assert code == 2
    assert out == ""
    assert re.search(message, " ".join(err.replace("│", " ").split())), err
    assert not list(tmp_path.iterdir())


# files --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "answer"),
    [
        (("copy", "example:square", 0), 0),
        (("copy", "example:square", 4), 1),
        (("share", "example:orthonormal", 1, 4), 0),
        (("match", "example:pair", "0.9,0.1"), 0),
        (("copy", "example:gaussian", 3, "--max-norm", 2), 0),
        (("ceiling", "example:square", 4), 0),
    ],
)
def test_out_and_verify(regard, words, answer, tmp_path):
    path = tmp_path / "certificate.json"
    code, out, err = regard("design", *words, "--out", path)
    assert code == answer
    assert f"certificate written to {path}" in err
    assert [p.name for p in tmp_path.iterdir()] == ["certificate.json"]
    code, out, _ = regard("design", "verify", path, "--keys", words[1])
    assert code == 0
    assert "The certificate holds." in out
    whole = tmp_path / "result.json"
    whole.write_text(regard("design", *words, "--json")[1])
    code, out, _ = regard("design", "verify", whole, "--keys", words[1], "--json")
    assert code == 0
    assert json.loads(out)["holds"] is True
    code, _, err = regard("design", "verify", path, "--keys", "example:hexagon")
    assert code == 2
    assert "made for other keys" in err


def test_a_false_certificate_is_answered_no(regard, tmp_path):
    path = tmp_path / "false.json"
    certificate = design.copy(example("square"), 0, eps=0.01).certificate.to_dict()
    path.write_text(json.dumps({**certificate, "query": [x * (1 - 1e-6) for x in certificate["query"]]}))
    code, out, _ = regard("design", "verify", path, "--keys", "example:square")
    assert code == 1
    assert "FAILS  the query meets the demand (copy)" in out
    assert "The certificate does NOT hold." in out
    for content in ("", "[]", '{"format": "regard-certificate/1"}', json.dumps({**certificate, "norm": "short"})):
        path.write_text(content)
        assert regard("design", "verify", path, "--keys", "example:square")[0] == 2


def test_an_old_file_survives_a_failure(regard, hidden, tmp_path):
    path = tmp_path / "certificate.json"
    path.write_text("old")
    assert regard("design", "copy", hidden, 119, "--out", path)[0] == 3
    assert path.read_text() == "old"


@pytest.mark.parametrize("ending", [".svg", ".png", ".pdf"])
def test_plot_writes_a_picture(regard, ending, tmp_path):
    path = tmp_path / f"picture{ending}"
    code, _, err = regard("design", "copy", "example:square", 0, "--plot", path)
    assert code == 0
    assert f"picture written to {path}" in err
    start = {".svg": b"<?xml", ".png": b"\x89PNG", ".pdf": b"%PDF"}[ending]
    assert path.read_bytes().startswith(start)


@pytest.mark.parametrize(
    "found",
    [
        design.copy(example("square"), 4, eps=0.1),
        design.copy(np.ones((1, 2)), 0, eps=0.1),
        design.share(np.outer(np.arange(3.0), [1, 1]), [0, 1], max_norm=1.0),
        design.match(np.eye(2), [0.9, 0.1], kl=0.01),
        design.ceiling([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]], 1),
    ],
    ids=["never", "one key", "collinear", "match", "ceiling"],
)
def test_every_kind_of_answer_can_be_drawn(found, tmp_path):
    shape = found.certificate.shape
    keys = np.outer(np.arange(float(shape[0])), np.arange(1.0, shape[1] + 1))
    pictures.draw(found, keys, str(tmp_path / "a.png"))
    assert (tmp_path / "a.png").stat().st_size > 1000


def test_a_picture_gives_forbidden_keys_no_weight():
    keys, allowed = example("square"), np.array([True, True, False, True, True])
    weights = pictures._weights(design.ceiling(keys, 0, allowed=allowed), keys)
    assert weights[2] == 0
    assert weights.sum() == pytest.approx(1)
    assert len(pictures.sketch(design.copy(np.eye(40), 3, eps=0.1), np.eye(40)).axes) == 1


@pytest.mark.slow
def test_one_key_without_an_answer_costs_the_others_nothing(regard, hidden, monkeypatch):
    code, out, _ = regard("design", "copy", hidden, 0, 119, 3)
    assert code == 3
    assert out.startswith("2 of 3 keys can be copied; 1 could not be decided.\n")
    assert [line.split()[0] for line in out.splitlines()[2:5]] == ["0", "3", "119"]
    assert "could not find out" in out

    def tired(keys, key, **options):
        raise CouldNotFindOut("no time")

    monkeypatch.setattr(hull, "decide", tired)
    monkeypatch.setattr(exact_answers, "LARGEST", 0)
    code, out, _ = regard("design", "ceiling", "--keys", SQUARE, "--all")
    assert code == 3
    assert out.startswith("No key has a ceiling below 1, of 4; 1 could not be decided.\n")
    assert [line.split()[0] for line in out.splitlines()[2:7]] == ["0", "1", "2", "3", "4"]
    assert "4  could not find out: no time" in out
    code, out, _ = regard("design", "ceiling", "--keys", SQUARE, "--all", "--json")
    assert (code, len(json.loads(out)["ceilings"]), json.loads(out)["unanswered"]) == (3, 4, {"4": "no time"})


def test_several_answers_are_rechecked_from_one_file(regard, tmp_path):
    for words in (("ceiling", "--keys", SQUARE, "--all"), ("copy", "--keys", SQUARE, 0, 1)):
        path = tmp_path / "several.json"
        path.write_text(regard("design", *words, "--json")[1], encoding="utf-8")
        code, out, _ = regard("design", "verify", path, "--keys", SQUARE)
        assert code == 0
        assert out.count("The certificate holds.") == (5 if words[0] == "ceiling" else 2)
        spoilt = json.loads(path.read_text(encoding="utf-8"))
        first = spoilt["ceilings" if words[0] == "ceiling" else "designs"][0]["certificate"]
        first["query"] = [0.0, 0.0]
        path.write_text(json.dumps(spoilt), encoding="utf-8")
        assert regard("design", "verify", path, "--keys", SQUARE)[0] == 1


@pytest.mark.parametrize(
    ("words", "exit_code", "said"),
    [
        (("copy", "--keys", "0;0;1;2;3;-1;-2;-3", 0, "--eps", 0.01), 1, "none gets more than 0.125 on that key"),
        (("ceiling", "--keys", "0;0;1;2;3;-1;-2;-3", 0), 0, "can get at most 0.125 of the attention"),
        (
            ("match", "--keys", "1,1;1,-1;-1,1;-1,-1", "0.5,0,0,0.5", "--kl", 0.01),
            1,
            "the divergence is at least 0.6931",
        ),
        (("copy", "--keys", "0,0;1,0;-1,0;0,1", 0, "--eps", 2), 1, "1/3 on that key is approached and never reached"),
        (("share", "--keys", "0,0;1,0;-1,0;0,1", 0, 1, "--eps", 1), 1, "1/3 on the least of them is approached and"),
        (("copy", "--keys", "1;1;1", 0, "--max-norm", 1e290), 0, "attention 0.333333333 on that key"),
        (("copy", "--keys", "0;1;2", 0, "--eps", 1.0000001), 0, "at least 1/(1+1.0000001)"),
        (("copy", "--keys", "0.1,0.3; 0.2,0.6; 0.3,0.9", 1), 0, "only its exact digits do it, which --json has"),
        (("share", "--keys", "1,0,0;0,1,0;0,0,1", 0, 1, "--eps", 1e-9), 0, "norm 16.9205"),
        (("match", "--keys", "1,0,0;0,1,0;0,0,1", "0.7,0.2,0.1", "--kl", 1e-14), 0, "This query does it"),
        (("ceiling", "--keys", "0.1,0.3; 0.2,0.6; 0.3,0.9; 0.2,0.6", "--all"), 0, "Each row is proved"),
    ],
)
def test_what_was_false_or_refused_once(regard, words, exit_code, said):
    code, out, _ = regard("design", *words, "--details")
    assert code == exit_code
    assert said in out
    code, out, _ = regard("design", *words, "--json")
    assert code == exit_code
    json.loads(out)


def test_the_figures_around_a_certificate_are_held_against_it(regard, tmp_path):
    path = tmp_path / "result.json"
    whole = json.loads(regard("design", "copy", "example:square", 0, "--json")[1])
    path.write_text(json.dumps(whole), encoding="utf-8")
    code, out, _ = regard("design", "verify", path, "--keys", "example:square")
    assert code == 0
    assert "holds  the file's own figures are the certificate's: query, norm, verb" in out
    assert "Not checked, and not part of the certificate: textbook, verification." in out
    for field, value in (("query", [0.0, 0.0]), ("norm", 1.0), ("attention", 1.0), ("chosen", [1]), ("eps", 0.001)):
        path.write_text(json.dumps({**whole, field: value}), encoding="utf-8")
        code, out, _ = regard("design", "verify", path, "--keys", "example:square")
        assert code == 1
        assert f"FAILS  the file states its own {field}, which is not the certificate's" in out


def test_integers_that_float64_rounds_are_refused_by_winnable(regard, tmp_path):
    np.save(tmp_path / "rows.npy", np.array([[2**53], [2**53 + 1], [2**53 + 2]]))
    code, out, err = regard("design", "winnable", tmp_path / "rows.npy")
    assert (code, out) == (2, "")
    assert "integers beyond 2^53 that float64 rounds, such as 9007199254740993" in err


@pytest.mark.parametrize(
    "words",
    [
        ("ceiling", "--keys", "9007199254740992; 9007199254740993; 0", 1),
        ("copy", "--keys", "9007199254740992,0; 9007199254740993,0.5", 1),
        ("match", "--keys", "0; 1", "9007199254740993,0"),
        ("copy", "--keys", "0; 1", 1, "--max-norm", "9007199254740993"),
        ("copy", "--keys", "0; 1", 1, "--scale", "9007199254740993"),
    ],
    ids=lambda words: " ".join(map(str, words)),
)
def test_integers_that_float64_rounds_are_refused_as_they_are_typed(regard, words):
    code, out, err = regard("design", *words)
    assert (code, out) == (2, "")
    assert "integer" in err
    assert "beyond 2^53 that float64 rounds" in err


@pytest.mark.parametrize("word", ["1_0", "9" * 400, "1.0", "１"])
def test_a_key_is_named_in_digits(
    word: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("sys.argv", ["regard", "design", "copy", "--keys", "1,0; 0,1", word])
    with pytest.raises(SystemExit, match="2"):
        main()
    assert "A key is named by a whole number counted from 0" in capsys.readouterr().err


def test_a_scale_at_the_end_of_the_range_is_answered_in_a_sentence(regard):
    code, _, said = regard("design", "copy", "--keys", "1,0; 0,0", 0, "--eps", 0.5, "--scale", "1e-320")
    assert code == 3
    assert "too long for float64" in said
    assert "Warning" not in said
