"""A Transformer in both tiers of the jail: the same verdicts, and hostile files that get nothing they did not earn."""

from __future__ import annotations

from pathlib import Path

import pytest

from coursework.checker.test_transformer_check import filled
from regard.coursework.checker import recorded_run
from regard.coursework.checker.check import check_transformer
from regard.coursework.checker.template import NAME
from regard.errors import CouldNotFindOut, InputError
from regard.sandbox import jail
from regard.sandbox.jail import Tier
from tiers import SLOW, TABLE

TIERS = (Tier.BUBBLEWRAP, Tier.LANDLOCK)
HOSTILE = sorted((Path(__file__).parent / "hostile").glob("*.py.txt"))
# The others fail with a sentence about a line of their own.
SAID = {
    "allocates_a_hundred_gigabytes": r"allocate|took more memory than it may|was killed by signal",
    "floods": "printed a flood and was stopped",
    "never_ends": r"was stopped: recording it took more than",
    "leaves_the_process": "left the process with code 0 in recording it",
    "sends_its_own_recording": r"recording of the model is damaged|cannot be checked",
    "sends_a_huge_recording": "cannot be checked: it wrote into the pipe|makes more than",
}


def both(path: Path) -> list[object]:
    """A hostile file in both tiers; a run starts torch, so a few files in one of them do where time is short."""
    name, place = path.name.partition(".")[0], HOSTILE.index(path)
    quick = TIERS[place % 2] if place % 8 < 2 else None
    marks = {tier: SLOW if tier is quick else TABLE for tier in TIERS}
    return [pytest.param(path, tier, id=f"{name}-{tier.value}", marks=marks[tier]) for tier in TIERS]


def needed(tier: Tier) -> None:
    if reason := jail.tier_obstacle(tier):
        pytest.skip(f"{tier.value}: {reason}")


@pytest.mark.slow
@pytest.mark.parametrize(
    "tier", [Tier.BUBBLEWRAP, pytest.param(Tier.LANDLOCK, marks=pytest.mark.slow)], ids=[tier.value for tier in TIERS]
)
def test_right_and_wrong_are_told_apart_in_it(tmp_path: Path, tier: Tier) -> None:
    needed(tier)
    right = check_transformer(filled(tmp_path / "right.py"), jail=tier)
    assert right.answer
    assert right.doubts == ()
    assert f"It ran in a jail ({tier.value}" in str(right).replace("\n    ", " ")
    wrong = check_transformer(filled(tmp_path / "wrong.py", old="dim=-1", new="dim=-2"), jail=tier, hints=2)
    assert [one.name for one in wrong.diagnosis.mistakes] == ["softmax-over-queries"]
    assert right.printed == wrong.printed == ""  # torch finds what it asks for, and does not complain


@pytest.mark.parametrize(("path", "tier"), [one for path in HOSTILE for one in both(path)])
def test_hostile_models_get_nothing(path: Path, tier: Tier, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    needed(tier)
    name = path.name.partition(".")[0]
    if name == "never_ends":
        monkeypatch.setattr(recorded_run, "RECORDING", 3.0)
    secret = tmp_path / "secret.txt"
    secret.write_text("the judge's", encoding="utf-8")
    file = tmp_path / f"{name}.py"
    file.write_text(path.read_text(encoding="utf-8").replace("/secret", str(secret)), encoding="utf-8")
    before = sorted(str(one) for one in tmp_path.iterdir())
    limit = 1.0 if name == "never_ends" else 60.0
    if name in SAID or name.startswith("tries_"):
        with pytest.raises(InputError, match=SAID.get(name, r"failed: line \d+: ")):
            check_transformer(f"{file}:{NAME}", jail=tier, limit=limit)
    else:
        try:
            found = check_transformer(f"{file}:{NAME}", jail=tier, limit=limit)
        except CouldNotFindOut as unread:  # neither right nor wrong: it gets nothing
            assert "could not be read" in str(unread)  # noqa: PT017 - one of two outcomes
        else:
            assert not found.answer or found.doubts, f"{name} passes"
    assert sorted(str(one) for one in tmp_path.iterdir()) == before
    assert secret.read_text(encoding="utf-8") == "the judge's"


def test_each_says_what_it_tries() -> None:
    assert len(HOSTILE) >= 12
    assert all(path.read_text(encoding="utf-8").startswith('"""') for path in HOSTILE)


def test_a_model_of_this_process_is_not_put_there() -> None:
    with pytest.raises(InputError, match=r"A model of this process cannot be put in a jail; name its file"):
        check_transformer(lambda q, k, v: v, jail=True)


def test_what_goes_in_is_the_recorder_and_no_reference() -> None:
    sent = recorded_run.RECORDER.payload()["texts"]
    assert "regard.tracing.part_recorder" in sent
    assert not [name for name in sent if name.endswith(("reference", "mistakes", "search", "recheck", "secret"))]
