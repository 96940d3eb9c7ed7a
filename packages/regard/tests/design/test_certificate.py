"""Certificates: they survive JSON, and nothing false can be smuggled past the check."""

from __future__ import annotations

import copy as copying
import json
import math
from dataclasses import replace
from fractions import Fraction

import flint
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

import oracles
from regard import design
from regard.design import evaluate, verification
from regard.design.certificate import Certificate, read_answers, write_certificate
from regard.design.combination_check import enclose_weights
from regard.errors import InputError

RNG = np.random.default_rng(7)
KEYS = RNG.standard_normal((7, 3))
KEYS[0] = [2.0, 2.5, -1.5]  # a corner
KEYS[6] = RNG.dirichlet(np.ones(6)) @ KEYS[:6]  # inside the others' hull, or so near that it is
FLAT = np.array([[0.0, 0], [1, 0], [2, 0], [3, 0]])
HIDDEN = np.random.default_rng(5).standard_normal((7, 8))
# The mean of the others, correctly rounded (a BLAS product differs between CPUs): in their hull but for rounding,
# hence outside it.
HIDDEN[6] = [float(sum(map(Fraction, column)) / 6) for column in HIDDEN[:6].T.tolist()]
TARGET = RNG.dirichlet(np.ones(7))
WIDE, SHARES = RNG.standard_normal((5, 7)), RNG.dirichlet(np.ones(5))
ALLOWED = np.array([True, True, True, False, True, True, True])


def made():
    """One certificate of every kind, with the keys it is about."""
    return {
        "copy": (KEYS, design.copy(KEYS, 0, eps=0.3).certificate.to_dict()),
        "copy, masked and scaled": (
            KEYS,
            design.copy(KEYS, 0, eps=0.3, allowed=ALLOWED, scale=0.7).certificate.to_dict(),
        ),
        "share": (np.eye(5), design.share(np.eye(5), [0, 2], eps=0.1).certificate.to_dict()),
        "match": (WIDE, design.match(WIDE, SHARES, kl=0.01).certificate.to_dict()),
        "nothing to do": (KEYS, design.copy(KEYS, 0, eps=6.0).certificate.to_dict()),
        "copy within a norm": (KEYS, design.copy(KEYS, 0, max_norm=2.0).certificate.to_dict()),
        "share within a norm": (KEYS, design.share(KEYS, [0, 1], max_norm=2.0).certificate.to_dict()),
        "match within a norm": (KEYS, design.match(KEYS, TARGET, max_norm=0.5).certificate.to_dict()),
        "never copied": (KEYS, design.copy(KEYS, 6, eps=0.5).certificate.to_dict()),
        "never shared": (FLAT, design.share(FLAT, [0, 2], eps=0.1).certificate.to_dict()),
        "never matched": (FLAT, design.match(FLAT, [0.4, 0.1, 0.1, 0.4], kl=1e-3).certificate.to_dict()),
        "too many copies": (np.ones((3, 2)), design.copy(np.ones((3, 2)), 0, eps=1.0).certificate.to_dict()),
        "ceiling, corner": (KEYS, design.ceiling(KEYS, 0).certificate.to_dict()),
        "ceiling, inside": (KEYS, design.ceiling(KEYS, 6).certificate.to_dict()),
        "ceiling, exact direction": (HIDDEN, design.ceiling(HIDDEN, 6).certificate.to_dict()),
    }


MADE = made()


def holds(certificate, keys, **options):
    return design.verify(certificate, keys, **options).holds


def changed(certificate, **fields):
    return {**copying.deepcopy(certificate), **fields}


def with_part(certificate, part, **fields):
    return changed(certificate, **{part: {**certificate[part], **fields}})


# there and back -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MADE)
def test_a_certificate_survives_json_and_holds_in_both_arithmetics(name, tmp_path):
    keys, certificate = MADE[name]
    assert holds(certificate, keys, strict=True)
    assert holds(certificate, keys, strict=False)
    path = tmp_path / "certificate.json"
    write_certificate(str(path), Certificate.from_dict(certificate))
    assert [p.name for p in tmp_path.iterdir()] == ["certificate.json"]
    (again,) = read_answers(str(path))
    assert again == json.loads(json.dumps(certificate))
    checked = design.verify(again, keys)
    assert checked.holds
    assert checked.answer
    assert str(checked).startswith("The certificate holds. The question: ")
    assert "Checked in exact and ball arithmetic" in str(checked)
    whole = tmp_path / "result.json"
    whole.write_text(json.dumps({"something": 1, "certificate": certificate}))
    assert read_answers(str(whole)) == [{"something": 1, "certificate": again}]
    assert "Not checked, and not part of the certificate: something." in str(
        design.verify(read_answers(whole)[0], keys)
    )


def test_a_certificate_that_cannot_be_written_leaves_nothing(tmp_path):
    with pytest.raises(ValueError, match="JSON compliant"):
        write_certificate(tmp_path / "a.json", replace(Certificate.from_dict(MADE["copy"][1]), norm=math.inf))
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", MADE)
def test_another_set_of_keys_is_refused(name):
    keys, certificate = MADE[name]
    for other in (keys + 1e-12, 2 * keys, keys[:-1], np.zeros((2, 2))):
        with pytest.raises(InputError, match="The certificate was made for other keys"):
            holds(certificate, other)


# what a certificate claims, made a little better than it is -----------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in MADE if "query" in MADE[name][1]])
def test_a_shorter_query_is_rejected(name):
    keys, certificate = MADE[name]
    query = np.array(certificate["query"])
    if not query.any():
        return
    shrunk = changed(certificate, query=(query * (1 - 1e-6)).tolist())
    assert not holds(shrunk, keys) or "ceiling" in name  # a ceiling's query has 1e-6 to spare
    assert not holds(changed(certificate, query=(query * 0.5).tolist()), keys)
    assert not holds(changed(certificate, query=(-query).tolist()), keys)
    assert not holds(changed(certificate, query=[0.0] * len(query)), keys)


@pytest.mark.parametrize("name", ["copy", "copy, masked and scaled", "share", "match"])
def test_better_numbers_than_proved_are_rejected(name):
    keys, certificate = MADE[name]
    assert not holds(changed(certificate, norm=certificate["norm"] * (1 - 1e-12)), keys)
    assert not holds(changed(certificate, lower_bound=certificate["lower_bound"] * (1 + 1e-9)), keys)
    assert not holds(changed(certificate, lower_bound=certificate["norm"] * 2), keys)
    assert not holds(changed(certificate, gap=-1e-9), keys)
    assert not holds(with_part(certificate, "question", **sharper(certificate)), keys)


def sharper(certificate):
    name = "kl" if certificate["question"]["verb"] == "match" else "eps"
    return {name: certificate["question"][name] * (1 - 1e-6)}


@pytest.mark.parametrize("name", ["copy within a norm", "share within a norm", "match within a norm"])
def test_a_better_budget_than_proved_is_rejected(name):
    keys, certificate = MADE[name]
    better = -1 if "match" in name else 1
    assert not holds(changed(certificate, reached=certificate["reached"] + better * 1e-12), keys)
    assert not holds(changed(certificate, bound=certificate["bound"] - better * 1e-8), keys)
    assert not holds(changed(certificate, gap=0.0), keys)
    if np.linalg.norm(certificate["query"]) > (1 - 1e-12) * certificate["question"]["max_norm"]:
        short = certificate["question"]["max_norm"] * (1 - 1e-9)
        assert not holds(with_part(certificate, "question", max_norm=short), keys)


@pytest.mark.parametrize("name", ["never copied", "never shared", "never matched", "too many copies"])
def test_a_tighter_never_is_rejected(name):
    keys, certificate = MADE[name]
    tighter = certificate["bound"] * (1.0001 if "matched" in name else 0.9999)
    assert not holds(changed(certificate, bound=tighter), keys)
    demand = {"kl": 10.0} if "matched" in name else {"eps": 10.0}
    assert not holds(with_part(certificate, "question", **demand), keys)


@pytest.mark.parametrize("name", ["ceiling, corner", "ceiling, inside"])
def test_a_tighter_ceiling_is_rejected(name):
    keys, certificate = MADE[name]
    assert not holds(changed(certificate, ceiling=certificate["ceiling"] - 1e-9), keys)
    assert not holds(changed(certificate, reached=certificate["reached"] + 1e-9), keys)
    assert not holds(changed(certificate, gap=0.0), keys)


# the duals ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["copy", "share", "match", "copy within a norm", "never copied", "ceiling, inside"])
def test_weights_must_be_weights(name):
    keys, certificate = MADE[name]
    part = "dual" if "dual" in certificate else "combination"
    weights = certificate[part]["weights"]
    for bad in (
        [-1e-9, *weights[1:]],
        [math.nan, *weights[1:]],
        [math.inf, *weights[1:]],
        weights[1:],
        [*weights, 0.1],
        [0.0] * len(weights),
        [1e-200] * len(weights),
        [1e200] * len(weights),
        [10**400, *weights[1:]],
        ["a"] * len(weights),
        [weights],
        None,
        "weights",
    ):
        with pytest.raises(InputError, match=f"The certificate's '?{part} weights"):
            holds(with_part(certificate, part, weights=bad), keys)


@pytest.mark.parametrize("name", ["copy", "share", "match"])
def test_other_weights_prove_no_more(name):
    keys, certificate = MADE[name]
    rng = np.random.default_rng(1)
    for size in (1e-3, 0.1, 1.0):
        weights = np.array(certificate["dual"]["weights"]) * np.exp(
            size * rng.standard_normal(len(certificate["dual"]["weights"]))
        )
        checked = design.verify(with_part(certificate, "dual", weights=weights.tolist()), keys)
        assert not checked.holds
        assert checked.numbers["lower_bound"] < certificate["norm"]
    rescaled = np.array(certificate["dual"]["weights"]) * 1e-6
    checked = design.verify(with_part(certificate, "dual", weights=rescaled.tolist()), keys)
    assert checked.numbers["lower_bound"] <= certificate["norm"]


# combinations -------------------------------------------------------------------------------------------------------


def never(weights, basis, *, keys=FLAT, mixture=(1.0,), chosen=(1,), **question):
    """A certificate of "never" for key 1 of four on a line, which is k_1 = (k_0 + k_2) / 2 and more."""
    base = design.copy(FLAT, 1, eps=0.1).certificate.to_dict()
    entry = {"weights": list(weights), "mixture": list(mixture), "basis": list(basis)}
    certificate = with_part(base, "question", keys=list(chosen), **question)
    certificate.pop("bound")
    return changed(certificate, combination=entry)


def test_combinations_that_balance_are_accepted():
    assert holds(never([0.5, 0.5, 0.0], [0, 1]), FLAT)
    assert holds(never([0.45, 0.45, 0.1], [0, 1]), FLAT)  # the weights of the basis are solved for
    assert holds(never([2 / 3, 0.0, 1 / 3], [0, 2]), FLAT)


@pytest.mark.parametrize(
    ("weights", "basis"),
    [
        ([0.0, 0.5, 0.5], [1, 2]),  # keys 2 and 3 are both on one side of key 1
        ([0.5, 0.4, 0.1], [0]),  # too few to solve for
        ([0.6, 0.4, 0.0], [1, 2]),  # weight 2 is not in the support
        ([0.05, 0.05, 0.9], [0, 1]),  # needs a negative weight
        ([0.5, 0.5, 5.0], [0, 1]),
        ([1.0, 0.0, 0.0], [0]),
    ],
)
def test_combinations_that_do_not_balance_are_rejected(weights, basis):
    assert not holds(never(weights, basis), FLAT)


@pytest.mark.parametrize("basis", [[0, 0], [0, 3], [-1, 0], [], "01", [0.0, 1.0], [True, False], [0, 10**30]])
def test_a_basis_names_distinct_keys(basis):
    with pytest.raises(InputError, match="list of keys must be distinct whole numbers"):
        holds(
            changed(
                never([0.5, 0.5, 0.0], [0, 1]),
                combination={**never([0.5, 0.5, 0.0], [0, 1])["combination"], "basis": basis},
            ),
            FLAT,
        )


def test_a_combination_is_of_the_keys_it_names():
    corner = never([0.5, 0.5, 0.0], [0, 1], chosen=(0,))  # key 0 is an end
    assert not holds(corner, FLAT)
    with pytest.raises(InputError, match="copying is of one key"):
        holds(never([0.5, 0.5], [0, 1], chosen=(1, 3), mixture=(0.5, 0.5)), FLAT)
    assert not holds(never([0.5, 0.5, 0.0], [0, 1], eps=2.5), FLAT)  # 1/3.5 is below 1/3


def test_a_mixture_belongs_to_the_shared_keys():
    keys, certificate = MADE["never shared"]
    entry = certificate["combination"]
    for mixture in ([1.0, 0.0], [0.0, 1.0]):  # the balance was made for another mixture
        moved = with_part(certificate, "combination", mixture=mixture)
        value = design.verify(moved, keys).numbers["bound"]
        assert math.isnan(value) or value >= certificate["bound"] * (1 - 1e-9)
    with pytest.raises(InputError, match="combination mixture"):
        holds(with_part(certificate, "combination", mixture=entry["mixture"][:1]), keys)


def test_a_direction_that_does_not_win_is_rejected():
    keys, certificate = MADE["ceiling, exact direction"]
    assert "query" not in certificate
    assert certificate["ceiling"] == 1.0
    assert not holds(changed(certificate, direction=[-x for x in certificate["direction"]]), keys)
    assert not holds(changed(certificate, direction=[0] * 8), keys)
    corner = design.ceiling(np.eye(2), 0).certificate.to_dict()
    del corner["query"], corner["reached"]  # a direction reaches 1 in the limit, which is more than the query does
    assert holds(changed(corner, direction=[10**40 + 1, 10**40]), np.eye(2))  # more digits than floats have
    assert not holds(changed(corner, direction=[10**40, 10**40]), np.eye(2))
    assert not holds(changed(corner, direction=[1e40 + 1, 1e40]), np.eye(2))


def test_copies_in_a_combination_are_counted_once():
    keys = np.array([[0.0, 0], [0, 0], [1, 0], [-1, 0]])
    certificate = design.ceiling(keys, 0).certificate.to_dict()
    assert certificate["ceiling"] == pytest.approx(1 / 4)
    with_copy = with_part(certificate, "combination", weights=[1.0, 1.0, 1.0], basis=[0, 1])
    assert holds(with_copy, keys)  # e^H = 3, the copy among them: 1/4 again
    for cheat in (with_part(certificate, "combination", weights=[1.0, 0.0, 0.0], basis=[0]), with_copy):
        assert not holds(changed(cheat, ceiling=0.2), keys)
        assert design.verify(cheat, keys).numbers["ceiling"] >= 0.25


@given(st.integers(0, 10**6), st.integers(1, 3), st.booleans())
@settings(max_examples=25, deadline=None)
def test_balanced_weights_exist_next_to_the_stored_ones(seed, d, far):
    """`_balance_exactly` against fractions: a basis solution in exact arithmetic lies in the enclosure."""
    rng = np.random.default_rng(seed)
    n = d + 3
    rows = rng.integers(-20, 20, (n, d)).astype(float) * (0.1 if seed % 2 else 1.0) + (1e6 if far else 0)
    weights = rng.dirichlet(np.ones(n))
    anchor = (weights @ rows)[None, :]
    found = enclose_weights(rows, weights, np.arange(d + 1), anchor, np.ones(1))
    if found is None:
        return
    mid, rad = found
    fixed = [Fraction(float(w)) for w in weights[d + 1 :]]
    system, right = [], []
    for c in range(d):
        system.append([flint.fmpq(*Fraction(float(x)).as_integer_ratio()) for x in rows[: d + 1, c]])
        rest = sum((w * Fraction(float(x)) for w, x in zip(fixed, rows[d + 1 :, c], strict=True)), Fraction(0))
        right.append(Fraction(float(anchor[0, c])) - rest)
    system.append([flint.fmpq(1)] * (d + 1))
    right.append(1 - sum(fixed, Fraction(0)))
    solved = flint.fmpq_mat(system).solve(flint.fmpq_mat([[flint.fmpq(x.numerator, x.denominator)] for x in right]))
    for i in range(d + 1):
        exact = Fraction(int(solved[i, 0].p), int(solved[i, 0].q))
        assert abs(Fraction(float(mid[i])) - exact) <= Fraction(float(rad[i]))
        assert exact > 0
        assert rad[i] < 1e-6


# bounds on the safe side --------------------------------------------------------------------------------------------

ordinary = st.floats(-50, 50)
positive = st.floats(1e-30, 1e3)


@given(arrays(np.float64, 5, elements=ordinary), st.booleans())
@settings(max_examples=50, deadline=None)
def test_sums_of_exponentials_from_above(x, strict):
    rad = np.full(5, 1e-12)
    with flint.ctx.workprec(300):
        exact = sum((flint.arb(float(v)).exp() for v in x), flint.arb(0))
        bound = flint.arb(evaluate.above(evaluate.sum_exp(x, rad, strict=strict)))
        assert bound >= exact
        assert bound <= exact * (1 + flint.arb(1e-11))


@given(arrays(np.float64, 5, elements=positive), st.booleans())
@settings(max_examples=50, deadline=None)
def test_entropies_from_below(weights, strict):
    with flint.ctx.workprec(verification.PRECISION):
        bound = evaluate.below(evaluate.entropy(weights, strict=strict))
    exact = oracles.exact_entropy(weights)
    assert flint.arb(bound) <= exact
    assert flint.arb(bound) >= exact - flint.arb(1e-13)


def test_entropies_of_weights_that_vanish_beside_others():
    weights = np.array([1e50, 1e-290, 1e-20])
    for strict in (True, False):
        assert flint.arb(evaluate.below(evaluate.entropy(weights, strict=strict))) <= oracles.exact_entropy(weights)
    assert evaluate.below(evaluate.entropy(np.zeros(2), strict=True)) == -math.inf


@given(arrays(np.float64, 3, elements=st.floats(allow_nan=False, allow_infinity=False)))
@settings(max_examples=100, deadline=None)
def test_lengths_from_above(vector):
    square = sum((Fraction(float(x)) ** 2 for x in vector), Fraction(0))
    length = evaluate.norm_above(vector)
    if length == math.inf:
        return
    assert Fraction(length) ** 2 >= square
    assert Fraction(length) ** 2 <= square * (1 + Fraction(1, 10**14)) + Fraction(1, 10**600)


@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1e-6, 1.0, 1e6]), st.sampled_from([0.0, 1e8]))
@settings(max_examples=50, deadline=None)
def test_slacks_from_above(seed, refine, total, offset):
    rng = np.random.default_rng(seed)
    keys, anchors = rng.standard_normal((5, 2)) + offset, rng.standard_normal((2, 2)) + offset
    weights, target = rng.dirichlet(np.ones(5)) * total, rng.dirichlet(np.ones(5))
    exact_keys, (w,), (p,) = oracles.exact(keys), oracles.exact(weights), oracles.exact(target)
    mean = [sum(a * row[c] for a, row in zip(w, exact_keys, strict=True)) / sum(w) for c in (0, 1)]
    aim = [sum(a * row[c] for a, row in zip(p, exact_keys, strict=True)) / sum(p) for c in (0, 1)]
    square = sum((m - a) ** 2 for m, a in zip(mean, aim, strict=True))
    bound = evaluate.slack_to_target_above(keys, weights, target, refine=refine)
    assert Fraction(bound) ** 2 >= square
    assert bound <= math.sqrt(square) * (1 + 1e-9) + 1e-14 * (offset + 1) * max(total, 1 / total)
    key = oracles.exact(anchors)[0]
    square = sum((m - a) ** 2 for m, a in zip(mean, key, strict=True))
    bound = evaluate.slack_above(keys, weights, anchors[:1], np.ones(1), refine=refine)
    assert Fraction(bound) ** 2 >= square


def test_scores_beyond_the_range_of_floats_prove_nothing():
    """Leads that overflow must not come out as "not a number", which is neither above nor below anything."""
    keys = np.array([[1e130, 0.0], [-1e130, 0.0], [0.0, 1e130]])
    certificate = design.copy(keys, 0, eps=0.1).certificate.to_dict()
    for huge in (1.5e178, 1e200, 1.7e308):
        for strict in (True, False):
            wrong = changed(certificate, query=[-huge, 0.0], norm=1.79e308, gap=1e300)
            assert not holds(wrong, keys, strict=strict)
    copied = design.copy(keys, 0, max_norm=1e-129).certificate.to_dict()
    wrong = with_part(changed(copied, query=[-1.5e178, 0.0], gap=1e300), "question", max_norm=1e300)
    assert not holds(wrong, keys)


# what is not a certificate --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"format": "regard-certificate/0"}, "This is not a certificate"),
        ({"claim": "longest"}, "claim 'longest' is not one that exists"),
        ({"claim": ["shortest"]}, "is not one that exists"),
        ({"question": None}, "'question' is missing or not a dict"),
        ({"question": {"verb": "copy", "keys": [0]}}, "must give 'eps' as a positive number; it is None"),
        ({"question": {"verb": "copy", "keys": [0], "eps": 10**400}}, "'eps' as a positive number; it is a int"),
        ({"question": {"verb": "copy", "keys": [0], "eps": True}}, "'eps' as a positive number"),
        ({"question": {"verb": "copy", "keys": [], "eps": 1}}, "list of keys must be distinct whole numbers"),
        ({"question": {"verb": "copy", "keys": [7], "eps": 1}}, "whole numbers from 0 to 6"),
        ({"question": {"verb": "match", "target": [1.0], "kl": 1}}, "'target' must be 7 finite numbers"),
        ({"question": {"verb": "match", "target": [0.5] * 7, "kl": 1}}, "target must be a distribution"),
        ({"allowed": [1, 2]}, "names a key that its own mask forbids"),
        ({"allowed": [0, 0]}, "distinct whole numbers"),
        ({"data": None}, "'data' is missing or not a dict"),
        ({"data": {}}, "made for other keys"),
        ({"scale": 0}, "'scale' must be a positive number"),
        ({"scale": -1.0}, "'scale' must be a positive number"),
        ({"scale": "1"}, "'scale' must be a finite number; it is a str"),
        ({"scale": 10**400}, "'scale' must be a finite number; it is a int"),
        ({"norm": math.nan}, "'norm' must be a finite number; it is nan"),
        ({"norm": None}, "'norm' must be a finite number"),
        ({"query": [0.0]}, "'query' must be 3 finite numbers"),
        ({"query": "abc"}, "'query' must be 3 finite numbers"),
        ({"query": [10**400, 0, 0]}, "'query' must be 3 finite numbers"),
        ({"dual": None}, "'dual' is missing or not a dict"),
    ],
)  # fmt: skip
def test_malformed_certificates_are_refused_in_one_sentence(fields, message):
    keys, certificate = MADE["copy"]
    with pytest.raises(InputError, match=message) as caught:
        holds(changed(certificate, **fields), keys)
    assert "\n" not in str(caught.value)


def test_attention_to_a_forbidden_key_cannot_be_hidden_in_a_target():
    target = TARGET * ALLOWED / (TARGET * ALLOWED).sum()
    certificate = design.match(KEYS, target, kl=0.5, allowed=ALLOWED).certificate.to_dict()
    assert holds(certificate, KEYS)
    target[0], target[3] = 0.0, target[0]
    with pytest.raises(InputError, match="distribution over the allowed keys"):
        holds(with_part(certificate, "question", target=target.tolist()), KEYS)


@pytest.mark.parametrize("direction", [None, "up", [1, 2], [1.0, math.nan], ["a", "b"], [[1], [2]], {"x": 1}])
def test_a_direction_is_as_many_numbers_as_a_key_has(direction):
    keys = np.array([[0.1, 0.3], [0.2, 0.6], [0.3, 0.9]])
    certificate = changed(design.ceiling(keys, 1).certificate.to_dict(), direction=direction)
    certificate.pop("query")
    if direction == [1, 2]:
        assert not holds(certificate, keys)
        return
    with pytest.raises(InputError, match="'direction'"):
        holds(certificate, keys)


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is not JSON"),
        (b"{", "is not JSON"),
        (b"\xff\xfe\x00", "is not JSON"),
        (b"[1, 2]", "holds no certificate"),
        (b'"text"', "holds no certificate"),
        (b"[" * 100_000, "is not JSON"),
        (b'{"norm": ' + b"1" * 5000 + b"}", "is not JSON"),
    ],
)
def test_other_files_are_refused_in_one_sentence(content, message, tmp_path):
    path = tmp_path / "file.json"
    path.write_bytes(content)
    with pytest.raises(InputError, match=message):
        read_answers(str(path))


def test_missing_files_are_refused(tmp_path):
    with pytest.raises(InputError, match="There is no file"):
        read_answers(str(tmp_path / "no.json"))
    with pytest.raises(InputError, match="is a folder"):
        read_answers(str(tmp_path))
    for nothing in (None, 3, "certificate", []):
        with pytest.raises(InputError, match="This is not a certificate"):
            design.verify(nothing, KEYS)
    with pytest.raises(InputError, match="rows of one length"):
        design.verify(MADE["copy"][1], [[1.0], [2.0, 3.0]])


# random changes -----------------------------------------------------------------------------------------------------

WILD = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-3, 12),
    st.just(10**400),
    st.floats(allow_nan=True, allow_infinity=True),
    st.text(max_size=3),
    st.lists(st.floats(-2, 2), max_size=4),
    st.just({}),
    st.just("remove"),
)


def places(node, path=()):
    """Every path into a JSON value."""
    found = [path] if path else []
    items = node.items() if isinstance(node, dict) else enumerate(node) if isinstance(node, list) else ()
    for key, value in items:
        found += places(value, (*path, key))
    return found


def put(node, path, value):
    for key in path[:-1]:
        node = node[key]
    if value == "remove":
        del node[path[-1]]
    else:
        node[path[-1]] = value


def true(certificate, keys):
    """Whether what a certificate claims in its question, query and stated numbers is true, found independently."""
    question, rows = certificate["question"], certificate.get("allowed")
    allowed = None if rows is None else np.isin(np.arange(len(keys)), rows)
    claim, verb = certificate["claim"], question["verb"]
    if claim in ("shortest", "strongest"):
        weights = oracles.exact_weights(keys, certificate["query"], allowed=allowed, scale=certificate["scale"])
    if claim == "shortest" and verb == "copy":
        return oracles.gives(weights[question["keys"][0]], 1 / (1 + Fraction(question["eps"])))
    if claim == "shortest" and verb == "share":
        share = 1 / (len(question["keys"]) + Fraction(question["eps"]))
        return all(oracles.gives(weights[i], share) for i in question["keys"])
    if claim == "shortest":
        return bool(oracles.exact_divergence(question["target"], weights) <= question["kl"])
    if claim == "strongest":
        return evaluate.norm_above(np.array(certificate["query"])) <= question["max_norm"] * (1 + 1e-15)
    return True


@pytest.mark.slow
@given(st.sampled_from(sorted(MADE)), st.data())
@settings(max_examples=400, deadline=None, suppress_health_check=[HealthCheck.too_slow])
def test_random_changes_are_refused_rejected_or_harmless(name, data):
    keys, certificate = MADE[name]
    changed_one = json.loads(json.dumps(certificate))
    for _ in range(data.draw(st.integers(1, 2))):
        path = data.draw(st.sampled_from(places(changed_one)))
        put(changed_one, path, data.draw(WILD))
    try:
        checked = design.verify(changed_one, keys)
    except InputError:
        return
    assert isinstance(str(checked), str)
    assert json.loads(checked.to_json())["holds"] is checked.holds
    if not checked.holds:
        return
    assert true(changed_one, keys)
    if changed_one["question"] == certificate["question"] and changed_one["claim"] == certificate["claim"]:
        for number, sign in (("lower_bound", 1), ("norm", -1)):
            if (
                number in certificate
                and changed_one.get(number) is not None
                and changed_one["scale"] == certificate["scale"]
            ):
                # a claim that holds is no better than the optimum, which the original pins down
                assert sign * (changed_one[number] - certificate[number]) <= 1e-8 * abs(certificate[number]) or (
                    changed_one.get("allowed") != certificate["allowed"]
                )
