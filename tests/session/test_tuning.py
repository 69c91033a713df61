"""Whole runs in real processes: from a file to a proven recipe, and what happens when they are cut short."""

from __future__ import annotations

import json
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna
import psutil
import pytest
from optuna.storages import JournalStorage
from optuna.storages.journal import JournalFileBackend

from autoaccel.units import parse_duration
from tests.session.samples import WAITING

pytestmark = pytest.mark.end_to_end
WriteModel = Callable[..., Path]

WORKERS_ONLY = 'title = "workers only"\n[knobs]\n"loader.workers" = [0, 2]\n'


def command(*arguments: str | Path) -> list[str]:
    return [sys.executable, "-m", "autoaccel", *map(str, arguments)]


def autoaccel(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command(*arguments), capture_output=True, text=True, cwd=cwd, timeout=300)


def workers_of(folder: Path) -> list[psutil.Process]:
    """Return processes that still work for a run in this folder."""
    found = []
    for process in psutil.process_iter(["cmdline", "cwd"]):
        line = " ".join(process.info["cmdline"] or ())
        ours = "autoaccel.workers.forking" in line or "autoaccel.runtime.worker" in line
        if ours and process.info["cwd"] == str(folder):
            found.append(process)
    return found


def load_study(folder: Path) -> optuna.Study:
    storage = JournalStorage(JournalFileBackend(str(folder / "study.journal")))
    return optuna.load_study(study_name=folder.name, storage=storage)


def recipe_in(folder: Path) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((folder / "recipe.json").read_text())
    return found


@pytest.mark.long
def test_a_waiting_loader_gets_workers_and_the_recipe_stands_up(write_model: WriteModel, tmp_path: Path) -> None:
    """tune, show, verify and run, in a folder whose name has spaces."""
    folder = tmp_path / "my first run"
    folder.mkdir()
    write_model(WAITING).rename(folder / "model.py")
    (folder / "workers.toml").write_text(WORKERS_ONLY)
    options = ("--budget", "3m", "--trainings", "1000", "--space", "workers.toml", "--output", "a b")
    done = autoaccel("tune", "model.py", *options, cwd=folder)
    assert done.returncode == 0, done.stdout + done.stderr
    recipe = recipe_in(folder / "a b")
    assert recipe["settings"]["loader.workers"] == 2
    assert recipe["comparison"]["verdict"] == "faster"
    assert 1.02 < recipe["comparison"]["low"] <= recipe["comparison"]["speedup"] <= recipe["comparison"]["high"] < 4
    assert recipe["comparison"]["process_pairs"] >= 2
    assert recipe["accuracy"]["evidence"] == "exact"  # workers change no number, so nothing was trained to see it
    assert 0 < recipe["search"]["proven_after_seconds"] < recipe["search"]["spent_seconds"]
    assert recipe["search"]["spent_on"]["measured steps"] > 0
    stages = {one["stage"]: one for one in recipe["search"]["stages"]}
    assert list(stages)[:5] == ["hardware", "baseline", "profile", "search", "confirm"] and list(stages)[-1] == "report"
    assert all(one["planned_seconds"] > 0 for one in stages.values())
    spent = sum(one["spent_seconds"] for one in stages.values())
    assert spent == pytest.approx(recipe["search"]["spent_seconds"], abs=0.5)
    pairs = (folder / "a b" / "proof.jsonl").read_text().splitlines()
    assert len(pairs) >= recipe["comparison"]["process_pairs"]  # disturbed ones do not count
    projection = recipe["projection"]
    assert projection["planned_steps"] == 100
    assert projection["total_seconds"] < projection["baseline_total_seconds"]
    assert recipe["search"]["trials"] == 1
    assert recipe["search"]["ended"] == "the whole search space was tried"
    assert (folder / "a b" / "report.html").stat().st_size > 1000
    assert not (folder / "a b" / "compiled").exists()
    for word in ("loader.workers", "autoaccel verify", "autoaccel run"):
        assert word in done.stdout
    assert workers_of(folder) == []

    shown = autoaccel("show", "a b", cwd=folder)
    assert shown.returncode == 0
    assert "loader.workers" in shown.stdout

    verified = autoaccel("verify", "a b/recipe.json", "model.py", "--pairs", "3", "--json", cwd=folder)
    assert verified.returncode == 0, verified.stdout + verified.stderr
    assert json.loads(verified.stdout)["measured"]["speedup"] > 1.2

    run = autoaccel("run", "a b/recipe.json", "model.py", "--save", "weights.pt", cwd=folder)
    assert run.returncode == 0, run.stderr
    assert "epoch 20/20" in run.stdout
    assert "accuracy: " in run.stdout
    assert "samples/s" in run.stdout
    assert (folder / "weights.pt").stat().st_size > 500

    recipe["machine"]["torch"]["version"] = "1.0"
    (folder / "other.json").write_text(json.dumps(recipe))
    refused = autoaccel("run", "other.json", "model.py", cwd=folder)
    assert refused.returncode == 2
    assert "torch 1.0, here" in refused.stderr
    assert "--accept-other-machine" in refused.stderr


@pytest.mark.long
def test_each_of_two_settings_is_measured_against_the_recipe_without_it(
    write_model: WriteModel, tmp_path: Path
) -> None:
    write_model(WAITING)
    (tmp_path / "w.toml").write_text(WORKERS_ONLY)
    wishes = ("--trainings", "5000", "--set", "loader.workers=2", "--set", "loader.prefetch=4")
    done = autoaccel(
        "tune", "model.py", "--budget", "4m", "--space", "w.toml", *wishes, "--output", "run", cwd=tmp_path
    )
    assert done.returncode == 0, done.stdout + done.stderr
    recipe = recipe_in(tmp_path / "run")
    found = {one["setting"]: one for one in recipe["contributions"]}
    assert found.keys() == {"loader.workers", "loader.prefetch"}
    assert all(one["measured"] for one in found.values())
    # Without workers nothing is prefetched: leaving them out leaves nothing, however deep the queue was.
    assert found["loader.workers"]["speedup"] > 1.2 > found["loader.prefetch"]["speedup"]
    pairs = [json.loads(line) for line in (tmp_path / "run" / "contributions.jsonl").read_text().splitlines()]
    assert {pair["settings"]["loader.prefetch"] for pair in pairs} == {2}
    assert len((tmp_path / "run" / "proof.jsonl").read_text().splitlines()) >= recipe["comparison"]["process_pairs"]
    page = (tmp_path / "run" / "report.html").read_text()
    assert "What each contributes" in page and "--set loader.workers=2" in page

    # verify measures: a recipe that claims too much is refuted, whatever its file says.
    boast = recipe | {"comparison": recipe["comparison"] | {"speedup": 9.0, "low": 8.0, "high": 10.0}}
    (tmp_path / "boast.json").write_text(json.dumps(boast))
    refuted = autoaccel("verify", "boast.json", "model.py", "--pairs", "3", cwd=tmp_path)
    assert refuted.returncode == 1, refuted.stdout + refuted.stderr
    assert "8.00" in refuted.stdout


def test_a_run_of_milliseconds_is_left_alone(write_model: WriteModel, tmp_path: Path) -> None:
    """And the tuner itself, which stays beside every measurement, has not even loaded torch."""
    program = (
        "import sys; from autoaccel.cli import main\n"
        f"code = main(['tune', {str(write_model())!r}, '--output', 'run', '--json'])\n"
        "print('torch' in sys.modules, file=sys.stderr); sys.exit(code)"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 1, done.stderr
    assert done.stderr.splitlines()[-1] == "False"
    recipe = json.loads(done.stdout)
    assert recipe["settings"] == recipe["baseline"]["settings"]
    assert recipe["summary"].startswith("Tuning cannot help: a run takes ")
    assert recipe == recipe_in(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").exists()
    verified = autoaccel("verify", "run/recipe.json", "model.py", cwd=tmp_path)
    assert verified.returncode == 0
    assert "nothing to verify" in verified.stdout


@pytest.mark.long
def test_where_nothing_can_be_won_no_budget_is_too_small(write_model: WriteModel, tmp_path: Path) -> None:
    """A larger budget was asked for, only to hear that start-up is all there is to the run."""
    code = """
    import time

    tiny = build

    def build():
        time.sleep(5.0)
        return tiny()
    """
    done = autoaccel("tune", write_model(code), "--budget", "40s", "--output", "run", cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert recipe_in(tmp_path / "run")["summary"].startswith("Tuning cannot help: a run takes ")


@pytest.mark.long
def test_an_interrupted_run_keeps_its_trials_and_goes_on(write_model: WriteModel, tmp_path: Path) -> None:
    model = write_model(WAITING)
    (tmp_path / "two.toml").write_text('title = "two"\n[knobs]\n"loader.workers" = [0, 1, 2]\n')
    options = ("--budget", "70s", "--trainings", "1000", "--space", "two.toml", "--output", "run")
    tuner = subprocess.Popen(
        command("tune", model, *options), stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path
    )
    assert tuner.stdout is not None
    for line in tuner.stdout:
        if "] trial 1 " in line:  # is finished; whether another is worth its time, this machine's noise decides
            break
    tuner.send_signal(signal.SIGINT)
    rest = tuner.stdout.read()
    tuner.stdout.close()
    assert tuner.wait(30) == 130
    assert "1 finished trials are kept" in rest
    assert "Traceback" not in rest
    assert workers_of(tmp_path) == []
    assert not (tmp_path / "run" / "recipe.json").exists()
    assert "workers=" in autoaccel("show", "run", cwd=tmp_path).stdout

    resume = shlex.split(rest.partition("Resume with: ")[2].splitlines()[0])
    assert resume == ["autoaccel", "tune", "model.py", "--output", "run", "--resume"]
    again = autoaccel(*resume[1:], cwd=tmp_path)
    assert again.returncode in (0, 1), again.stdout + again.stderr
    assert "start trial 1 " not in again.stdout
    numbers = [json.loads(line)["number"] for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    assert numbers == list(range(1, len(numbers) + 1))
    told = load_study(tmp_path / "run").trials
    assert len([one for one in told if "trial" in one.user_attrs]) == len(numbers)  # the first one is told again
    assert recipe_in(tmp_path / "run")["search"]["trials"] == len(numbers) >= 1


@pytest.mark.long
def test_an_interrupted_proof_goes_on_with_its_next_pair_and_with_what_was_asked(
    write_model: WriteModel, tmp_path: Path
) -> None:
    model = write_model(WAITING)
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    options = ("--budget", "3m", "--trainings", "1000", "--space", "workers.toml", "--output", "run")
    tuner = subprocess.Popen(command("tune", model, *options), stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert tuner.stdout is not None
    for line in tuner.stdout:
        if "] pair 1 " in line:
            break
    tuner.send_signal(signal.SIGINT)
    tuner.stdout.read()
    tuner.stdout.close()
    assert tuner.wait(30) == 130
    first = (tmp_path / "run" / "proof.jsonl").read_text().splitlines()
    assert len(first) == 1

    refused = autoaccel("tune", model, "--budget", "+1m", cwd=tmp_path)
    assert refused.returncode == 2 and "requires --resume" in refused.stderr
    done = autoaccel("tune", model, "--resume", "--output", "run", "--budget", "+3m", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "start trial" not in done.stdout
    assert (tmp_path / "run" / "proof.jsonl").read_text().splitlines()[:1] == first
    recipe = recipe_in(tmp_path / "run")
    assert {one["stage"]: one["planned_seconds"] for one in recipe["search"]["stages"]}["profile"] == 0  # it was taken
    assert recipe["settings"]["loader.workers"] == 2
    assert recipe["search"]["space"] == "workers.toml"
    assert recipe["search"]["budget_seconds"] > 180
    pairs = (tmp_path / "run" / "proof.jsonl").read_text().splitlines()
    assert recipe["comparison"]["process_pairs"] <= len(pairs)
    complete = autoaccel("tune", model, "--resume", "--output", "run", "--budget", "+1m", cwd=tmp_path)
    assert complete.returncode == 2 and "this run is complete: no proof is open" in complete.stderr


@pytest.mark.long
def test_what_was_proven_is_a_recipe_also_if_the_run_is_stopped_then(write_model: WriteModel, tmp_path: Path) -> None:
    model = write_model(WAITING)
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    options = ("--budget", "3m", "--trainings", "1000", "--space", "workers.toml", "--set", "memory.keep_freed=on")
    tune = command("tune", model, *options, "--output", "run")
    tuner = subprocess.Popen(tune, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=tmp_path)
    assert tuner.stdout is not None
    for line in tuner.stdout:
        if "stage contributions" in line:
            break
    tuner.send_signal(signal.SIGINT)
    rest = tuner.stdout.read()
    tuner.stdout.close()
    assert tuner.wait(30) == 130, rest
    recipe = recipe_in(tmp_path / "run")
    assert recipe["settings"]["loader.workers"] == 2
    assert recipe["search"]["unfinished"] and not recipe["contributions"]
    assert recipe["search"]["recipe_after_seconds"] >= recipe["search"]["proven_after_seconds"]
    assert recipe["summary"] in " ".join(rest.split())
    assert "autoaccel run run/recipe.json model.py" in rest
    assert (tmp_path / "run" / "report.html").exists()

    resume = shlex.split(rest.partition("Resume with: ")[2].splitlines()[0])
    done = autoaccel(*resume[1:], cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    again = recipe_in(tmp_path / "run")
    assert again["settings"] == recipe["settings"]
    assert not again["search"]["unfinished"] and again["contributions"]


@pytest.mark.long
def test_a_changed_file_is_no_run_to_go_on_with(write_model: WriteModel, tmp_path: Path) -> None:
    model = write_model(WAITING)
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    options = ("--budget", "2m", "--trainings", "1000", "--space", "workers.toml", "--output", "run")
    tuner = subprocess.Popen(command("tune", model, *options), stdout=subprocess.PIPE, text=True, cwd=tmp_path)
    assert tuner.stdout is not None
    for line in tuner.stdout:
        if "start trial 1" in line:
            break
    tuner.terminate()
    tuner.stdout.read()
    tuner.stdout.close()
    assert tuner.wait(30) == 130  # SIGTERM is as polite as Ctrl-C
    assert workers_of(tmp_path) == []
    model.write_text(model.read_text() + "\n# changed\n")
    done = autoaccel("tune", model, *options, "--resume", cwd=tmp_path)
    assert done.returncode == 2
    assert "has changed since the run began" in done.stderr


@pytest.mark.long
def test_the_budget_is_a_ceiling_even_while_something_hangs(write_model: WriteModel, tmp_path: Path) -> None:
    """A candidate that never becomes ready, as an endless compilation would not, cannot overdraw the budget."""
    code = (
        WAITING
        + """
from torch.utils.data import get_worker_info

class Stuck(Waiting):
    def __getitem__(self, index):
        if get_worker_info() is not None:
            time.sleep(600)
        return super().__getitem__(index)

def build():
    return tiny(train_data=Stuck(), epochs=20)
"""
    )
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    start = time.perf_counter()
    model = write_model(code)
    options = ("--budget", "90s", "--trainings", "1000", "--space", "workers.toml", "--output", "run")
    done = autoaccel("tune", model, *options, cwd=tmp_path)
    assert time.perf_counter() - start < 90 + 10
    assert done.returncode == 1, done.stdout + done.stderr
    recipe = recipe_in(tmp_path / "run")
    assert recipe["search"]["failed"] == 1
    assert "1 failed" in recipe["summary"]
    trial = json.loads((tmp_path / "run" / "trials.jsonl").read_text())
    assert trial["outcome"]["kind"] == "hung"
    assert workers_of(tmp_path) == []


@pytest.mark.long
def test_a_budget_that_cannot_do_is_refused_after_the_first_steps(write_model: WriteModel, tmp_path: Path) -> None:
    """Half of a budget was spent before it was clear that no trial fits into the rest."""
    code = """
    import time

    def slow(output, target):
        time.sleep(1.0)
        return nn.functional.cross_entropy(output, target)

    tiny = build

    def build():
        return tiny(loss=slow, epochs=1000)
    """
    done = autoaccel("tune", write_model(code), "--budget", "30s", cwd=tmp_path)
    assert done.returncode == 2, done.stdout + done.stderr
    assert "stage baseline" in done.stdout
    assert "ms/step" not in done.stdout and " s/step" not in done.stdout  # it was not measured to its end
    assert "the budget of 30.0 s is too small" in done.stderr and len(done.stderr.splitlines()) == 1
    enough = parse_duration(done.stderr.rpartition("--budget ")[2].strip().removesuffix("."))
    assert enough > 30.0
    assert workers_of(tmp_path) == []
    assert not (tmp_path / "autoaccel-runs").exists()


@pytest.mark.long
def test_a_profile_that_fails_takes_nothing_with_it(write_model: WriteModel, tmp_path: Path) -> None:
    code = (
        WAITING
        + """
def loss(output, target):
    assert not torch._C._autograd._profiler_enabled(), "not under a profiler"
    return nn.functional.cross_entropy(output, target)

def build():
    return tiny(train_data=Waiting(), epochs=20, loss=loss)
"""
    )
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    options = ("--budget", "2m", "--trainings", "1000", "--trials", "1", "--space", "workers.toml", "--output", "run")
    done = autoaccel("tune", write_model(code), *options, cwd=tmp_path)
    assert done.returncode in (0, 1), done.stdout + done.stderr
    assert "no profile could be taken" in done.stdout and "not under a profiler" in done.stdout
    recipe = recipe_in(tmp_path / "run")
    assert recipe["search"]["failed"] == 0
    assert json.loads((tmp_path / "run" / "run.json").read_text())["diagnosis"] is None
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.long
def test_a_function_of_the_main_program_is_tuned_from_code(write_model: WriteModel, tmp_path: Path) -> None:
    program = write_model(
        WAITING
        + """
if __name__ == "__main__":
    recipe = autoaccel.autotune(build, budget="150s", trainings=1000, space="workers.toml", output="run")
    assert recipe.search.trials >= 1, recipe.summary
    applied = autoaccel.apply("run/recipe.json")
    print("SAME", applied.settings == recipe.settings, type(recipe.workload).__name__)
""",
        name="notebook.py",
    )
    (tmp_path / "workers.toml").write_text(WORKERS_ONLY)
    done = subprocess.run([sys.executable, program], capture_output=True, text=True, cwd=tmp_path, timeout=300)
    assert done.returncode == 0, done.stderr
    assert "SAME True PickledFunction" in done.stdout
    profiled = autoaccel("advise", "run/build.pkl", cwd=tmp_path)
    assert profiled.returncode == 0, profiled.stdout + profiled.stderr
    assert "data wait" in profiled.stdout


@pytest.mark.long
def test_a_program_that_tunes_itself_while_it_is_tuned_is_told(write_model: WriteModel, tmp_path: Path) -> None:
    write_model("autoaccel.autotune(build, budget='1m')")
    done = autoaccel("tune", "model.py", cwd=tmp_path)
    assert done.returncode == 2
    assert "if __name__ == '__main__':" in done.stderr


@pytest.mark.long
def test_settings_that_break_the_metric_never_win(write_model: WriteModel, tmp_path: Path) -> None:
    """A candidate that is faster, but whose updates are others, is told of and not chosen."""
    code = """
    import time

    def loss(output, target):
        if output.dtype != torch.bfloat16:
            time.sleep(0.01)  # the shorter type is faster by far,
            return nn.functional.cross_entropy(output, target)
        return output.float().square().mean()  # and learns nothing

    tiny = build

    def build():
        return tiny(loss=loss, epochs=40)
    """
    (tmp_path / "cast.toml").write_text('title = "t"\n[knobs]\n"precision.autocast" = ["off", "bfloat16"]\n')
    options = ("--budget", "90s", "--trainings", "1000", "--space", "cast.toml", "--output", "run")
    done = autoaccel("tune", write_model(code), *options, cwd=tmp_path)
    assert done.returncode == 1, done.stdout + done.stderr
    assert "may cost more than --max-drop allows" in recipe_in(tmp_path / "run")["summary"]
    trials = [json.loads(line) for line in (tmp_path / "run" / "trials.jsonl").read_text().splitlines()]
    # Several times as fast: too good to be believed of one process alone.
    assert [trial["again"] for trial in trials] == [False, True]
    for trial in trials:
        assert trial["comparison"]["verdict"] == "faster"
        assert trial["accuracy"]["rounding"]["verdict"] == "too large"
    assert (tmp_path / "run" / "report.html").exists()


@pytest.mark.long
def test_a_recipe_that_rounds_names_the_evidence_for_its_metric(write_model: WriteModel, tmp_path: Path) -> None:
    code = """
    import time

    def loss(output, target):
        if output.dtype != torch.bfloat16:
            time.sleep(0.01)  # the shorter type is faster by far
        return nn.functional.cross_entropy(output.float(), target)

    tiny = build

    def build():
        return tiny(loss=loss, epochs=40)
    """
    (tmp_path / "cast.toml").write_text('title = "t"\n[knobs]\n"precision.autocast" = ["off", "bfloat16"]\n')
    options = ("--budget", "2m", "--trainings", "1000", "--max-drop", "20%", "--evidence", "whole")
    done = autoaccel("tune", write_model(code), *options, "--space", "cast.toml", "--output", "run", cwd=tmp_path)
    assert done.returncode == 0, done.stdout + done.stderr
    accuracy = recipe_in(tmp_path / "run")["accuracy"]
    assert (accuracy["evidence"], accuracy["share"]) == ("whole", 1.0)
    assert accuracy["repeats"] >= 3 and accuracy["drop_high"] <= 0.2
    assert "judged on whole planned runs" in " ".join(done.stdout.split())
    pairs = [json.loads(line) for line in (tmp_path / "run" / "proof.jsonl").read_text().splitlines()]
    trained = [pair["trained"] for pair in pairs if pair["trained"]]
    assert len(trained) == accuracy["repeats"]
    assert all(pair["sample_error"] is not None and pair["losses"] for pair in trained)
