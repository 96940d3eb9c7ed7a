"""Derivations as students write them: right ones are never accused, and the first wrong line is named."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from places import ROOT
from regard.coursework.catalogue import claims
from regard.coursework.derivations.evaluation import NoValue
from regard.coursework.derivations.gaps import FOLDER, leave_gaps
from regard.coursework.derivations.problem import find_problem, problem_names, read_problem
from regard.coursework.derivations.report import check_derivation, check_file, template_text
from regard.coursework.derivations.verdicts import Mark
from regard.errors import InputError
from regard.mistakes.catalogue import find_mistake

HERE = Path(__file__).parent
PAGE = ROOT / "docs" / "derivations.md"


def derivations(pattern):
    made = []
    for path in sorted(HERE.glob(pattern)):
        for block in path.read_text(encoding="utf-8").split("=== ")[1:]:
            head, _, text = block.partition("\n")
            claim, _, style = head.partition(" | ")
            if find_problem(claim) is not None:
                made.append(pytest.param(claim, text, id=f"{claim}: {style}"))
    return made


@pytest.mark.parametrize(("claim", "text"), derivations("right*.txt"))
def test_no_right_derivation_is_accused(claim, text):
    report = check_derivation(claim, text)
    assert report.lines
    assert not [line for line in report.lines if line.mark in (Mark.FALSE, Mark.NOT_READ)]


@pytest.mark.parametrize(("claim", "text"), derivations("wrong*.txt"))
def test_the_first_wrong_line_is_named(claim, text):
    wrong = next(n for n, line in enumerate(text.split("\n"), 1) if "@@" in line)
    report = check_derivation(claim, text.replace("@@", ""))
    accused = [one for one in report.lines if one.mark is Mark.FALSE or one.remark.startswith("the shapes")]
    assert accused[0].line == wrong
    assert not report.complete


@pytest.mark.parametrize(("claim", "text"), derivations("open.txt"))
def test_what_proves_nothing_is_neither_accused_nor_complete(claim, text):
    report = check_derivation(claim, text)
    assert report.lines
    assert report.exit_code == 3


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.md")))
def test_our_own_proofs_are_complete_and_the_goal_alone_is_not(name):
    report = check_derivation(name, (FOLDER / f"{name}.md").read_text(encoding="utf-8"))
    assert report.complete, str(report)
    assert report.exit_code == 0


@pytest.mark.parametrize("name", ["order-blindness", "singular-energy", "singular-tail"])
def test_the_goal_alone_is_no_proof(name):
    report = check_derivation(name, find_problem(name).goal[0].text)
    assert [line.mark for line in report.lines] == [Mark.TRUE]
    assert report.exit_code == 3


@pytest.mark.parametrize("name", problem_names())
def test_all_goals_alone_are_no_proof_however_near_they_are(name):
    report = check_derivation(name, "\n".join(goal.text for goal in find_problem(name).goal))
    assert report.exit_code == 3
    assert report.first_false is None
    assert report.missing


@pytest.mark.parametrize(
    ("line", "mark"), [("Q \\le Q", Mark.FOLLOWS), ("Q \\le K", Mark.FALSE), ("I \\le I", Mark.FOLLOWS)]
)
def test_an_inequality_between_matrices_is_read_entry_by_entry(line, mark):
    (said,) = check_derivation("order-blindness", f"${line}$").lines
    assert said.mark is mark


def test_a_claim_that_is_stated_before_its_proof_is_not_called_false():
    """There is a B: what it says of an arbitrary B is no line of the proof."""
    claim = "**Claim.** There is a matrix $B$ of rank $k-1$ with $\\|A - B\\|_2 \\le \\|A\\|_F/\\sqrt{k}$.\n\n"
    proof = (FOLDER / "low-rank-error.md").read_text(encoding="utf-8")
    assert check_derivation("low-rank-error", claim + proof).complete
    early = check_derivation("low-rank-error", "$\\|A - B\\|_2 = 0$\n\n" + proof).lines[0]
    assert (early.mark, early.remark) == (Mark.NOT_READ, "B is not chosen yet: say first what it is")


@pytest.mark.parametrize("name", problem_names())
def test_every_given_fact_and_lemma_is_a_theorem_on_the_instances(name):
    problem = find_problem(name)
    facts = [*problem.given, *(fact for fact, where in problem.order if not where)]
    for fact in facts:
        for where in problem.instances:
            try:
                assert problem.holds(fact, where), fact.text
            except NoValue:
                continue


def test_a_false_fact_is_refused(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        'given = ["P P = I"]\ngoal = ["P^T P = I"]\n[sizes]\nT = [2, 3, 5]\n'
        '[symbols]\nP = { shape = ["T", "T"], is = "permutation" }\n'
    )
    with pytest.raises(InputError, match="P P = I is given, and is false"):
        read_problem(own)


def test_a_teachers_own_problem(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        'given = ["P^T P = I"]\ngoal = ["(P X)^T (P X) = X^T X"]\n[sizes]\nT = [2, 3, 5]\nd = [1, 2, 3]\n'
        '[symbols]\nP = { shape = ["T", "T"], is = "permutation" }\nX = { shape = ["T", "d"] }\n'
    )
    report = check_derivation("own", "(P X)^T (P X) = X^T P^T P X = X^T X", problem=read_problem(own))
    assert report.complete, str(report)


def test_nobody_proves_a_thing_by_defining_or_supposing_it():
    for text in ("Let $Z_p = P Z$.", "Suppose $Z(PX) = P Z(X)$. Then $Z_p = P Z$.", "$Z' := PZ$"):
        report = check_derivation("order-blindness", text)
        assert report.exit_code == 3, text
    named = check_derivation("extract-from-sum", "M = I - B B^T\nM s = v_a")
    assert "may be built from A, a alone" in named.lines[0].remark
    assert not named.complete


def test_a_false_line_has_its_instance_values_and_repair():
    report = check_derivation("order-blindness", "H_p = P softmax(Q K^T / sqrt(d)) P P V")
    line = report.first_false
    assert line.values[0] != line.values[1]
    assert "were" in line.repair
    assert report.exit_code == 1


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("H = softmax(Q K^T) V", "scale-missing"),
        ("H_p = softmax(P Q K^T P^T / d) P V", "scale-by-width"),
        ("H = (Q K^T / sqrt(d)) V", "softmax-missing"),
        ("H = softmax(softmax(Q K^T / sqrt(d))) V", "softmax-twice"),
        ("Z = (H W_1 + 1 b_1) W_2 + 1 b_2", "relu-missing"),
    ],
)
def test_a_known_mistake_is_told_with_the_sentence_of_the_catalogue(line, name):
    repair = check_derivation("order-blindness", line).first_false.repair
    assert repair.endswith(f": the line has {find_mistake(name).said} ({name} in the list of mistakes)")


def test_no_inequality_is_called_true_because_instances_are_kind_to_it():
    report = check_derivation("singular-tail", r"Let $t = \|A\|_F^2$. Then $t \le t/k$.")
    assert report.first_false.repair != "t were t^2"  # false where ||A|| is small, which no instance is


def test_a_repair_has_a_value_where_the_line_fails():
    report = check_derivation("singular-energy", "||A||_F = sum_{i=1}^d sigma_i")
    assert report.first_false.repair == ""  # sigma_(i^2) is no singular value there


def test_words_before_a_sign_are_no_formula():
    report = check_derivation("weights-are-a-distribution", "alpha_i >= 0\nprod = 1\nalpha_i > 0 [all are >= 0]")
    assert [line.mark for line in report.lines] == [Mark.FOLLOWS, Mark.NOT_READ, Mark.FOLLOWS]
    assert "'>= 0' ends a remark in words" in str(report)


def test_what_holds_for_whole_numbers_alone_is_not_called_false_before_it_is_shown():
    early = check_derivation("positions-are-distinct", "t = t'\nm = 0\nm = 1\nt - t' = pi m")
    assert [line.mark for line in early.lines] == [Mark.TRUE, Mark.TRUE, Mark.FALSE, Mark.FALSE]
    assert "which no line before has shown" in early.lines[0].remark
    sine = check_derivation("positions-are-distinct", "sin(t - t') = 0\nt - t' = pi m\nm = 1")
    assert [line.mark for line in sine.lines] == [Mark.FOLLOWS, Mark.FOLLOWS, Mark.FALSE]
    assert "read as twice the m of 2 pi m" in str(sine)


def test_what_is_not_read_is_said():
    report = check_derivation("order-blindness", r"$H_p = \oplus H$ and $Q_p = W_Q X$ ![a](b.png) ~~$H_p = H$~~")
    assert [line.mark for line in report.lines] == [Mark.NOT_READ, Mark.NOT_READ]
    assert "is not defined" in report.lines[1].remark
    assert "a formula in a picture is not read: type it" in report.said
    assert report.exit_code == 3


LARGE = {
    "nesting": "$" + "(" * 5000 + "Q" + ")" * 5000 + " = Q$",
    "terms": "Q = " + " + ".join(["Q"] * 10_000),
    "factors": "$" + "P" * 200 + "X = " + "P" * 200 + "X$",
    "exponents": "2^1000000000 = 3\n7^(7^(7^7)) = 1\nd^99999999 = 1",
    "sums": "sum_{i=1}^{1000000000} 1 = 3\nsum_{i=1}^{99} sum_{j=1}^{99} sum_{l=1}^{99} sum_{m=1}^{99} d = 3",
    "braces": "$" + "\\mathbf{" * 900 + "Q" + "}" * 900 + " = Q$",
    "products": "Q = " + " ".join(["(P + P^T + I)"] * 30) + " Q",
    "openings": "\\begin{align}" * 4000,
    "crossed": "~~<del>![\\sout{" * 3000,
    "places": "X_i = 0 for i = " + ", ".join(map(str, range(3, 3000))),
    "signs": "=" * 5000 + "\n" + "$" * 999 + "\n" + "\\" * 500 + "_" * 500 + "^" * 500,
}


@pytest.mark.parametrize("text", LARGE.values(), ids=LARGE.keys())
def test_nothing_hangs(text):
    report = check_derivation("order-blindness", text)
    assert Mark.FOLLOWS not in [line.mark for line in report.lines]


def test_what_is_said_under_a_condition_or_denied_is_not_accused():
    for text in ("$H_p = H$ if $P = I$.", "H_p = H if P = I", r"$H_p = H \text{ if } P = I$", "$H_p = H$ is wrong."):
        report = check_derivation("order-blindness", text)
        assert report.exit_code == 3, text
    then = check_derivation("copying-within-budget", r"$q = t k_1$. If $i \ne 1$ then $s_i = 0$.")
    assert then.first_false.text == "s_i = 0"


def test_factors_that_cancel_are_read_and_a_crossed_line_is_not():
    crossed = r"\sout{$M = \frac{1}{2} A^{T}$} $\cancel{M = A}$"
    read = r"$M = AA^T$, $Ms = A\cancel{A^T A}c + A \cancel{A^TB} d = v_a$"
    report = check_derivation("extract-from-sum", f"{crossed} {read}")
    assert report.complete
    assert report.said == ("what is crossed out is not read",)


def test_every_index_may_be_named():
    for words, complete in (
        ("for i = 1, ..., n", True),
        ("for 1 <= i <= n", True),
        ("", True),
        ("for i = 2, ..., n", False),
    ):
        text = f"alpha_i = e^(s_i)/sum_j e^(s_j) > 0 {words}\nsum_i alpha_i = 1"
        assert check_derivation("weights-are-a-distribution", text).complete is complete, words


def test_more_than_is_read_is_refused_in_one_sentence():
    for text, said in (("Q_p = P Q\n" * 2000, "2000 statements; at most 1500"), ("x" * 70_000, "at most 60000")):
        with pytest.raises(InputError, match=said):
            check_derivation("order-blindness", text)


def test_one_letter_has_one_meaning_and_a_supposition_is_no_step():
    twice = check_derivation("order-blindness", "Let $S = Q K^T$. Let $S = P$.")
    assert "take another letter" in twice.lines[1].remark
    against = check_derivation("singular-tail", r"Suppose $\sigma_k^2 > \|A\|_F^2/k$. Then $k\sigma_k^2 > \|A\|_F^2$.")
    assert not against.first_false
    assert not against.complete
    whole = check_derivation("low-rank-error", "$B = A$")
    assert "it must have rank(B) <= k - 1" in whole.lines[0].remark
    signed = check_derivation("copying-within-budget", "t = -2 ln(n/eps)\nq = t k_1\n||q|| = t")
    assert "t must be positive" in signed.lines[0].remark
    assert signed.lines[2].mark is Mark.FALSE


def test_a_file_of_every_kind_begins_empty_and_is_read(tmp_path):
    for ending in (".md", ".tex", ".txt", ".ipynb"):
        path = tmp_path / f"proof{ending}"
        claims["singular-energy"].template(path)
        assert check_file("singular-energy", path).lines == ()
    book = json.loads((tmp_path / "proof.ipynb").read_text())
    book["cells"][1]["source"] = ["$A = U S V^T$"]
    (tmp_path / "proof.ipynb").write_text(json.dumps(book))
    assert [line.mark for line in check_file("singular-energy", tmp_path / "proof.ipynb").lines] == [Mark.FOLLOWS]
    with pytest.raises(InputError, match="exists and is not overwritten"):
        claims["singular-energy"].template(tmp_path / "proof.md")
    (tmp_path / "bad.ipynb").write_text("{}")
    with pytest.raises(InputError, match="is no notebook"):
        check_file("singular-energy", tmp_path / "bad.ipynb")


def test_all_mistakes_of_a_problem_are_told_at_once(tmp_path):
    own = tmp_path / "own.toml"
    own.write_text(
        'gaol = ["x = 1"]\n[sizes]\nn = [0]\n[symbols]\nx = { is = "positiv" }\ny = { shape = ["q", "1"] }\n'
    )
    with pytest.raises(InputError) as error:
        read_problem(own)
    for part in (
        "did you mean 'goal'",
        "[sizes] n must be",
        "'positiv', which is none of",
        "q is no size",
        "goal is missing",
    ):
        assert part in str(error.value)


WORST = (Mark.FALSE, Mark.NOT_READ, Mark.TRUE, Mark.DEFINES, Mark.FOLLOWS)


@pytest.mark.parametrize(
    ("claim", "text"), re.findall(r"```derivation (\S+)\n(.*?)```", PAGE.read_text("utf-8"), re.DOTALL)
)
def test_the_published_solutions_get_the_marks_that_the_page_says(claim, text):
    expected, lines = zip(*(re.split(r" +\| ", line, maxsplit=1) for line in text.strip().split("\n")), strict=True)
    report = check_derivation(claim, "\n".join(lines))
    said = []
    for n in range(1, len(lines) + 1):
        marks = [one.mark for one in report.lines if one.line == n]
        said.append(min(marks, key=WORST.index).value if marks else "words")
    assert said == list(expected), str(report)


def test_hints_and_the_whole():
    once = check_derivation("order-blindness", "Q_p = P Q", hints=1)
    twice = check_derivation("order-blindness", "Q_p = P Q", hints=2)
    assert once.hint == "go on from Q_p = P Q towards Z_p = P Z."
    assert "softmax lemma" in twice.hint
    assert once.begins_at_given
    assert "softmax lemma" in once.unused


def test_from_a_claim_to_a_notebook_and_gaps():
    report = claims["order-blindness"].check_derivation("Q_p = P Q")
    assert "follows" in report._repr_html_()
    assert "&lt;" not in report._repr_html_()
    assert "&lt;b&gt;" in claims["order-blindness"].check_derivation("<b> = 1")._repr_html_()
    assert report.to_dict()["exit_code"] == 3
    assert leave_gaps("order-blindness", 3).text.count("____") == 3
    with pytest.raises(InputError, match="--gaps must be from 1"):
        leave_gaps("order-blindness", 90)
    text = template_text(find_problem("order-blindness"))
    assert "Z_p = P Z" in text
    assert not check_derivation("order-blindness", text).lines


def test_nobody_is_accused_by_a_name_that_was_chosen_in_an_unread_line():
    text = "Let $B := \\mathrm{trunc}_k[A] \\odot 1$.\n$$\\|A - B\\|_F^2 = \\sum_{i=k+1}^d \\sigma_i^2$$"
    report = check_derivation("low-rank-error", text)
    assert report.exit_code == 3
    assert "B stands alone in line 1, which was not read" in str(report)
    other = "$$\\sigma_1 := \\odot$$\n$$k \\sigma_k^2 = \\|A\\|_F^2$$"  # what rests on nothing unread is still told
    assert check_derivation("singular-tail", other).exit_code == 1


def test_a_letter_that_is_set_to_a_usual_meaning_has_it_for_the_permuted_input_too():
    text = "$\\tilde A = softmax(Q_p K_p^T/\\sqrt d)$. So $A_p V_p = P A P^T P V = P A V = P H$."
    report = check_derivation("order-blindness", text)
    assert "A is read as softmax(Q K^T / sqrt(d))" in str(report)
    assert {line.mark for line in report.lines} == {Mark.FOLLOWS}


def test_a_name_may_be_explained_behind_its_use():
    report = check_derivation(
        "copying-within-budget", "Let $q = \\beta k_1$ where $\\beta = 2\\ln(n/eps)$. $k_1^T q = \\beta$."
    )
    assert [line.mark for line in report.lines] == [Mark.DEFINES, Mark.DEFINES, Mark.FOLLOWS]


@pytest.mark.parametrize(
    ("claim", "text"),
    [
        ("one-head-two-point-noise", "Suppose c = 1/2. Then alpha_1/alpha_2 = (n/eps)^(-1/2).\nIn any case {}"),
        ("one-head-two-point-noise", "Case 1: c = 1/2.\nalpha_1/alpha_2 = (n/eps)^(-1/2)\nCase 2: c = 3/2.\n{}"),
    ],
)
def test_what_holds_in_one_case_is_false_in_another_and_in_general(claim, text):
    report = check_derivation(claim, text.format("alpha_1/alpha_2 = (n/eps)^(-1/2)"))
    assert [line.mark for line in report.lines] == [Mark.FOLLOWS, Mark.FALSE]
    assert "c = 3/2" in report.lines[1].instance


def test_a_contradiction_refutes_what_was_supposed_and_nothing_else():
    head = r"Suppose $\sigma_k^2 > \|A\|_F^2/k$. "
    chain = r"Then $\|A\|_F^2 \ge \sum_{i=1}^k \sigma_i^2 \ge k \sigma_k^2 > \|A\|_F^2$, a contradiction."
    report = check_derivation("singular-tail", head + chain)
    assert report.complete
    assert "leads to a contradiction" in str(report)
    after = check_derivation("singular-tail", head + chain + r" Hence $\sigma_1 > \sigma_k$.")
    assert after.lines[-1].mark is Mark.FALSE
    member = check_derivation("average-of-two", "Suppose s_i < s_i + t. Suppose s_i > s_i. Then s_i > s_i.")
    assert not member.complete


def test_an_inequality_that_nine_instances_are_kind_to_is_attacked():
    report = check_derivation("singular-tail", "sum_{i=k}^d sigma_i^2 >= k sigma_k^2")
    assert report.lines[0].mark is Mark.FALSE
    where = check_derivation("singular-tail", "Suppose sigma_k > 0. Then sum_{i=k}^d sigma_i^2 >= k sigma_k^2.")
    assert where.lines[0].mark is Mark.FALSE


def test_a_number_of_the_problem_may_have_an_example_value():
    report = check_derivation("average-of-two", "q = t (k_a + k_b)\nFor t = 10 we get s_1 = 10, s_2 = 9.")
    assert [line.mark for line in report.lines] == [Mark.DEFINES, Mark.FOLLOWS, Mark.FALSE]


def test_a_letter_for_any_matrix_is_read_where_arithmetic_is_enough():
    report = check_derivation("order-blindness", "(P X) W = P (X W)\nW W_Q = W_Q W")
    assert [line.mark for line in report.lines] == [Mark.FOLLOWS, Mark.NOT_READ]


def test_a_map_of_places_is_read_as_the_first_line_with_it_means_it():
    there = check_derivation("order-blindness", "(P X)_{ij} = X_{sigma(i) j}\n(Q_p)_{sigma(i) j} = Q_{ij}")
    assert [line.mark for line in there.lines] == [Mark.FOLLOWS, Mark.FALSE]
    back = check_derivation("order-blindness", "(P X)_{sigma(i) j} = X_{ij}\n(Q_p)_{sigma(i) j} = Q_{ij}")
    assert [line.mark for line in back.lines] == [Mark.FOLLOWS, Mark.FOLLOWS]
    assert "row sigma(i) of P X is row i of X" in str(back)
    assert check_derivation("singular-energy", "A_{sigma(i) j} = A_{ij}").lines[0].mark is Mark.NOT_READ
