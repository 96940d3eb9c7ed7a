"""Models in a graded pile: in the jail like every answer, judged from outside, their mistakes counted."""

from __future__ import annotations

import os
import re
from pathlib import Path

import numpy as np
import pytest

from coursework.checker.test_transformer_check import FILLED, filled
from regard.errors import InputError
from regard.grading.assignments.assignment_check import check_assignment
from regard.grading.assignments.assignment_file import read_assignment
from regard.grading.gradebook.grader import grade, pile_of
from regard.grading.gradebook.marks import ClassMarks, mark_outcome, student_view
from regard.grading.gradebook.secret import Secret
from regard.grading.questions.assignment import Kind, Limits, Task
from regard.grading.questions.examination import Outcome, Status, StudentAnswer, examine
from regard.grading.reports.grades_folder import write_marks
from regard.grading.submissions.submission import read_submissions
from regard.sandbox import jail as jails
from regard.sandbox.jail import Tier
from regard_models.grading.audit_answers import AUDIT
from regard_models.grading.audit_recheck import (
    DifferentModelsError,
    Questions,
    Stream,
    answers_differ,
    read_answers,
    read_streams,
)

pytest.importorskip("torch")
pytestmark = [pytest.mark.slow, pytest.mark.table]  # each starts torch several times, in a jail
TIERS = [tier for tier in (Tier.BUBBLEWRAP, Tier.LANDLOCK) if not jails.tier_obstacle(tier)]
TRANSFORMER = Task(id="t", kind=Kind.TRANSFORMER, points=7, function="TransformerTranslator", claim="translator")
AUDITED = Task(id="a", kind=Kind.AUDIT, points=2, function="build")
MODELS = """
name = "models"
[[question]]
id = "t"
claim = "translator"
points = 7
[[question]]
id = "a"
kind = "audit"
function = "build"
points = 2
"""
HEALTHY = """
import torch
def build():
    torch.manual_seed(0)
    return torch.nn.TransformerEncoderLayer(16, 4, batch_first=True)
"""
LEAKS = """
import torch
from torch import nn
class Leaky(nn.Module):
    def __init__(self):
        super().__init__()
        self.e, self.o = nn.Embedding(50, 12), nn.Linear(12, 50)
    def forward(self, ids):
        x = self.e(ids)
        return self.o(x + x.mean(0, keepdim=True))
def build():
    torch.manual_seed(0)
    return Leaky(), torch.randint(0, 50, (2, 9))
"""
LIES = (
    LEAKS
    + """
import sys
sys.modules["regard_models.grading.sandbox_auditor"]._finding_rows = lambda found: [["batch", "all", "pass", "fine"]]
"""
)


def run(task: Task, source: str, tier: Tier = Tier.NONE, seconds: float = 60.0) -> Outcome:
    if tier not in (Tier.NONE, *TIERS):
        pytest.skip(f"{tier.value}: {jails.tier_obstacle(tier)}")
    given = StudentAnswer(name="a.py", source=source.encode(), seed=123456789012345)
    return examine(task, given, limits=Limits(seconds=seconds), jail=tier)


def test_a_pile_of_models_is_graded_in_the_jail_and_mistakes_are_counted(tmp_path: Path) -> None:
    if not TIERS:
        pytest.skip("no jail can be built here")
    (tmp_path / "a.toml").write_text(MODELS.replace(MODELS[MODELS.index('[[question]]\nid = "a"') :], ""))
    pile = tmp_path / "pile"
    pile.mkdir()
    for name, old, new in (("ada", "", ""), ("ben", "dim=-1", "dim=-2"), ("chi", "dim=-1", "dim=-2")):
        filled(pile / f"{name}.py", old=old, new=new)
    together = pile_of(read_assignment(tmp_path / "a.toml"), read_submissions([pile]), secret=Secret(b"a secret"))
    found = grade(together, tmp_path / "out", jail=TIERS[0], workers=1)
    assert {row.student: row.points for row in found.rows} == {"ada": 7.0, "ben": 6.0, "chi": 6.0}
    assert found.tiers == (TIERS[0].value,)
    assert found.mistakes == [("t", "the softmax over the queries (dim=-2) instead of the keys", 2)]
    write_marks(tmp_path / "out", together, found)
    assert "the softmax over the queries (dim=-2) instead of the keys" in (tmp_path / "out" / "class.html").read_text()
    page = (tmp_path / "out" / "students" / "ben.html").read_text()
    assert "look at attention: line " in page
    assert "softmax over the queries" not in page  # where, and not what: a hint that does not give it away


@pytest.mark.parametrize("tier", [Tier.BUBBLEWRAP, Tier.LANDLOCK])
def test_an_audit_in_the_jail(tier: Tier) -> None:
    healthy = run(AUDITED, HEALTHY, tier)
    assert (healthy.status, healthy.share, healthy.tier) == (Status.PASSED, 1.0, tier.value)
    assert "asked again from outside; the other properties are what its process said" in healthy.notes[0]
    leaky = run(AUDITED, LEAKS, tier)
    assert (leaky.status, leaky.share, leaky.reason) == (Status.FAILED, 0.0, "the audit failed: batch")


@pytest.mark.parametrize("tier", [Tier.LANDLOCK, Tier.BUBBLEWRAP])
def test_an_audit_that_lies_is_found_out_by_its_answers(tier: Tier) -> None:
    found = run(AUDITED, LIES, tier)
    assert (found.status, found.share) == (Status.FAILED, 0.0)
    assert found.reason == "asked again from outside: an example's answer hangs on its neighbours in the batch"


@pytest.mark.parametrize(
    ("task", "source", "said"),
    [
        (TRANSFORMER, "x = 1", "a.py has no 'TransformerTranslator'; it has no class and no function"),
        (AUDITED, "def build(): return 3", "a.py:build: it gives something of type int; return a torch module"),
        (AUDITED, "def build(): raise KeyError('a')", "a.py:build failed: line 1: KeyError: 'a'"),
        (AUDITED, "def build(:", "a.py cannot be imported: line 1: SyntaxError"),
    ],
)
def test_what_is_no_model_gets_a_mark_and_a_reason(task: Task, source: str, said: str) -> None:
    found = run(task, source)
    assert found.status is Status.FAILED
    assert mark_outcome(task, found).points == 0
    assert said in found.reason
    assert said.partition(" ")[2].partition(";")[0] in found.mistakes[0] or "line 1" in said


def test_time_is_no_verdict() -> None:
    source = "import torch\ndef build():\n    while True: pass"
    found = run(AUDITED, source, seconds=0.5)
    assert found.status is Status.CUT_SHORT
    assert re.search(r"auditing it took more than .* s; that is no verdict: a person has to look at it", found.reason)
    assert mark_outcome(AUDITED, found).open


BY_THE_CALL = """
import torch
from torch import nn
class Model(nn.Module):
    calls = 0
    def __init__(self):
        super().__init__()
        self.e, self.o = nn.Embedding(50, 12), nn.Linear(12, 50)
    def forward(self, ids):
        Model.calls += 1
        return self.o(self.e(ids)) * (1.0 if Model.calls < 20 else Model.calls)
def build():
    torch.manual_seed(0)
    return Model(), torch.randint(0, 50, (2, 9))
import sys
sys.modules["regard_models.grading.sandbox_auditor"]._finding_rows = lambda found: []
"""


def test_answers_by_the_number_of_the_call_are_found_out() -> None:
    found = run(AUDITED, BY_THE_CALL)
    assert found.status is Status.FAILED
    assert "the same question has two answers" in found.reason


def test_matrices_that_were_not_drawn_wait_for_a_person() -> None:
    """Honest and unusual: weight norm computes its matrix from its parameters. Not a zero, and not a mark either."""
    text = _text().replace(
        "nn.Linear(width, target_words)", "nn.utils.parametrizations.weight_norm(nn.Linear(width, target_words))"
    )
    found = run(TRANSFORMER, text)
    assert found.status is Status.DOUBTED
    assert "a person has to look: these are not made of the numbers that were put into its parameters" in found.reason
    mark = mark_outcome(TRANSFORMER, found)
    assert mark.open
    assert student_view(TRANSFORMER, mark) == ["A person will look at this before the mark stands."]


def _text() -> str:
    from regard.coursework.checker.template import TEXT

    text = TEXT.format(check="", name="TransformerTranslator")
    for before, after in FILLED.items():
        text = text.replace(before, after)
    return text


def test_no_answer_and_no_secret_goes_in_with_an_audit() -> None:
    sent = AUDIT.payload()["texts"]
    assert "regard_models.auditing.batch" in sent
    strange = ("secret", "solutions", "design", "claims", "reference", "audit_recheck")
    assert not [name for name in sent if any(word in name for word in strange)]


# hostile ones, in a pile

HOSTILE = sorted((Path(__file__).parent / "hostile_models").glob("*.py.txt"))
MATRICES = "self.Q, self.K, self.V = (nn.Linear"
ONE_HEAD = f"heads = self.heads = 1\n        {MATRICES}"
# What each of them may have at most, of 7; open where a person has to look.
MOST = {
    "edits_the_journal": (6, False),
    "hides_that_it_has_one_head": (7, True),
    "forges_its_slopes_and_its_outputs": (6, False),
}


def _hostile(path: Path, places: dict[str, Path]) -> str:
    text, model = path.read_text(encoding="utf-8"), _text()
    if path.name.startswith("hides_that_it_has_one_head"):
        assert MATRICES in model
        model = model.replace(MATRICES, ONE_HEAD)
    else:
        model = model.replace("dim=-1", "dim=-2")
    for word, there in places.items():
        text = text.replace(word, str(there))
    return text.replace("@MODEL@", model) if "@MODEL@" in text else f"{text}\n{model}"


@pytest.mark.parametrize("tier", TIERS, ids=[tier.value for tier in TIERS])
def test_no_hostile_model_changes_anothers_mark_or_gets_its_own_by_force(tier: Tier, tmp_path: Path) -> None:
    """As root, or where everybody may read and write everything: only the jail is between."""
    for folder in (tmp_path, *tmp_path.parents):
        if folder.stat().st_uid == os.getuid() and folder != Path("/tmp"):
            folder.chmod(folder.stat().st_mode | 0o055)
    places = {"@GRADES@": tmp_path / "grades", "@SUBMISSIONS@": tmp_path / "subs", "@OPEN@": tmp_path / "open"}
    for folder in places.values():
        folder.mkdir()
    places["@SECRET@"] = tmp_path / "secret.txt"
    places["@SECRET@"].write_text("the secret of a whole class")
    (tmp_path / "a.toml").write_text(MODELS.replace(MODELS[MODELS.index('[[question]]\nid = "a"') :], ""))
    (tmp_path / "subs" / "ada.py").write_text(_text())
    secret = Secret(b"the secret of a whole class")

    def marks() -> ClassMarks:
        assignment, pile = read_assignment(tmp_path / "a.toml"), read_submissions([str(tmp_path / "subs")])
        together = pile_of(assignment, pile, secret=secret)
        return write_marks(places["@GRADES@"], together, grade(together, places["@GRADES@"], jail=tier, workers=1))

    assert [row.points for row in marks().rows] == [7]
    for path in HOSTILE:
        (tmp_path / "subs" / f"{path.name.partition('.')[0]}.py").write_text(_hostile(path, places))
    for path in tmp_path.rglob("*"):
        path.chmod(0o777 if path.is_dir() else 0o666)
    found = marks()
    assert found.known == 1  # ada's line of the journal is there and believed
    strange = []
    for row in found.rows:
        one, (most, waits) = row.questions[0], {"ada": (7, False), **MOST}.get(row.student, (0, False))
        if one.points > most or one.open is not waits or not (one.reason or row.student == "ada"):
            strange.append(f"{row.student}: {one}")
    assert strange == []
    assert [row.points for row in found.rows if row.student == "ada"] == [7]
    assert list(places["@OPEN@"].iterdir()) == []
    assert "the secret" not in "".join(path.read_text() for path in places["@GRADES@"].rglob("*.*"))


def test_each_hostile_model_says_what_it_tries() -> None:
    assert len(HOSTILE) >= 10
    assert all(path.read_text(encoding="utf-8").startswith('"""') for path in HOSTILE)


def test_one_head_by_a_constructor_that_takes_none_waits_for_a_person() -> None:
    text = _text().replace(MATRICES, ONE_HEAD).replace("heads=2, ", "")
    text = text.replace("self.heads, self.head_width = heads, head_width", "self.head_width = head_width")
    found = run(TRANSFORMER, text)
    assert found.status is Status.DOUBTED
    assert "did not take the number of heads that was asked for" in found.reason
    assert mark_outcome(TRANSFORMER, found).open


# the part that is done again, without any process

STREAM = Stream(length=8, words=20, avoid=(0,), width=None, causal=True)
TABLE = np.random.default_rng(0).standard_normal((20, 5))


def honest(rows: list[np.ndarray]) -> dict[str, np.ndarray]:
    return {"output": np.cumsum(TABLE[rows[0]], axis=1)}


def broken(together, alone=None) -> tuple[str, ...]:
    asked = Questions((STREAM,), seed=3)
    return asked.violations({**asked.ask_together(together), **asked.ask_alone(alone or together)})


def test_an_honest_model_has_all_of_it() -> None:
    assert broken(honest) == ()


def test_a_model_that_remembers_is_asked_where_it_has_seen_nothing() -> None:
    """Row by row from memory it would seem not to leak; the examples alone are asked in another process."""

    def process():
        seen: dict[bytes, np.ndarray] = {}

        def answer(rows):
            made = TABLE[rows[0]] + TABLE[rows[0]].mean(0)
            for row, value in zip(rows[0], made, strict=True):
                seen.setdefault(row.tobytes(), value)
            return {"output": np.stack([seen[row.tobytes()] for row in rows[0]])}

        return answer

    asked, one, other = Questions((STREAM,), seed=3), process(), process()
    answers = {**asked.ask_together(one), **asked.ask_alone(one)}
    assert "an example's answer hangs on its neighbours in the batch" not in asked.violations(answers)
    with pytest.raises(DifferentModelsError, match="two starts of it give two models"):  # and then a person looks
        asked.violations({**asked.ask_together(process()), **asked.ask_alone(other)})


def test_two_models_cannot_be_compared() -> None:
    with pytest.raises(DifferentModelsError, match="two starts of it give two models"):
        broken(honest, lambda rows: {"output": np.cumsum(2 * TABLE[rows[0]], axis=1)})


@pytest.mark.parametrize(
    ("answer", "said"),
    [
        (lambda x: x + x.mean(0), "an example's answer hangs on its neighbours in the batch"),
        (lambda x: x[:, ::-1].cumsum(1)[:, ::-1], "a place reads later ones"),
        (lambda x: x * 0 + 1.0, "its answers do not hang on its input"),
        (lambda x: x * np.random.default_rng().standard_normal(), "the same question has two answers"),
    ],
)
def test_what_does_not_hold_is_named(answer, said: str) -> None:
    assert said in broken(lambda rows: {"output": answer(TABLE[rows[0]])})


def test_answers_of_no_batch_are_refused() -> None:
    with pytest.raises(InputError, match="its answers have no axis for the examples"):
        broken(lambda rows: {"output": np.zeros(7)})


@pytest.mark.parametrize(
    "said",
    [
        3,
        [{}],
        [{"length": 10**9, "words": 3, "avoid": [], "width": None, "causal": False}],
        [{"length": 5, "words": None, "avoid": [], "width": None, "causal": False}],
        [{"length": True, "words": 5, "avoid": [], "width": None, "causal": False}],
        [{"length": 5, "words": 5, "avoid": [], "width": None, "causal": False}] * 9,
    ],
)
def test_a_description_out_of_bounds_is_none(said) -> None:
    with pytest.raises((ValueError, KeyError)):
        read_streams(said)


def test_answers_that_are_none_are_refused() -> None:
    for data in (b"{}", b"[]", b'{"a": {"dtype": "|O", "shape": [1], "data": ""}}', b"not json"):
        with pytest.raises((ValueError, KeyError)):
            read_answers(data)


def test_far_sees_leaks_and_not_rounding() -> None:
    value = np.array([1.0, 2.0, np.nan])
    assert not answers_differ(value, value * (1 + 1e-6))
    assert answers_differ(value, value * 1.01)
    assert answers_differ(value, np.array([1.0, np.nan, np.nan]))
    assert answers_differ(value, None)
    assert answers_differ(value, value[:2])


# perplexity, with weights that were handed in

HIDDEN = '{"words": 6, "pairs": [[[1, 2], [3, 0, 5]], [[2, 4], [1, 1, 0]]]}'
WEIGHED = """
name = "p"
[[question]]
id = "p"
kind = "perplexity"
file = "hidden.json"
function = "scores"
weights = "weights.safetensors"
good = 2
bad = 6
points = 4
"""
SCORES = """
import torch
model = torch.nn.Embedding(6, 6)
ready = []
def scores(source, prefix, weights):
    if not ready:
        model.load_state_dict(weights)
        ready.append(True)
    return model(torch.tensor(len(prefix)))
"""


def weights_of(table: np.ndarray) -> bytes:
    import torch
    from safetensors.torch import save

    return save({"weight": torch.tensor(table, dtype=torch.float32)})


def handed_in(tmp_path: Path, code: str, data: bytes | None) -> list[str]:
    folder = tmp_path / "pile" / "ada"
    folder.mkdir(parents=True)
    (tmp_path / "a.toml").write_text(WEIGHED)
    (tmp_path / "hidden.json").write_text(HIDDEN)
    (folder / "hw.py").write_text(code)
    if data is not None:
        (folder / "weights.safetensors").write_bytes(data)
    return [str(tmp_path / "pile")]


def weighed(tmp_path: Path, code: str, data: bytes | None, tier: Tier) -> tuple[float, str]:
    pile = read_submissions(handed_in(tmp_path, code, data))
    together = pile_of(read_assignment(tmp_path / "a.toml"), pile, secret=Secret(b"a secret"))
    (row,) = grade(together, tmp_path / "out", jail=tier, workers=1).rows
    return row.points, row.questions[0].reason


@pytest.mark.parametrize("tier", [Tier.BUBBLEWRAP, Tier.LANDLOCK])
def test_a_model_with_weights_is_scored_in_the_jail(tmp_path: Path, tier: Tier) -> None:
    if tier not in TIERS:
        pytest.skip(f"{tier.value}: {jails.tier_obstacle(tier)}")
    table = np.random.default_rng(4).standard_normal((6, 6))
    points, reason = weighed(tmp_path, SCORES, weights_of(table), tier)
    logs = table.astype(np.float32).astype(float)
    logs -= np.log(np.exp(logs).sum(axis=1, keepdims=True))
    lost = -np.mean([logs[place, word] for target in ([3, 0, 5], [1, 1, 0]) for place, word in enumerate(target)])
    assert f"perplexity on the hidden sentences is {np.exp(lost):.4g}" in reason
    assert 0 <= points < 4


def test_without_its_weights_there_is_a_reason(tmp_path: Path) -> None:
    points, reason = weighed(tmp_path, SCORES, None, Tier.NONE)
    assert (points, reason) == (0.0, "there is no file weights.safetensors in it that can be read")


def test_weights_that_are_none_are_a_reason(tmp_path: Path) -> None:
    points, reason = weighed(tmp_path, SCORES, b"\x80\x04not weights", Tier.NONE)
    assert points == 0.0
    assert "the file of weights cannot be read" in reason


@pytest.mark.parametrize("name", ["weights.pt", "../weights.safetensors"])
def test_weights_are_safetensors(tmp_path: Path, name: str) -> None:
    (tmp_path / "hidden.json").write_text(HIDDEN)
    (tmp_path / "a.toml").write_text(WEIGHED.replace("weights.safetensors", name))
    with pytest.raises(InputError, match=r"weights must be the name of a \.safetensors file that students hand in"):
        read_assignment(tmp_path / "a.toml")


def test_an_assignment_with_models_is_tried_out_with_our_own(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(MODELS)
    checked = check_assignment(read_assignment(tmp_path / "a.toml"), jail=Tier.NONE)
    assert checked.answer
    assert {(trial.question, trial.given, trial.points) for trial in checked.trials} == {
        ("t", "right", 7.0), ("t", "divides by nothing", 6.0), ("t", "softmax over the queries", 6.0),
        ("a", "right", 2.0), ("a", "shares the batch", 0.0),
    }  # fmt: skip
    (leaks,) = (trial for trial in checked.trials if trial.given == "shares the batch")
    assert leaks.reason == "the audit failed: batch"
