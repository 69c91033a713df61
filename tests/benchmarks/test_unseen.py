"""The unseen suite: each training is there, builds and makes steps; what a person would try; what picks are worth."""

from __future__ import annotations

import ast
import importlib.util
import json
import math
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from autoaccel.errors import AutoaccelError
from autoaccel.records.recipe import Recipe, SearchSummary
from autoaccel.records.settings import Settings, Value, describe_change, settings_key
from autoaccel.records.space import SearchSpace
from benchmarks.catalogue import BENCHMARKS
from benchmarks.harness import rows
from benchmarks.harness.minutes import TimeIsUp
from benchmarks.harness.side_by_side import Pick, Taken, representatives
from benchmarks.page.unseen import unseen
from benchmarks.studies.unseen import measure as unseen_measure
from benchmarks.studies.unseen import pieces, searches
from benchmarks.studies.unseen.scores import scored
from benchmarks.studies.unseen.searches import Case, Grid, PlainReading, choice_of, effective, values_in_vain
from benchmarks.studies.unseen.suite import HALVES, MAX_SETTINGS, half_of, hand_grid, workloads
from benchmarks.studies.unseen.tunes import told_by

ROOT = Path(__file__).parents[2]
PLAIN = ROOT / "benchmarks" / "studies" / "unseen" / "plain.py"
PACKAGES = ("torchvision", "timm", "transformers")
BASELINE: Settings = {
    "precision.autocast": "off",
    "layout.channels_last": False,
    "threads.intra_op": 4,
    "compile.mode": "off",
    "loader.workers": 0,
    "optimizer.fused": False,
}
VALUES: dict[str, tuple[Value, ...]] = {
    "precision.autocast": ("off", "bfloat16"),
    "layout.channels_last": (False, True),
    "threads.intra_op": (1, 2, 4),
    "compile.mode": ("off", "default"),
    "loader.workers": (0, 1, 2),
    "optimizer.fused": (False, True),
}


@pytest.mark.parametrize("half", HALVES)
def test_each_half_has_enough_to_be_compared_with_the_other(half: str) -> None:
    assert sum(half_of(path) == half for path in workloads().values()) >= 6


def test_the_suite_declares_all_pieces_and_a_line_in_the_readme_for_each_of_its_trainings() -> None:
    of_suite = [one.rows["unseen"] for one in BENCHMARKS if "unseen" in one.rows]
    assert of_suite == [len(workloads()) * len(pieces.PIECES)]
    lines = (ROOT / "benchmarks" / "README.md").read_text().splitlines()
    listed = [line.split("|")[1:3] for line in lines if line.startswith(("| first | `", "| second | `"))]
    assert sorted(listed) == sorted([f" {half_of(path)} ", f" `{name}` "] for name, path in workloads().items())


@pytest.mark.parametrize("path", workloads().values(), ids=lambda path: path.stem)
def test_a_training_says_what_it_stands_for_and_what_to_expect(path: Path) -> None:
    module = ast.parse(path.read_text())
    said = ast.get_docstring(module) or ""
    assert "Stands for: " in said and "On two cores: " in said and "A user cares about: " in said
    assert any(isinstance(part, ast.FunctionDef) and part.name == "build" for part in module.body)


@pytest.mark.long
@pytest.mark.parametrize("path", workloads().values(), ids=lambda path: path.stem)
def test_a_training_builds_and_makes_steps(path: Path) -> None:
    if missing := [name for name in PACKAGES if importlib.util.find_spec(name) is None]:
        pytest.skip(f"needs {', '.join(missing)}")
    command = [sys.executable, str(PLAIN), str(path), "{}", "--seconds", "0", "--steps", "2"]
    done = subprocess.run(command, cwd=ROOT, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert len(json.loads(done.stdout.splitlines()[-1])["step_seconds"]) == 2


def _environment() -> dict[str, str]:
    return {**os.environ, "PYTHONPATH": str(ROOT)}


@pytest.mark.long
def test_a_plain_reading_brings_settings_to_bear_and_counts_later_steps_alone(tmp_path: Path) -> None:
    """Steps say on stderr under what they run; the plain script's numbers are of as many steps as it was told."""
    model = tmp_path / "model.py"
    model.write_text(MODEL)
    settings = json.dumps({"precision.autocast": "bfloat16", "threads.intra_op": 1, "loader.workers": 1})
    command = [sys.executable, str(PLAIN), str(model), settings, "--seconds", "0", "--steps", "4"]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
    found = json.loads(done.stdout.splitlines()[-1])
    assert len(found["step_seconds"]) == 4
    assert done.stderr.split() == ["torch.bfloat16/1/True"] * (2 + 2 + 4)
    assert found["made_seconds"] >= sum(found["step_seconds"]) and 0 <= found["wait_share"] <= 1
    assert found["in_vain"] == []


@pytest.mark.long
def test_a_plain_reading_tells_what_did_nothing_and_calls_nothing_else_so(tmp_path: Path) -> None:
    """A step that reaches into the model leaves no call to compile; all else that a hand grid changes does act."""
    model = tmp_path / "model.py"
    model.write_text(MODEL.replace("y = model(x)", "y = torch.nn.functional.linear(x, model.weight, model.bias)"))
    settings = {"compile.mode": "default", "precision.autocast": "bfloat16", "threads.intra_op": 1}
    settings |= {"loader.workers": 1, "optimizer.fused": True}
    command = [sys.executable, str(PLAIN), str(model), json.dumps(settings), "--seconds", "0", "--steps", "3"]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=True)
    assert json.loads(done.stdout.splitlines()[-1])["in_vain"] == ["compile.mode"]


MODEL = """
import sys
import torch
import autoaccel
from torch.utils.data import Dataset, get_worker_info

class Data(Dataset):
    def __len__(self):
        return 64
    def __getitem__(self, index):
        return torch.ones(4), get_worker_info() is not None

class Net(torch.nn.Linear):
    def forward(self, x):
        self.y = super().forward(x)
        return self.y

def step(model, batch):
    x, by_worker = batch
    y = model(x)
    print(f"{y.dtype}/{torch.get_num_threads()}/{bool(by_worker.all())}", file=sys.stderr)
    return y.float().mean()

def build():
    return autoaccel.Training(model=Net(4, 2), train_data=Data(), eval_data=Data(), step=step, epochs=1, batch_size=8,
        optimizer=lambda parameters: torch.optim.SGD(parameters, lr=0.1), evaluate=lambda model, loader: 0.0)
"""


@pytest.mark.parametrize("waits", [False, True])
@pytest.mark.parametrize("without", [(), ("layout.channels_last",), ("precision.autocast",), ("compile.mode",)])
def test_a_hand_grid_is_small_and_holds_what_a_person_tries_first(waits: bool, without: tuple[str, ...]) -> None:
    values = {name: some for name, some in VALUES.items() if name not in without}
    grid = hand_grid(BASELINE, values, waits)
    keys = [settings_key(settings) for settings in grid]
    assert len(grid) <= MAX_SETTINGS and len(set(keys)) == len(keys)
    assert grid[0] == BASELINE
    joint = dict(BASELINE)
    for name, value in {"precision.autocast": "bfloat16", "layout.channels_last": True}.items():
        joint |= {name: value} if name not in without else {}
    assert joint in grid
    if waits:
        assert {**joint, "threads.intra_op": 1, "loader.workers": 2} in grid
    assert any(settings["loader.workers"] for settings in grid) == waits
    assert all(settings["optimizer.fused"] is False for settings in grid)
    assert {settings["threads.intra_op"] for settings in grid} == {1, 4}


PICKS = {
    "own": Pick(BASELINE),
    "autoaccel": Pick({**BASELINE, "precision.autocast": "bfloat16"}),
    "grid's best": Pick({**BASELINE, "precision.autocast": "bfloat16"}),
    "optuna": Pick({**BASELINE, "compile.mode": "default"}),
    "run_cpu": Pick(BASELINE, {"OMP_NUM_THREADS": "1"}),
    "everything on": Pick({**BASELINE, "layout.channels_last": True}),
}


def rounds() -> list[dict[str, Taken]]:
    """Return two rounds in which steps of 1 s became twice as fast by bfloat16, and by 60 s of compiling."""
    found = []
    for slower in (0.9, 1.1):
        twice = Taken(math.log(2 * slower), 0.0, 0.5)
        compiled = Taken(math.log(2 * slower), 60.0 if slower < 1 else 5.0, 0.5)
        baseline, launched = Taken(0.0, 0.3, 1.0), Taken(math.log(0.5), 0.0, 2.0)
        found.append(
            {"own": baseline, "autoaccel": twice, "grid's best": twice, "optuna": compiled, "run_cpu": launched}
        )
    return found


def test_picks_that_are_the_same_are_measured_once() -> None:
    """A ratio of two processes under the same settings is chance."""
    first = representatives(PICKS)
    assert first["grid's best"] == "autoaccel"
    assert first["run_cpu"] == "run_cpu"  # the variables differ


def test_a_pick_is_worth_what_it_saves_of_the_planned_run() -> None:
    rows = scored(PICKS, rounds(), planned_steps=100, startup_seconds=10.0)
    middle = 2 * math.sqrt(0.9 * 1.1)
    assert rows["autoaccel"]["steps"][0] == pytest.approx(middle)
    assert rows["autoaccel"]["run"] == pytest.approx(110 / (10 + 100 / middle))
    assert rows["optuna"]["run"] == pytest.approx(110 / (10 + (60 + 19 * 5) / 20 + 100 / middle))  # the first compiles
    assert rows["own"]["run"] == 1 and rows["own"]["cold_seconds"] == 0
    assert rows["autoaccel"]["steps_over_grid"] == pytest.approx([1.0, 1.0, 1.0])
    assert rows["optuna"]["run_over_grid"] < rows["autoaccel"]["run_over_grid"] == 1
    assert rows["run_cpu"]["steps"][2] == pytest.approx(0.5)
    assert "run" not in rows["everything on"]  # it never worked


def tuned(half: str, exit_code: int, spent: float = 50.0) -> dict[str, Any]:
    """Return what the row of a tune holds, as far as the page shows it."""
    planned = {"hardware": 3.0, "baseline": 30.0, "search": 200.0, "confirm": 60.0, "metric": 40.0}
    planned |= {"contributions": 80.0, "report": 1.0}
    stages = [{"stage": name, "planned_seconds": one, "spent_seconds": one} for name, one in planned.items()]
    stages[3]["spent_seconds"] = spent  # confirm
    return {
        "half": half,
        "exit_code": exit_code,
        "wall_seconds": 421.0,
        "said": "last",
        "summary": "Own stay.",
        "choice": {"settings": {"precision.autocast": "bfloat16"} if exit_code == 0 else {}},
        "comparison": {"speedup": 1.98, "low": 1.7, "high": 2.3},
        "accuracy": {"evidence": "share", "share": 0.2},
        "own_step_seconds": 1.0,
        "planned_steps": 100,
        "search": {"proven_after_seconds": 245.0, "spent_seconds": 415.0, "stages": stages},
    }


def beside(half: str, exit_code: int, without: str = "") -> dict[str, Any]:
    """Return what the row of a comparison holds, as far as the page shows it."""
    picks = scored({who: pick for who, pick in PICKS.items() if who != without}, rounds(), 100, 10.0)
    choices = {"autoaccel": tuned(half, exit_code)["choice"]}
    return {"half": half, "choices": choices, "picks": picks, "rounds": rounds(), "own_step_seconds": 1.0}


def test_the_page_shows_halves_apart_and_what_disappoints() -> None:
    pieces = {"b": ("second", 0), "a": ("first", 1), "c": ("first", 0)}
    lines = unseen(
        {f"{name}: autoaccel": tuned(*how) for name, how in pieces.items()}
        | {f"{name}: side_by_side": beside(*how) for name, how in pieces.items()}
    )
    tunes = [line for line in lines if "7 min 01 s" in line]
    assert [line.split("|")[2].strip() for line in tunes] == ["a", "c", "b"]
    assert "Own stay." in tunes[0] and "4 min" not in tunes[0]
    assert "1.98x (1.70 to 2.30): precision.autocast=bfloat16 | share, 20% of the run | 4 min 05 s" in tunes[1]
    assert "| 5 min 34 s | 7 min 01 s |" in tunes[1]  # the recipe was there before contributions and report
    assert any("does not train" in line for line in lines)
    halves = [line for line in lines if line.startswith(("| first | 2 |", "| second | 1 |", "| both | 3 |"))]
    counts = [[int(line.split("|")[index]) for index in (3, 6, 7, 8)] for line in halves]
    assert counts == [[1, 2, 2, 0], [1, 1, 1, 0], [2, 3, 3, 0]]  # proven, compared, close, slower than own


def test_the_page_shows_what_stages_took_beside_what_they_were_planned_to() -> None:
    lines = unseen({"a: autoaccel": tuned("first", 0, spent=46.0), "b: autoaccel": tuned("first", 0, spent=44.0)})
    shown = [line for line in lines if "of 200" in line]
    assert shown[0].startswith("| first | a | 3 of 3 | 30 of 30 |  | 200 of 200 | 46 of 60 | 40 of 40 | 80 of 80 |")
    assert "| | as planned | 2 of 2 | 2 of 2 |  | 2 of 2 | 1 of 2 | 2 of 2 | 2 of 2 | 2 of 2 |" in lines
    assert any("13 of 14" in line for line in lines)
    assert any(line.startswith("| | spent over planned, median | 1.00 | ") and "| 0.75 |" in line for line in lines)


def test_the_page_compares_what_was_chosen_by_the_tune_that_it_shows() -> None:
    """A tune that was repeated came to another recipe: what was measured beside the others was the first one's."""
    rows = {"a: autoaccel": tuned("first", 0), "a: side_by_side": beside("first", 0, without="optuna")}
    assert any("autoaccel over the grid's best" in line for line in unseen(rows))
    rows["a: autoaccel"]["choice"] = {"settings": {"optimizer.fused": True}}
    lines = unseen(rows)
    assert not any("autoaccel over the grid's best" in line for line in lines)
    assert any("optimizer.fused=True" in line for line in lines)


def test_a_peer_that_was_not_measured_yet_is_no_peer_that_fails() -> None:
    lines = unseen({"a: autoaccel": tuned("first", 0), "a: side_by_side": beside("first", 0, without="optuna")})
    line = next(line for line in lines if line.startswith("| first | a | ") and "does not train" in line)
    cells = [cell.strip() for cell in line.split("|")]
    assert cells[5] == "" and cells[6] == "does not train"  # optuna, everything on


def test_the_page_tells_how_close_a_pick_comes_to_whoever_was_best() -> None:
    rows = {"a: autoaccel": tuned("first", 0), "a: side_by_side": beside("first", 0)}
    picks = rows["a: side_by_side"]["picks"]
    picks["optuna"]["run"] = 2 * picks["autoaccel"]["run"]
    line = next(line for line in unseen(rows) if line.startswith("| first | 1 |"))
    assert line.endswith("| 1.00 | 1.00 | 0.50 |")  # over the grid's best: mean and median; over the best of all
    rows["a: side_by_side"]["picks"] = {"own": picks["own"], "autoaccel": {**picks["autoaccel"], "run": 0.8}}
    line = next(line for line in unseen(rows) if line.startswith("| first | 1 |"))
    assert line.endswith("| 0.80 |")  # the user's own settings are the best


def test_the_page_tells_a_median_that_one_workload_cannot_move() -> None:
    names = ("a", "b", "c")
    rows = {f"{name}: autoaccel": tuned("first", 0) for name in names}
    rows |= {f"{name}: side_by_side": beside("first", 0) for name in names}
    rows["c: side_by_side"]["picks"]["autoaccel"]["run_over_grid"] = 8.0
    line = next(line for line in unseen(rows) if line.startswith("| first | 3 |"))
    mean, median = (cell.strip() for cell in line.split("|")[-4:-2])
    assert mean.startswith("2.00 (") and median == "1.00"


READING = {"made_seconds": 9.0, "first_seconds": 1.0, "wait_share": 0.0, "in_vain": []}


@pytest.fixture
def case(tmp_path: Path) -> Case:
    """A workload with a grid of eight settings."""
    values = {name: some for name, some in VALUES.items() if name != "layout.channels_last"}
    space = SearchSpace(name="test", open=values, fixed={}, closed={})
    return Case("test", tmp_path / "model.py", BASELINE, space, 100, 10, tmp_path, None)


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Settings of processes that were started, one after the other: bfloat16 is twice as fast, all else slower."""
    found: list[str] = []

    def run(command: Sequence[str]) -> tuple[str, str]:
        changes = json.loads(command[3])
        found.append(describe_change({**BASELINE, **changes}, BASELINE))
        seconds = (0.5 if changes.pop("precision.autocast", "off") == "bfloat16" else 1.0) * 1.5 ** len(changes)
        return json.dumps({"step_seconds": [seconds] * 3, **READING}), ""

    monkeypatch.setattr(searches, "_run", run)
    return found


def test_a_grid_reads_what_is_best_most_often_and_repeats_nothing(case: Case, read: list[str]) -> None:
    assert Grid(case).search().settings == {**BASELINE, "precision.autocast": "bfloat16"}
    assert len(set(read)) == 8 and len(read) == 8 + 6 + 3 + 3
    assert read.count("precision.autocast=bfloat16") == 4 and read.count("your own settings") == 2
    again = Grid(case)
    assert again.search().settings["precision.autocast"] == "bfloat16" and len(read) == 20


def test_what_did_nothing_is_no_part_of_a_choice() -> None:
    """Side by side the tuner's own code measures, which calls a setting that does nothing a failure."""
    settings = {"precision.autocast": "bfloat16", "compile.mode": "default"}
    readings = [PlainReading(1, settings, in_vain=("compile.mode",)), PlainReading(1, {}, failure="raised")]
    assert values_in_vain(readings) == {"compile.mode": ["default"]}
    chosen = choice_of(Pick({**BASELINE, **settings}), BASELINE, readings)
    assert chosen["settings"] == {"precision.autocast": "bfloat16"}
    other = {**BASELINE, "compile.mode": "max-autotune"}
    assert effective(other, BASELINE, values_in_vain(readings)) == other


def test_a_grid_goes_on_where_it_was_interrupted(case: Case, read: list[str], monkeypatch: pytest.MonkeyPatch) -> None:
    """What was read before is told by the file alone, and rankings by earlier rounds only."""
    run = searches._run

    def interrupted(command: Sequence[str]) -> tuple[str, str]:
        if len(read) in (3, 10):
            read.append("interrupted")
            raise TimeIsUp
        return run(command)

    monkeypatch.setattr(searches, "_run", interrupted)
    for _ in range(2):
        with pytest.raises(TimeIsUp):
            Grid(case).search()
    assert Grid(case).search().settings == {**BASELINE, "precision.autocast": "bfloat16"}
    assert len(read) == 20 + 2


def test_a_grid_of_long_readings_ends_after_its_first_round(
    case: Case, read: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(searches, "GRID_SECONDS", 0.0)
    assert Grid(case).search().settings == {**BASELINE, "precision.autocast": "bfloat16"}
    assert len(read) == len(set(read)) == 8


def add(name: str, piece: str, found: dict[str, Any] | None = None) -> None:
    """Add a row of today's code."""
    choice = {"choice": {"settings": {}, "environment": {}, "affinity": []}}
    rows.add_row("unseen", f"{name}: {piece}", choice if found is None else found)


@pytest.fixture
def repository(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own, with code that rows speak of."""
    (tmp_path / "autoaccel").mkdir()
    (tmp_path / "autoaccel" / "code.py").write_text("1\n")
    monkeypatch.setattr(rows, "ROOT", tmp_path)
    monkeypatch.setattr(rows, "RESULTS", tmp_path / "results")
    return tmp_path


def left_to_measure(*names: str) -> list[tuple[str, str]]:
    """Return what is to be measured, by the rows that are there."""
    here = rows.of_this_cpu(rows.read_rows("unseen"))
    return list(pieces.to_measure(rows.latest(here), names, pieces.PIECES))


def test_a_workload_is_measured_whole_before_the_next_and_nothing_twice(repository: Path) -> None:
    assert left_to_measure("a", "b")[:2] == [("a", "autoaccel"), ("a", "grid")]
    assert left_to_measure("a", "b")[len(pieces.PIECES)] == ("b", "autoaccel")
    add("a", "autoaccel")
    add("a", "grid")
    assert left_to_measure("a") == [("a", "optuna"), ("a", "run_cpu"), ("a", "side_by_side")]
    (repository / "autoaccel" / "code.py").write_text("2\n")
    assert left_to_measure("a")[0] == ("a", "autoaccel")


def test_what_was_measured_on_another_cpu_is_measured_again(repository: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as elsewhere:
        elsewhere.setattr(rows, "this_cpu", lambda: "another")
        add("a", "autoaccel")
        assert left_to_measure("a")[0] == ("a", "grid")
    assert left_to_measure("a")[0] == ("a", "autoaccel")


def test_a_comparison_is_made_again_when_somebody_chooses_otherwise(repository: Path) -> None:
    for piece in pieces.PIECES[:-1]:
        add("a", piece)
    choices = pieces.choices_in(rows.latest(rows.read_rows("unseen")), "a")
    assert choices.keys() == {"autoaccel", "grid's best", "optuna", "run_cpu"}
    add("a", "side_by_side", {"choices": choices})
    assert left_to_measure("a") == []
    add("a", "grid", {"choice": {"settings": {"compile.mode": "default"}, "environment": {}, "affinity": []}})
    assert left_to_measure("a") == [("a", "side_by_side")]


def test_a_piece_that_would_not_end_in_time_is_left_for_another_time(repository: Path) -> None:
    assert "11 minutes" in pieces.why_later({}, "a", "autoaccel", 600.0)
    assert not pieces.why_later({}, "a", "grid", 600.0)  # each of its readings is kept
    assert "autoaccel and grid" in pieces.why_later({}, "a", "side_by_side", 600.0)
    add("a", "autoaccel")
    add("a", "grid")
    there = rows.latest(rows.read_rows("unseen"))
    assert "come first" in pieces.why_later(there, "a", "side_by_side", 600.0, {"a"})
    assert not pieces.why_later(there, "a", "side_by_side", 600.0, {"b"})


def test_what_is_kept_of_a_recipe_is_its_claim_its_evidence_and_what_its_stages_took() -> None:
    recipe: dict[str, Any] = dict.fromkeys(("summary", "comparison", "accuracy", "open_proof"), "kept")
    recipe["settings"] = {"threads.intra_op": 4, "precision.autocast": "bfloat16"}
    recipe["projection"] = {"planned_steps": 9}
    recipe["baseline"] = {"settings": {"threads.intra_op": 4, "precision.autocast": "off"}, "step_seconds": 1.5}
    recipe["search"] = {"stages": ["kept"], "proven_after_seconds": 240.0, "values": ["long"]}
    assert recipe.keys() <= set(Recipe.__struct_fields__)
    assert recipe["search"].keys() <= set(SearchSummary.__struct_fields__)
    kept = told_by(recipe)
    assert kept["choice"] == {"settings": {"precision.autocast": "bfloat16"}}
    assert kept["search"] == {"stages": ["kept"], "proven_after_seconds": 240.0}
    assert (kept["comparison"], kept["accuracy"], kept["open_proof"]) == ("kept",) * 3
    assert (kept["own_step_seconds"], kept["planned_steps"]) == (1.5, 9)


def test_each_piece_is_a_row_as_soon_as_it_ends_and_one_that_fails_stops_no_other(
    repository: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str] = []

    def measure(piece: str, path: Path, *_: object) -> dict[str, Any]:
        begun.append(f"{path.stem}: {piece}")
        if begun[-1] == "instrument: grid":
            raise AutoaccelError("it does not train")
        if begun[-1] == "policy_gradient: optuna":
            raise TimeIsUp
        return {"choice": {"settings": {}}, "search_seconds": 1.0}

    monkeypatch.setattr(unseen_measure, "measure", measure)
    names = ["instrument", "policy_gradient"]
    assert unseen_measure.main([*names, "--minutes", "60"]) == 1
    pieces_of_first = ("autoaccel", "grid", "optuna", "run_cpu")  # there is nothing to compare without the grid
    of_second = (f"policy_gradient: {piece}" for piece in ("autoaccel", "grid", "optuna"))
    assert begun == [*(f"instrument: {piece}" for piece in pieces_of_first), *of_second]
    there = {row.name: row.status for row in rows.read_rows("unseen")}
    assert there == dict.fromkeys(begun[:-1], "measured") | {"instrument: grid": "failed"}
    begun.clear()
    assert unseen_measure.main([*names, "--piece", "autoaccel"]) == 0 and not begun
    assert unseen_measure.main(["instrument", "--piece", "autoaccel", "--seconds", "5"]) == 0 and len(begun) == 1
    assert len(rows.read_rows("unseen")) == len(there)


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["nobody"], "there is no workload nobody here; there are "),
        (["vit_counting", "--half", "first"], "there is no workload vit_counting here"),
        (["--piece", "everything"], "invalid choice"),
        (["--minutes", "0"], "must be a number above zero, got '0'"),
    ],
)
def test_what_is_no_workload_piece_or_time_is_refused(arguments: list[str], said: str) -> None:
    command = [sys.executable, "-m", "benchmarks.studies.unseen.measure", *arguments]
    done = subprocess.run(command, env=_environment(), capture_output=True, text=True, check=False)
    assert done.returncode == 2 and said in done.stderr and "Traceback" not in done.stderr
