"""Several processes train the run of one: the same losses, and a kill of any of them loses nothing."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import pytest
import torch

import processes
from database import free_port
from regard.errors import CouldNotFindOut, InputError
from regard.translator.data.batches import Batch
from regard.translator.runs.files import lock_folder
from regard.translator.runs.records import log_entries
from regard.translator.training import loop, parallel
from regard.translator.training.loop import train
from regard.translator.training.parallel import LostError, Team, deal_pairs, join_team
from tiers import sampled
from toy_translator import same, tiny, weights, write_corpus

torch.set_num_threads(1)  # tiny tensors: a second thread only costs
pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork and signals")

# 61 pairs in batches of 6: the last batch of an epoch has one pair, so that some processes have nothing to do
SHARED = ["batch=6", "epochs=3", "save_every=4"]
DEEP = ["joint=true", "tied=true", "head_width=8", "layers=2", "decoder_layers=1", "smoothing=0.1", "clip=1"]
KINDS = {
    "encoder": ["weight_decay=0.01", "clip=0.5"],
    "reads-padding": ["model.kind=reads-padding", "smoothing=0.1"],
    "encoder-decoder": ["model.kind=encoder-decoder", *DEEP, "average=0.9", "batching=equal-length", "batch_tokens=36"],
    "untied": ["model.kind=encoder-decoder", "layers=1", "decoder_layers=1", "schedule=cosine", "warmup=3"],
}

LAUNCHER = textwrap.dedent(
    """
    import json, os, signal, sys
    import torch
    import torch._dynamo  # an optimiser imports it: a second and a half that is paid for once
    torch.set_num_threads(1)
    from regard.cli import main
    from regard.translator.training import loop, parallel
    loop.LOG_EVERY, parallel._FIRST_SPEAKS = 1, 0.0

    def work(rank, size, port, settings, out, kill, lines, sockets):
        if sockets:
            parallel.shared_rows = lambda **_: None
        os.dup2(os.open(f"{lines}.{rank}", os.O_CREAT | os.O_WRONLY), 1)
        os.dup2(1, 2)
        os.environ |= {"RANK": str(rank), "WORLD_SIZE": str(size), "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(port),
                       "TORCHELASTIC_RUN_ID": "test", "LOCAL_RANK": str(rank)}
        real, steps = parallel.Team.sum_up, 0

        def counted(*rest):
            nonlocal steps
            steps += 1
            if [rank, steps] == kill:
                os.kill(os.getpid(), signal.SIGKILL)
            return real(*rest)

        parallel.Team.sum_up = counted
        sys.argv = ["regard", "translator", "train", settings, "--out", out]
        code = 70
        try:
            main()
        except SystemExit as left:
            code = left.code or 0
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    for line in sys.stdin:  # one run per line: imports are paid for once
        job = json.loads(line)
        children = []
        for rank in range(job["size"]):
            children.append(os.fork())
            if children[-1] == 0:
                work(rank, **job)
        print(json.dumps([os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) for child in children]), flush=True)
    """
)


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    return write_corpus(tmp_path_factory.mktemp("parallel") / "toy", count=61)


@pytest.fixture(scope="module")
def launcher():
    with processes.launcher(LAUNCHER) as process:
        yield process


def run(launcher, settings, out: Path, *, size: int, kill: tuple[int, int] | None = None, sockets: bool = False):
    """Train in ``size`` processes; their exit codes, and what each said. ``kill``: which process, before which step.

    ``sockets``: as if they were on several machines.
    """
    path, lines = out.with_suffix(".toml"), out.with_suffix(".said")
    path.write_text(settings.to_toml())
    for old in out.parent.glob(f"{lines.name}.*"):
        old.unlink()
    job = {"size": size, "port": free_port(), "settings": str(path), "out": str(out), "kill": kill, "lines": str(lines)}
    job["sockets"] = sockets
    launcher.stdin.write(json.dumps(job) + "\n")
    launcher.stdin.flush()
    codes = json.loads(launcher.stdout.readline())
    return codes, [Path(f"{lines}.{rank}").read_text() for rank in range(size)]


def losses(folder: Path) -> list[float]:
    return [e["loss"] for e in log_entries(folder / "log.jsonl") if e["event"] == "step"]


def perplexities(folder: Path) -> list[float]:
    return [e["perplexity"] for e in log_entries(folder / "log.jsonl") if e["event"] == "epoch"]


@pytest.mark.slow
@pytest.mark.nightly
@pytest.mark.parametrize("case", sampled([("encoder", 2), ("encoder", 3), *((k, 2) for k in list(KINDS)[1:])], every=4))
def test_the_losses_are_those_of_one_process(data, tmp_path, monkeypatch, launcher, case):
    kind, size = case
    settings = tiny(data, *SHARED, *KINDS[kind])
    monkeypatch.setattr(loop, "LOG_EVERY", 1)
    train(settings, tmp_path / "one")
    codes, said = run(launcher, settings, tmp_path / "several", size=size)
    assert codes == [0] * size, said
    one, several = losses(tmp_path / "one"), losses(tmp_path / "several")
    assert len(one) == len(several) >= 24
    assert max(abs(a - b) for a, b in zip(one, several, strict=True)) < 1e-5
    assert perplexities(tmp_path / "several") == pytest.approx(perplexities(tmp_path / "one"), rel=1e-4)
    assert said[1:] == [""] * (size - 1)  # the first one speaks
    assert "Trained 3 epochs" in said[0]
    command = json.loads((tmp_path / "several" / "run.json").read_text())["command"]
    assert command.startswith(f"torchrun --nproc-per-node {size} -m regard translator train ")


@pytest.mark.slow
@pytest.mark.parametrize("rank", sampled([0, 1], every=2))
def test_killed_and_resumed_it_ends_with_the_same_weights(data, tmp_path, launcher, rank):
    """With dropout, whose numbers differ from process to process and are the same again when a run goes on."""
    settings = tiny(data, *SHARED, "dropout=0.3", "average=0.9", "schedule=cosine")
    assert run(launcher, settings, tmp_path / "whole", size=2)[0] == [0, 0]
    began = time.monotonic()
    codes, said = run(launcher, settings, tmp_path / "run", size=2, kill=(rank, 15))
    assert time.monotonic() - began < processes.PATIENCE  # torch itself would wait for half an hour
    other = 1 - rank
    assert (codes[rank], codes[other]) == (-signal.SIGKILL, 3), said
    last = said[other].strip().splitlines()[-1]
    assert last.startswith(f"regard: Process {other} of 2 (counted from 0) stops, because another one ended")
    assert last.endswith("give the same command again and it goes on from the last checkpoint.")
    assert "Traceback" not in said[other]
    codes, said = run(launcher, settings, tmp_path / "run", size=2)
    assert codes == [0, 0], said
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))
    assert same(weights(tmp_path / "run", "best"), weights(tmp_path / "whole", "best"))
    assert losses(tmp_path / "run") == losses(tmp_path / "whole")


@pytest.mark.slow
def test_an_error_that_all_find_is_said_once(data, tmp_path, launcher):
    settings = tiny(data, *SHARED, "batch=7")
    codes, said = run(launcher, settings, tmp_path / "run", size=2)
    assert codes == [2, 2]
    assert said[0] == (
        "regard: training.batch is 7, which 2 processes cannot share evenly; make it a multiple of 2, or start another "
        "number of processes.\n"
    )
    assert not (tmp_path / "run").exists()
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "x").write_text("")
    codes, said = run(launcher, tiny(data, *SHARED), tmp_path / "mine", size=2)
    assert codes == [2, 2]
    assert "exists and is not a run of ours; give another --out" in said[0]


@pytest.mark.slow
def test_a_mistake_in_the_settings_is_said_by_the_first_alone(tmp_path):
    """In real torchrun, which ends the others meanwhile and leaves with a code of its own."""
    (tmp_path / "settings.toml").write_text("[model]\nwidht = 3\n")
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()),
        "-m", "regard", "translator", "train", "settings.toml", "--out", "run",
    ]  # fmt: skip
    found = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=processes.PATIENCE)
    assert (found.returncode, found.stdout) == (1, "")
    assert found.stderr.count("there is no setting 'model.widht'; did you mean 'model.width'?") == 1
    assert "exitcode  : 2" in found.stderr
    assert not (tmp_path / "run").exists()


@pytest.mark.slow
def test_a_run_goes_on_with_as_many_processes_as_it_began_with(data, tmp_path, launcher):
    settings = tiny(data, *SHARED)
    codes, _ = run(launcher, settings, tmp_path / "run", size=2, kill=(1, 9))
    assert codes[0] == 3
    before = (tmp_path / "run" / "last.safetensors").read_bytes()
    with pytest.raises(InputError, match=r"was begun by 2 processes and would end with other weights if 1 went on"):
        train(settings, tmp_path / "run")
    assert (tmp_path / "run" / "last.safetensors").read_bytes() == before
    assert run(launcher, settings, tmp_path / "run", size=2)[0] == [0, 0]


@pytest.mark.slow
def test_real_torchrun_a_rank_killed_and_the_same_command_again(data, tmp_path, launcher):
    settings = tiny(data, *SHARED, "epochs=20", "dropout=0.2")
    (tmp_path / "settings.toml").write_text(settings.to_toml())
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()),
        "-m", "regard", "translator", "train", "settings.toml", "--out", "run",
    ]  # fmt: skip
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as first:
        processes.wait_until((tmp_path / "run" / "last.safetensors").exists, "there is no checkpoint")
        os.kill(rank_of(first.pid, 1), signal.SIGKILL)
        said, _ = first.communicate(timeout=processes.PATIENCE)
    assert first.returncode == 1  # torchrun's own
    assert said.count("regard: Process 0 of 2 (counted from 0) stops, because another one ended") == 1
    assert perplexities(tmp_path / "run") == perplexities(tmp_path / "run")[:19]  # it was not done yet
    again = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=processes.PATIENCE
    )
    assert again.returncode == 0, again.stderr
    assert again.stdout.count("Trained 20 epochs") == 1
    assert run(launcher, settings, tmp_path / "whole", size=2)[0] == [0, 0]
    assert same(weights(tmp_path / "run"), weights(tmp_path / "whole"))


@pytest.mark.slow
def test_the_processes_of_a_killed_torchrun_end_with_it(data, tmp_path):
    """Else they would train on, and whoever starts again would find the run locked."""
    (tmp_path / "settings.toml").write_text(tiny(data, *SHARED, "epochs=2000").to_toml())
    command = [
        sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2", "--master-port", str(free_port()),
        "-m", "regard", "translator", "train", "settings.toml", "--out", "run",
    ]  # fmt: skip
    environment, nowhere = os.environ | {"OMP_NUM_THREADS": "1"}, subprocess.DEVNULL
    with subprocess.Popen(command, cwd=tmp_path, env=environment, stdout=nowhere, stderr=nowhere) as torchrun:
        processes.wait_until((tmp_path / "run" / "last.safetensors").exists, "there is no checkpoint")
        ranks = [rank_of(torchrun.pid, rank) for rank in (0, 1)]
        torchrun.kill()
        torchrun.wait()
        processes.wait_until(lambda: not any(map(processes.running, ranks)), "a process trains on without torchrun")
    with lock_folder(tmp_path / "run"):
        pass


def rank_of(torchrun: int, rank: int) -> int:
    """The process of a rank, among the children of torchrun."""
    for children in Path(f"/proc/{torchrun}/task").glob("*/children"):
        for child in children.read_text().split():
            if f"RANK={rank}".encode() in Path(f"/proc/{child}/environ").read_bytes().split(b"\0"):
                return int(child)
    raise ProcessLookupError(rank)


def test_parts_of_a_batch():
    batch = Batch.of([[2, 7, 3], [2, 3], [2, 8, 9, 3]], [[2, 5, 3], [2, 5, 6, 3], [2, 3]])
    parts = [Team(rank=r, size=2).own_part(batch) for r in range(2)]
    assert [p.source.tolist() for p in parts] == [[batch.source[1].tolist()], batch.source[[0, 2]].tolist()]
    assert [p.target.shape[1] for p in parts] == [4, 4]  # as long as the batch, whose padding some models read
    assert [len(p.labels) for p in parts] == [4, 5]
    assert Team(rank=3, size=4).own_part(batch) is None
    assert Team().own_part(batch) is batch


@pytest.mark.parametrize("players", [2, 3, 5])
def test_pairs_are_dealt_out_evenly(players):
    """Each gets every pair once; after each two rounds the sums differ by less than the longest pair."""
    lengths = torch.randint(3, 40, (83,), generator=torch.Generator().manual_seed(0))
    parts = deal_pairs(lengths, players)
    assert sorted(torch.cat(parts).tolist()) == list(range(83))
    sums = [int(lengths[part].sum()) for part in parts]
    assert max(sums) - min(sums) <= int(lengths.max())
    assert max(map(len, parts)) - min(map(len, parts)) <= 1


def test_what_divides(data):
    Team(size=3).check(tiny(data, "batch=9"))
    with pytest.raises(InputError, match=r"training\.batch is 7, which 3 processes cannot share evenly; make"):
        Team(size=3).check(tiny(data))
    with pytest.raises(InputError, match=r"training\.batch_tokens is 100, which 3 processes"):
        Team(size=3).check(tiny(data, "batch=9", "batch_tokens=100"))


def test_without_torchrun_there_is_a_team_of_one(monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "2")  # as some schedulers set it for every job
    monkeypatch.delenv("TORCHELASTIC_RUN_ID", raising=False)
    with join_team() as team:
        assert (team.rank, team.size, team.leads) == (0, 1, True)
        assert team.sum_up([], 0.5) == (0.5, 0.0)
        assert team.run_on_first(lambda: 3) == 3
        with pytest.raises(CouldNotFindOut, match="no"):
            team.run_on_first(lambda: (_ for _ in ()).throw(CouldNotFindOut("no")))


def test_processes_that_differ_are_refused(data, monkeypatch):
    """Two settings, as on two machines whose files differ."""
    model, settings = torch.nn.Linear(2, 3), tiny(data)
    digests: list[str] = []

    def gather(found, digest):
        digests.append(digest)
        found[:] = [digests[0], digest]

    monkeypatch.setattr(parallel.dist, "all_gather_object", gather)
    Team(size=2).check_agreement(settings, "data", model)
    Team(size=2).check_agreement(settings.with_changes(['data.path="elsewhere"']), "data", model)
    message = "do not have the same settings, data and first weights"
    for other in [(settings.with_changes(["batch=8"]), "data", model), (settings, "other data", model)]:
        with pytest.raises(InputError, match=message):
            Team(size=2).check_agreement(*other)
    torch.nn.init.zeros_(model.weight)
    with pytest.raises(InputError, match=message):
        Team(size=2).check_agreement(settings, "data", model)


@pytest.mark.parametrize("call", ["broadcast_object_list", "all_reduce"])  # before the first step, and in each
def test_whatever_torch_raises_when_another_is_gone_is_one_sentence(monkeypatch, call):
    def gone(*_, **__):
        raise RuntimeError("[gloo/transport/tcp/pair.cc:537] Connection closed by peer")

    monkeypatch.setattr(parallel.dist, call, gone)
    team = Team(rank=1, size=2, asked_for_rows=call == "all_reduce")
    with pytest.raises(LostError, match=r"Process 1 of 2 \(counted from 0\) stops, because another one ended or all"):
        team.sum_up([torch.nn.Parameter(torch.zeros(3))], 0.0)


@pytest.mark.slow
def test_on_several_machines_it_is_the_same_run(data, tmp_path, launcher):
    settings = tiny(data, *SHARED, *KINDS["encoder-decoder"], "dropout=0.1")
    for name, sockets in (("near", False), ("far", True)):
        codes, said = run(launcher, settings, tmp_path / name, size=2, sockets=sockets)
        assert codes == [0, 0], said
    assert same(weights(tmp_path / "near"), weights(tmp_path / "far"))
