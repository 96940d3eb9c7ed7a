"""Order, Rank, Translator and Claims in a real browser: shuffle, slide, run the copied lines, and the numbers agree."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from lab_browser import ONE_THREAD, browser, dragged, lines, number, opened, run_python, run_shell, settled, slid, tab
from processes import PATIENCE, wait_until
from regard import lowrank
from regard.coursework.catalogue import claims
from regard.errors import CouldNotFindOut, InputError
from regard.examples import example
from regard.lab.page import State, mathml
from regard.lab.pages import claims as claims_page
from regard.lab.pages import order, rank, translator
from regard.lab.pages.claims import draw_svg, themed_svg
from regard.lab.run_list import run_numbers, scan_runs, scan_runs_with_example
from regard.lab.server import Lab
from regard.notation import latex_lines, pieces
from regard.positions import positions
from regard.web import background_tasks
from regard.web.background_tasks import BackgroundTasks, start_early
from toy_translator import tiny, write_corpus

__all__ = ["browser", "tab"]  # fixtures


@pytest.fixture(scope="module")
def runs(tmp_path_factory):
    """A folder with one finished run, so small that it takes a moment."""
    from regard.translator.training.loop import train

    home = tmp_path_factory.mktemp("lab")
    train(tiny(write_corpus(home / "data")), home / "runs" / "toy")
    return home / "runs"


@pytest.fixture(scope="module")
def lab(runs):
    """A running lab on a free port, with that folder of runs."""
    pytest.importorskip("uplot", reason="the lab is not installed: pip install 'regard[lab]'")
    with Lab(port=0, runs=runs, folders=[Path(tempfile.gettempdir())]) as server:
        threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.02}, daemon=True).start()
        yield server
        server.shutdown()


def words(tab):
    return [word.text_content() for word in tab.locator(".word").all()]


def ask(page, **given):
    return page.PAGE.answer(State(given, start=page.PAGE.start, folders=[Path(tempfile.gettempdir())]))


# Order ---------------------------------------------------------------------------------------------------------------


def test_words_move_by_hand_and_by_keyboard_and_a_layer_without_positions_does_not_mind(tab, lab):
    opened(tab, lab, "order?order=")
    width = tab.locator(".card").first.bounding_box()["width"]
    dragged(tab, "#word-0", 2.1 * width, 0)
    assert words(tab) == ["dog", "bit", "the", "the", "man"]
    tab.focus("#word-1")
    tab.keyboard.press("ArrowLeft")
    settled(tab)
    assert words(tab) == ["bit", "dog", "the", "the", "man"]
    assert "order=2,1,0,3,4" in tab.url
    assert tab.evaluate("document.activeElement.id") == "word-0"  # the focus goes with the word
    assert number(tab, "difference") < number(tab, "tolerance")
    assert tab.locator(".card.differs").count() == 0
    tab.click("#reverse")
    settled(tab)
    assert words(tab) == ["man", "the", "the", "dog", "bit"]
    tab.click("#shuffle")
    settled(tab)
    assert sorted(words(tab)) == sorted(["the", "dog", "bit", "the", "man"])
    tab.click("#restore")
    settled(tab)
    assert words(tab) == ["the", "dog", "bit", "the", "man"]


def test_positions_tell_the_orders_apart_and_the_lines_say_so_too(tab, lab, tmp_path):
    opened(tab, lab, "order?dim=2&length=1000")
    tab.check("#positions")
    settled(tab)
    assert number(tab, "difference") > 0.01
    assert tab.locator(".card.differs").count() > 0
    assert "1 and 711 are bit for bit the same" in tab.text_content("#say")
    slid(tab, "dim", "3")  # the fourth of the dimensions, 8
    assert "dim=8" in tab.url
    found = positions(dim=8, length=1000, format="bfloat16")
    assert number(tab, "nearest") == pytest.approx(sum(found.distance) / 2, rel=1e-12)
    difference, *said = run_python(lines(tab, "python")).splitlines()
    assert float(difference) == number(tab, "difference")
    assert f"Largest difference {number(tab, 'gap'):.3g}" in said[0]
    printed = run_lines(lines(tab, "shell"), tmp_path)
    assert f"Largest difference {number(tab, 'gap'):.3g}" in printed
    assert f"at distance {number(tab, 'nearest'):.6g}" in printed


def run_lines(text, folder):
    """Several shell lines in a shell of their own; `regard` is this environment's."""
    path = os.path.dirname(sys.executable) + os.pathsep + os.environ["PATH"]
    shell = ["bash", "-c", text]
    done = subprocess.run(
        shell, cwd=folder, env={**ONE_THREAD, "PATH": path}, capture_output=True, text=True, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"text": "one"}, "The sentence must have 2 to 12 words, not 1."),
        ({"text": "a " + "b" * 31, "order": ""}, "A word may have at most 30 letters; put spaces between the words."),
        ({"order": "0,0,1,2,3"}, "order must name each of the words 0 to 4 once, such as 1,0,2, not '0,0,1,2,3'."),
        ({"order": "x"}, "order must name each of the words 0 to 4 once, such as 1,0,2, not 'x'."),
        ({"do": "move 0 9"}, "The page cannot do 'move 0 9' here."),
        ({"format": "float8"}, "format must be one of real, float32, bfloat16, float16, not 'float8'."),
    ],
)
def test_mistakes_on_the_page_of_order(given, said):
    with pytest.raises(InputError) as error:
        ask(order, **given)
    assert str(error.value) == said


def test_shuffles_come_from_their_seed():
    first, again = (ask(order, do="shuffle 7").state["order"] for _ in range(2))
    assert first == again
    assert sorted(first.split(",")) == list("01234")


def test_the_chart_of_positions_is_what_the_verb_says():
    for dim in (2, 6):
        nearest = dict(zip(order.LENGTHS, order._nearest(dim), strict=True))
        for length in (10, 500, 20_000):
            low, high = positions(dim=dim, length=length).distance
            assert low * (1 - 1e-9) <= nearest[length] <= high * (1 + 1e-9)


# Rank ----------------------------------------------------------------------------------------------------------------


def test_the_cut_and_its_promise_agree_with_the_copied_lines(tab, lab):
    opened(tab, lab, "rank")
    slid(tab, "rank", "7")
    assert "rank=7" in tab.url
    known = lowrank.spectrum(example("gaussian"))
    assert number(tab, "error") == known.spectral_error(7)[1]
    assert number(tab, "error") < number(tab, "error-bound")
    assert number(tab, "change") <= number(tab, "change-bound")
    printed = [list(map(float, line.split())) for line in run_python(lines(tab, "python")).splitlines()]
    names = [("sigma", "sigma-bound"), ("error", "error-bound"), ("change", "change-bound")]
    assert printed == [[pytest.approx(number(tab, name), rel=1e-12) for name in pair] for pair in names]
    said = run_shell(lines(tab, "shell"))
    bound = re.search(
        r"Rank 7 of matrix \(1,512 numbers instead of 3,200\) errs by at most (\S+) in the spectral", said
    )
    assert float(bound[1]) == pytest.approx(number(tab, "error"), rel=1e-5)


def test_ones_own_numbers_and_ones_own_file(tab, lab, tmp_path):
    opened(tab, lab, "rank?rank=9")
    tab.fill("#matrix", "3 0\n0 2\n0 0")
    tab.click("#read")
    settled(tab)
    assert "matrix=3,0;0,2;0,0&rank=2" in tab.url
    assert number(tab, "error") == 0
    slid(tab, "rank", "1")
    assert number(tab, "error") == pytest.approx(2, abs=1e-12)
    file = tmp_path / "mine one.npz"
    np.savez(file, a=np.diag([5.0, 4.0, 3.0]))
    tab.fill("#matrix", f"{file}:a")
    tab.click("#read")
    settled(tab)
    assert number(tab, "error") == pytest.approx(4, abs=1e-12)
    assert "errs by at most 4.00001 in the spectral" in run_shell(lines(tab, "shell"))  # the space is quoted
    tab.reload()
    settled(tab)
    assert number(tab, "error") == pytest.approx(4, abs=1e-12)


@pytest.mark.parametrize(
    ("matrix", "said"),
    [
        ("-", "which is not a number"),
        ("", "There is no file ''; type example:gaussian, numbers like 1,0; 0,1, or a file's path."),
        (" , ;", "The matrix needs at least one number, such as 3,0; 0,2."),
        ("nowhere.npy", "There is no file 'nowhere.npy'; type"),
        ("/etc", "The lab opens files below"),
        ("1,2; 3", "row 1 has 1 number where row 0 has 2"),
        ("example:nothing", "There is no example 'nothing'"),
        ("1," * 15_000, r"Pasted numbers may take 20,000 letters, not 30,000: save them and give the path\."),
    ],
)
def test_mistakes_on_the_page_of_rank(matrix, said, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(InputError, match=said):
        ask(rank, matrix=matrix)


def test_a_matrix_too_large_is_refused_and_a_large_one_has_no_weights(tmp_path):
    np.save(tmp_path / "large.npy", np.ones((2001, 2)))
    with pytest.raises(InputError, match="up to 2,000 rows and columns: use regard lowrank --randomised"):
        ask(rank, matrix=str(tmp_path / "large.npy"))
    np.save(tmp_path / "long.npy", np.ones((301, 2)))
    said = ask(rank, matrix=str(tmp_path / "long.npy"))
    assert "change" not in {one.name for one in said.numbers}
    assert said.say[-1] == "What the cut does to softmax(A) is shown up to 300 rows and columns."


def test_a_file_that_changes_is_read_again(tmp_path):
    file = tmp_path / "a.csv"
    for size, stamp in ((3, 1000), (5, 2000)):
        file.write_text(f"{size},0\n0,1\n")
        os.utime(file, (stamp, stamp))
        found = {one.name: one.value for one in ask(rank, matrix=str(file), rank="1").numbers}
        assert found["sigma"] == pytest.approx(size)


@pytest.mark.parametrize("matrix", ["0,0; 0,0", "7", "1;2;3", "1e-200,0; 0,1e-200"])
def test_odd_matrices_have_their_page(matrix):
    assert ask(rank, matrix=matrix).to_dict()["picture"]["most"] >= 1


# Translator ----------------------------------------------------------------------------------------------------------


def test_a_sentence_is_translated_and_its_reading_shown(tab, lab, runs):
    tab.set_default_timeout(PATIENCE * 1000)
    opened(tab, lab, "translator")
    tab.fill("#text", "der hund  sieht zweifellos")
    tab.press("#text", "Enter")
    tab.wait_for_selector("#translation")
    settled(tab)
    assert "Not in its vocabulary: zweifellos." in tab.text_content("#say")
    columns = ["<sos>", "der", "hund", "sieht", "zweifellos", "<eos>"]
    written = tab.locator(".heat-map text").evaluate_all("all => all.map((one) => one.firstChild.textContent)")
    assert written[:6] == columns
    assert tab.locator(".heat-map text.unknown, .arc-map text.unknown").count() == 2  # marked where it stands
    tab.hover("#head-0-1")  # a pointer only looks
    assert "head 1" in tab.text_content("figcaption >> nth=0")
    assert "head=1" not in tab.url
    tab.click("#head-0-1")
    settled(tab)
    assert "head=1" in tab.url
    assert tab.get_attribute("#head-0-1", "aria-pressed") == "true"
    shown = [float(cell.get_attribute("data-weight")) for cell in tab.locator(".heat-map rect").all()]
    assert np.reshape(shown, (-1, 6)).sum(axis=1) == pytest.approx(1, abs=1e-5)
    record, said, weights = run_python(lines(tab, "python")).splitlines()
    assert float(record.split()[-1]) == pytest.approx(number(tab, "perplexity"), rel=1e-12)
    target, log_probability = said.rsplit(" ", 1)
    assert target == tab.text_content("#translation")
    assert float(log_probability) == pytest.approx(number(tab, "log-probability"), abs=1e-5)
    assert np.ravel(json.loads(weights)) == pytest.approx(shown, abs=1e-6)
    assert run_shell(lines(tab, "shell").splitlines()[0]).strip() == target


def test_a_run_is_watched_while_it_trains(tab, lab, runs):
    log = runs / "new" / "log.jsonl"
    log.parent.mkdir()
    for name in ("run.json", "settings.toml", "vocabulary.json"):
        (log.parent / name).write_bytes((runs / "toy" / name).read_bytes())
    epoch = {"event": "epoch", "epoch": 1, "step": 9, "training_loss": 3.0, "perplexity": 8.5}
    epoch |= {"perplexity_without_sos": 9.5, "cpu_seconds": 1.0, "wall_seconds": 1.0}
    log.write_text(json.dumps({"event": "step", "step": 5, "epoch": 1, "loss": 2.0}) + '\n{"event": "ep')
    try:
        opened(tab, lab, "translator?run=new")
        assert "training, or stopped, 0 of 2 epochs" in tab.text_content("#say")
        assert "Training loss at step 5: 2.000." in tab.text_content("#say")
        log.write_text(json.dumps(epoch) + "\n")
        os.utime(log, (time.time() + 5, time.time() + 5))
        tab.wait_for_selector("[data-number=perplexity][data-value='8.5']")
        assert "1 of 2 …" in tab.text_content("[data-run=new]")
        assert tab.locator(".chart canvas").count() == 1
        tab.click("[data-run=toy] .open")
        settled(tab)
        assert "run=toy" in tab.url
    finally:
        for file in log.parent.iterdir():
            file.unlink()
        log.parent.rmdir()


def test_scores_of_a_comparison_and_its_runs_are_seen(tmp_path, runs):
    place = tmp_path / "vectors"
    (place / "runs").mkdir(parents=True)
    (place / "scores").mkdir()
    (place / "runs" / "learned-seed0").symlink_to(runs / "toy")
    (place / "scores" / "learned-seed0.json").write_text('{"all": {"bleu": 12.5}}')
    (run,) = scan_runs(tmp_path)[0]
    assert (run.name, run.label) == ("vectors/runs/learned-seed0", "vectors/learned-seed0")
    assert (run.bleu, run.record.finished, run.epoch_progress) == (12.5, True, "2 of 2")


def test_the_lab_may_be_started_in_a_comparison_or_in_a_run_itself(tmp_path, runs):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "learned-seed0").symlink_to(runs / "toy")
    (inside,) = scan_runs(tmp_path)[0]
    assert (inside.name, inside.label) == ("runs/learned-seed0", "learned-seed0")
    (itself,) = scan_runs(runs / "toy")[0]
    assert (itself.name, itself.label, itself.epoch_progress) == (".", "toy", "2 of 2")


def test_a_damaged_run_does_not_hide_the_others(tmp_path, runs):
    """Numbers that are missing or absurd, no numbers at all, a folder or a pipe in the log's place, a strange name."""
    (tmp_path / "whole").symlink_to(runs / "toy")
    epoch = {"event": "epoch", "epoch": 1, "step": 9, "training_loss": 3.0, "perplexity": 8.5}
    whole = epoch | {"perplexity_without_sos": 9.5, "cpu_seconds": 1.0, "wall_seconds": 1.0}
    bent = [epoch, whole | {"perplexity": "8"}, whole | {"epoch": 10**400}, whole | {"perplexity": -3}, [1], 7]
    for i, line in enumerate(bent):
        shutil.copytree(runs / "toy", tmp_path / f"bent{i}")
        (tmp_path / f"bent{i}" / "log.jsonl").write_text(json.dumps(line) + "\n")
    shutil.copytree(runs / "toy", tmp_path / "folder")
    (tmp_path / "folder" / "log.jsonl").unlink()
    (tmp_path / "folder" / "log.jsonl").mkdir()
    shutil.copytree(runs / "toy", tmp_path / "pipe")
    (tmp_path / "pipe" / "log.jsonl").unlink()
    os.mkfifo(tmp_path / "pipe" / "log.jsonl")
    shutil.copytree(runs / "toy", os.fsdecode(os.fsencode(tmp_path) + b"/\xff"))
    there, damaged = scan_runs(tmp_path)
    assert [run.name for run in there] == ["whole"]
    assert len(damaged) == len(bent) + 3
    for words in ("lacks or does not know", "'8'", "pipe or a device", "is a folder, not", "is not UTF-8; rename it"):
        assert any(words in sentence for sentence in damaged), words
    page = translator.PAGE
    answer = page.answer(State({}, start=page.start, runs=tmp_path))
    assert answer.picture["chosen"] == "whole"
    assert sum(line.startswith("Left out: ") for line in answer.say) == translator.NAMED
    assert "4 more runs cannot be read." in answer.say
    json.dumps(answer.to_dict(), ensure_ascii=False).encode()


def test_no_runs_and_wrong_runs(tmp_path, runs):
    page = translator.PAGE
    said = page.answer(State({}, start=page.start, runs=tmp_path / "none"))
    assert f"There is no run in {tmp_path / 'none'} yet: this is the small translator" in said.say[1]
    assert said.shell.splitlines()[-1] == f"regard translator train --out {tmp_path / 'none' / 'first'}"
    assert said.picture["chosen"] == "example"
    for name in ("../toy", "toi"):
        with pytest.raises(InputError, match=f"There is no run '{name}' in the lab's folder; it has toy"):
            page.answer(State({"run": name}, start=page.start, runs=runs))
    with pytest.raises(InputError, match="A sentence may have 400 letters, not 401"):
        page.answer(State({"text": "x" * 401}, start=page.start, runs=runs))


def test_the_packages_own_run_is_there_at_once_with_a_sentence(tab, lab):
    tab.set_default_timeout(PATIENCE * 1000)
    opened(tab, lab, "translator?run=example")
    tab.wait_for_selector("#translation")
    assert tab.text_content("#translation") == "the brother listened to karl yesterday evening."
    assert tab.locator(".thumbs button").count() == 8  # two layers of four heads
    assert tab.text_content(".scale").startswith("weight 0")
    tab.hover(".arc-map text[data-row='3']")  # listened
    assert tab.locator(".arc.lit").count() == tab.locator(".arc[data-row='3']").count() > 0
    tab.fill("#text", "der lehrer sieht den pingui")
    tab.press("#text", "Enter")
    tab.wait_for_selector(".unknown-word")
    settled(tab)
    assert "pingui is not a word it knows" in tab.text_content(".unknown-word")
    tab.fill("#text", "der lehrer sieht den hu")
    tab.click(".offers button:text-is('hund')")
    assert tab.input_value("#text") == "der lehrer sieht den hund "
    tab.press("#text", "Enter")
    tab.wait_for_selector("#translation:text-is('the teacher sees the dog.')")
    tab.click(".vocabulary summary")
    tab.locator(".all-words button >> nth=1000").wait_for()  # all of them


def test_a_sentence_without_its_mark_gets_a_full_stop_in_runs_of_the_built_in_corpus(runs, monkeypatch):
    monkeypatch.setattr(translator.tasks, "ask", lambda function, **words: None)
    page = translator.PAGE
    for run, typed, read in [
        ("example", "der  Hund", "der Hund."),
        ("example", "der Hund?", "der Hund?"),
        ("toy", "der Hund", "der Hund"),
    ]:
        said = page.answer(State({"run": run, "text": typed}, start=page.start, runs=runs))
        assert said.state["text"] == read


def test_a_run_keeps_its_number_when_another_one_comes(tmp_path, runs):
    (tmp_path / "a").symlink_to(runs / "toy")
    before = run_numbers(scan_runs_with_example(tmp_path)[0])
    shutil.copytree(runs / "toy", tmp_path / "newer")
    os.utime(tmp_path / "newer" / "run.json", (time.time() + 9, time.time() + 9))
    after = run_numbers(scan_runs_with_example(tmp_path)[0])
    assert {name: after[name] for name in before} == before == {"example": 0, "a": 1}
    assert after["newer"] == 2


def test_a_run_called_example_in_the_folder_comes_before_the_packages(tmp_path, runs):
    (tmp_path / "example").symlink_to(runs / "toy")
    (only,) = scan_runs_with_example(tmp_path)[0]
    assert not only.is_from_package


def test_without_torch_the_page_says_what_to_install_for_runs_of_your_own(tmp_path, runs, monkeypatch):
    monkeypatch.setattr(translator, "find_spec", lambda name: None)
    needs = "Translating needs torch, which is not installed: pip install 'regard[translator]'."
    page = translator.PAGE
    own = page.answer(State({"run": "toy"}, start=page.start, runs=runs))
    assert own.state["text"] == ""
    assert needs in own.say
    packaged = page.answer(State({}, start=page.start, runs=tmp_path))
    assert packaged.picture["said"]["target"] == "the brother listened to karl yesterday evening."
    assert needs not in packaged.say


def test_a_task_that_fails_is_said_and_over(tab, lab, monkeypatch):
    under_way = [None, None]

    def ask(function, **words):
        if under_way:
            return under_way.pop()
        raise CouldNotFindOut("It took more than a while.")

    monkeypatch.setattr(claims_page.tasks, "ask", ask)
    tab.goto(lab.address + "claims")
    tab.wait_for_selector("body[data-running=yes]")
    tab.wait_for_selector("#trouble:visible")
    settled(tab)
    assert tab.get_attribute("body", "data-running") == "no"
    assert tab.text_content("#trouble") == "It took more than a while."
    tab.wrong.clear()  # the browser itself notes the status 422 in its console


# Claims --------------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_verdict_is_a_click_away_and_agrees_with_the_command_line(tab, lab, tmp_path):
    opened(tab, lab, "claims")
    assert tab.locator(".claim-picture svg path").count() > 10
    assert tab.locator(".verdict").count() == 0
    tab.fill("#parameter-n", "1000")
    tab.press("#parameter-n", "Enter")
    settled(tab)
    tab.click("#check")
    settled(tab)
    assert "set=n%3D1000&show=verdict" in tab.url
    command = lines(tab, "shell")
    said = json.loads(run_lines(command + " --json", tmp_path))
    assert [card.get_attribute("data-status") for card in tab.locator(".verdict").all()] == [
        reading["status"] for reading in said["readings"]
    ]
    assert number(tab, "needed") == said["readings"][0]["numbers"]["needed"]
    assert (tmp_path / "average-within-budget.svg").exists()
    because = claims["average-within-budget"].check(n=1000).verdicts[0].because  # with its formulas marked
    prose = [piece.text for piece in pieces(because) if not piece.formula]
    assert len(prose) > 1
    assert all(part.strip() in tab.text_content("#more") for part in prose)
    printed = run_lines(f"cat > a.py << 'END'\n{lines(tab, 'python')}\nEND\npython a.py", tmp_path)
    assert printed.startswith("average-within-budget: HOLDS (with n = 1000,")


def test_claims_by_keyboard_and_by_link(tab, lab):
    opened(tab, lab, "claims?claim=the-bisector&show=proof")
    assert tab.get_attribute(".verdict >> nth=0", "data-status") == "REFUTED"
    assert "Counterexample" in tab.text_content("#more")
    assert "Proof" in tab.text_content(".proof")
    tab.focus("#next")
    tab.keyboard.press("Enter")
    settled(tab)
    assert "claim=weights-are-a-distribution" in tab.url
    assert "show=picture" in tab.url
    tab.fill("#parameter-n", "0")
    tab.press("#parameter-n", "Enter")
    tab.wait_for_selector("#trouble:visible")
    assert "n, how many keys, must be a whole number with" in tab.text_content("#trouble")
    tab.wrong.clear()  # the browser itself notes the status 400 in its console


def test_claims_by_problem_set(tab, lab):
    opened(tab, lab, "claims")
    assert tab.locator("#choose-question").is_hidden()
    tab.select_option("#choose-of", "self-attention-written")
    settled(tab)
    assert "of=self-attention-written" in tab.url
    assert tab.locator("#choose-question option").count() == 14  # 13 questions, and all of them
    tab.select_option("#choose-question", "(d)ii")
    settled(tab)
    assert "claim=two-heads-steady" in tab.url
    assert tab.locator("#choose-claim option").all_text_contents() == ["two-heads-steady"]
    assert tab.locator(".checklist li").count() == 4
    assert not tab.locator(".checklist li >> nth=0").is_visible()  # the answer is written first, then it is marked
    assert tab.locator(".checklist button").is_disabled()
    tab.fill(".checklist textarea", "c_1 stays at v_a and c_2 at v_b, so the mean hardly moves.")
    tab.click(".checklist button")
    tab.check(".checklist input >> nth=0")
    assert tab.text_content(".checklist .sum") == "2 of 5 points, as you marked it."
    tab.click("#check")
    settled(tab)
    assert "two-heads-steady: HOLDS for self-attention-written" in tab.text_content("#say")
    assert tab.is_checked(".checklist input >> nth=0")
    assert tab.locator(".by-set tr").count() == 3
    assert "self-attention-written(d)iiwithout the negative drawsHOLDS" in tab.text_content(".by-set")
    assert lines(tab, "shell").startswith("regard claims self-attention-written dii --check")
    assert '.for_set("self-attention-written")' in lines(tab, "python")
    tab.select_option("#choose-of", "cs224n-w25-a4")
    settled(tab)
    assert "claim=two-heads-steady" in tab.url  # it is in this set too, so it stays
    tab.click("#check")
    settled(tab)
    assert "two-heads-steady: REFUTED for cs224n-w25-a4" in tab.text_content("#say")
    tab.select_option("#choose-of", "")
    settled(tab)
    assert tab.locator(".checklist li").count() == 0
    assert tab.locator("#choose-claim option").count() == 27


def test_an_address_names_a_question_as_people_write_it():
    found = claims_page.answer(State({"of": "cse", "question": "1b"}, start=claims_page.PAGE.start))
    assert found.state["of"] == "cse151b-hw4"
    assert found.state["claim"] == "small-noise-keeps-the-average"
    assert list(found.picture["topics"]) == ["1B.i", "1B.ii"]
    assert found.shell.startswith("regard claims cse151b-hw4 1B.i --plot")
    hint = State({"of": "cse", "question": "1b.i", "claim": "never-exactly-the-average"}, start=claims_page.PAGE.start)
    assert claims_page.answer(hint).shell.startswith("regard claims never-exactly-the-average --plot")
    assert claims_page.answer(hint).state["question"] == "1B.i"
    with pytest.raises(InputError, match="cse151b-hw4 has no question '9'"):
        claims_page.answer(State({"of": "cse", "question": "9"}, start=claims_page.PAGE.start))
    with pytest.raises(InputError, match="There is no problem set 'nothing'"):
        claims_page.answer(State({"of": "nothing"}, start=claims_page.PAGE.start))


def test_a_picture_has_no_style_of_its_own_and_the_pages_colours():
    svg = draw_svg(
        lambda figure: claims["one-head-swings"].draw(figure, **claims["one-head-swings"].resolve_parameters())
    )
    assert not re.search("style|<metadata|<!DOCTYPE", svg)
    assert "var(--blue)" in svg
    assert "#000000" not in svg
    assert themed_svg(svg) == svg


@pytest.mark.parametrize("name", claims)
def test_every_formula_of_a_claim_can_be_set(name):
    for formula in latex_lines(claims[name].formula):
        assert formula.count("{") == formula.count("}")
        assert mathml(formula).startswith("<math")


# Tasks -------------------------------------------------------------------------------------------------------------


def wait_for_task(tasks, function, **words):
    until = time.monotonic() + PATIENCE
    while time.monotonic() < until:
        found = tasks.ask(function, **words)
        if found is not None:
            return found
    raise AssertionError("the task never ended")


def test_tasks_bring_back_results_and_sentences():
    tasks = BackgroundTasks("regard.lab.pages.claims")
    with pytest.raises(InputError, match="There is no claim 'no'"):
        wait_for_task(tasks, "check_claim", claim="no", parameters={}, proof=False)
    assert wait_for_task(tasks, "check_claim", claim="singular-tail", parameters={}, proof=False)["status"] == "HOLDS"
    with pytest.raises(CouldNotFindOut, match="This went wrong: AttributeError"):
        wait_for_task(tasks, "nothing")
    tasks.close()


def test_a_task_that_takes_too_long_is_stopped_and_the_next_one_is_done():
    tasks = BackgroundTasks("regard.web.background_tasks", longest=0.01)  # less than a process takes to start
    with pytest.raises(CouldNotFindOut, match=r"It took more than 0\.01 seconds; the lines below do the same"):
        wait_for_task(tasks, "echo")
    tasks.longest = 60.0
    assert wait_for_task(tasks, "echo", word="again") == {"word": "again"}
    tasks.close()


@pytest.fixture
def no_thread_fails(monkeypatch):
    failed = []
    monkeypatch.setattr(threading, "excepthook", failed.append)
    yield
    assert not failed


@pytest.mark.usefixtures("no_thread_fails")
def test_a_process_that_died_while_nobody_asked_is_told_and_the_next_question_starts_another():
    tasks = BackgroundTasks("regard.web.background_tasks")
    assert wait_for_task(tasks, "echo", word="before") == {"word": "before"}
    first = tasks._process
    for how, told in ((signal.SIGKILL, r"\(killed: perhaps memory ran out\)"), (signal.SIGTERM, r"\(signal 15\)")):
        dead = tasks._process
        dead.send_signal(how)
        os.waitid(os.P_PID, dead.pid, os.WEXITED | os.WNOWAIT)  # ended, and not yet collected
        with pytest.raises(CouldNotFindOut, match=f"The process that works for this page has ended {told}; ask again,"):
            wait_for_task(tasks, "echo", word=how)
        assert wait_for_task(tasks, "echo", word=how) == {"word": how}
        assert tasks._process is not dead
    assert tasks._process is not first
    tasks.close()


@pytest.mark.usefixtures("no_thread_fails")
def test_a_process_that_dies_at_work_or_in_the_middle_of_its_line_is_told():
    tasks = BackgroundTasks("os")
    with pytest.raises(CouldNotFindOut, match=r"The process that worked on this ended \(exit code 7\); ask again, or"):
        wait_for_task(tasks, "_exit", status=7)
    assert wait_for_task(tasks, "fspath", path="here") == "here"
    tasks.close()
    half = [sys.executable, "-c", "import sys; sys.stdout.write('{\"result\"'); sys.stdout.flush(); input()"]
    tasks._process = subprocess.Popen(half, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    with pytest.raises(CouldNotFindOut, match=r"The process that worked on this ended \(exit code 0\)"):
        wait_for_task(tasks, "fspath", path="there")
    assert wait_for_task(tasks, "fspath", path="there") == "there"
    tasks.close()


@pytest.mark.usefixtures("no_thread_fails")
def test_a_process_that_cannot_be_started_is_told_and_tried_again(monkeypatch):
    tasks, start = BackgroundTasks("regard.web.background_tasks"), background_tasks._start_process
    monkeypatch.setattr(background_tasks, "_start_process", lambda imports: start([1]))
    with pytest.raises(
        CouldNotFindOut, match=r"The process for this could not be used \(TypeError: .*\); ask again, or"
    ):
        wait_for_task(tasks, "echo")
    monkeypatch.setattr(background_tasks, "_start_process", start)
    assert wait_for_task(tasks, "echo", word="again") == {"word": "again"}
    tasks.close()


def test_a_process_that_was_started_early_does_the_tasks_of_its_module_and_no_others():
    start_early("regard.web.background_tasks", imports=["wave", "no_such_module"])
    started = background_tasks._early["regard.web.background_tasks"]
    others, tasks = BackgroundTasks("regard.lab.pages.claims"), BackgroundTasks("regard.web.background_tasks")
    with pytest.raises(CouldNotFindOut, match="This went wrong: AttributeError"):
        wait_for_task(others, "nothing")
    assert others._process is not started
    assert wait_for_task(tasks, "is_imported", name="wave") == {"imported": True}
    assert tasks._process is started
    others.close()
    tasks.close()
    assert started.poll() is not None


def test_a_process_that_was_started_early_for_nothing_ends_with_the_lab(tmp_path):
    program = (
        "from regard.web import background_tasks\n"
        "background_tasks.start_early('regard.web.background_tasks', imports=['wave'])\n"
        "print(background_tasks._early['regard.web.background_tasks'].pid)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, env=ONE_THREAD)
    assert not alive(int(done.stdout))
    assert not done.stderr


def test_of_waiting_tasks_only_the_newest_is_done():
    """The first is under way, held by us; of the four that wait meanwhile the newest is done, the others are not."""
    tasks, may_go, done = BackgroundTasks("regard.web.background_tasks"), threading.Event(), []

    def outcome(task):
        may_go.wait()
        done.append(json.loads(task)["words"]["word"])
        return {"result": {"word": done[-1]}}

    tasks._outcome = outcome
    assert tasks.ask("echo", word=0) is None
    while tasks._running is None:  # the thread has not taken it yet
        time.sleep(0.01)
    assert [tasks.ask("echo", word=number) for number in range(1, 5)] == [None] * 4
    may_go.set()
    assert wait_for_task(tasks, "echo", word=4) == {"word": 4}
    assert done == [0, 4]


def test_the_background_process_ends_with_the_lab_in_the_middle_of_a_task(tmp_path):
    """However the lab ends, kill -9 included; and no file of the folder is imported in place of a library's."""
    (tmp_path / "random.py").write_text("raise SystemExit('a file of the folder was run')")
    program = (
        "from regard.web.background_tasks import BackgroundTasks; import time\n"
        "tasks = BackgroundTasks('multiprocessing.connection')\n"
        "tasks.ask('wait', object_list=[], timeout=600)\n"  # of nothing, for ten minutes
        "while tasks._process is None: time.sleep(0.01)\n"
        "print(tasks._process.pid, flush=True); time.sleep(600)\n"
    )
    command = [sys.executable, "-P", "-c", program]
    lab = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, cwd=tmp_path, env=ONE_THREAD)
    child = int(lab.stdout.readline())
    assert alive(child)
    os.kill(lab.pid, signal.SIGKILL)
    lab.wait()
    lab.stdout.close()
    wait_until(lambda: not alive(child), "the background process outlives the lab")


def alive(process):
    """Is there such a process, other than one that has ended and was not collected?"""
    try:
        state = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state != "Z"
