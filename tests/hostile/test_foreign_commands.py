"""What is printed or submitted for a shell to read runs nothing of the names in it: tried with bash."""

from __future__ import annotations

import hashlib
import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from autoaccel.export import own_jobs
from autoaccel.export.batch import batch_script
from autoaccel.export.own_jobs import TuneCommand, array_batch
from autoaccel.text import shell_command, shell_word

from . import samples
from .doors import Shown, give, refused

CANARY = "canary"  # would appear in the folder that a script runs in
NAMES = {
    "line end": f"a\n{CANARY}",
    "line end and a command": f"a\ntouch {CANARY}\nb",
    "line end and an option of sbatch": "a\n#SBATCH --wrap=x\nb",
    "carriage return": f"a\rtouch {CANARY}",
    "substitution": f"$(touch {CANARY})",
    "backquotes": f"`touch {CANARY}`",
    "line end and quotes": f"a'\ntouch {CANARY}\n'b",
    "sequence": f"a; touch {CANARY}",
    "conjunction": f"a && touch {CANARY} #",
    "pipe": f"a | touch {CANARY}",
    "single quote": f"a'; touch {CANARY}; '",
    "double quote": f'a"; touch {CANARY}; "',
    "backslash": "a\\",
    "backslash and line end": "a\\\nb",
    "escape": "a\x1b[2Jb",
    "reversed": "a\u202eb",
    "no UTF-8": os.fsdecode(b"a\xff\xfeb"),
    "variable": "${HOME}$PATH",
    "redirection": f"a > {CANARY}",
    "blanks": "a   b\tc",
    "glob": "*?[a-z]{a,b}~",
    "history": "!! a",
    "comment": "# a",
    "dash": "-rf --help",
    "dollar quotes": f"$'\\x0atouch {CANARY}'",
}
INVISIBLE = {name for name, text in NAMES.items() if not text.isprintable()}


def run_with_bash(script: str, folder: Path) -> list[list[str]]:
    """Return the words of each command that a script would start; the commands are stubs that keep what they get."""
    kept = folder.parent / "kept"
    kept.unlink(missing_ok=True)
    done = subprocess.run(["bash"], input=script.encode(), cwd=folder, capture_output=True, timeout=300,
                          env={"PATH": f"{folder.parent / 'stubs'}:/usr/bin:/bin", "KEPT": str(kept),
                               "SLURM_ARRAY_JOB_ID": "42", "SLURM_ARRAY_TASK_ID": "3"})  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert not list(folder.parent.rglob(CANARY))
    calls = os.fsdecode(kept.read_bytes()).split("\0\0")[:-1]
    return [call.split("\0") for call in calls]


@pytest.fixture
def stubs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a folder of stubs in place of Python and of launchers."""
    folder = tmp_path / "stubs"
    folder.mkdir()
    for name in ("python", "srun", "mpirun", "apptainer", "docker"):
        stub = folder / name
        stub.write_text('#!/bin/bash\nprintf "%s\\0" "${0##*/}" "$@" >> "$KEPT"; printf "\\0" >> "$KEPT"\n')
        stub.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(folder / "python"))
    monkeypatch.setattr(own_jobs, "_AUTOACCEL", (sys.executable, "-m", "autoaccel"))
    return folder


@pytest.mark.parametrize("text", NAMES.values(), ids=NAMES)
def test_a_word_is_one_word_to_bash(text: str) -> None:
    word = shell_word(text)
    assert word.isprintable()
    done = subprocess.run(["bash", "-c", f"printf '%s\\0' {shell_command(['x', text, ''])}"], capture_output=True)
    assert os.fsdecode(done.stdout) == f"x\0{text}\0\0"


def launch(name: str, tmp_path: Path, *options: str) -> tuple[Shown, Path]:
    """Return what `launch --dry-run` shows in a folder of this name, in which recipe and model lie."""
    folder = tmp_path / name
    folder.mkdir()
    model = folder / "model.py"
    model.write_text(samples.MODEL)
    found = samples.as_json(samples.recipe())
    found["workload"]["sha256"] = hashlib.sha256(model.read_bytes()).hexdigest()
    recipe = samples.write(folder / f"{name}.json", found)
    return give(["launch", recipe, model, *options, "--dry-run", "--", "--data", name], folder), folder


@pytest.mark.parametrize("target", ["local", "torchrun", "mpirun", "slurm"])
@pytest.mark.parametrize("case", NAMES)
def test_scripts_of_launch_run_nothing_of_a_folder_s_name(case: str, target: str, stubs: Path, tmp_path: Path) -> None:
    name = NAMES[case]
    several = {"torchrun": ["--hosts", "a,b"], "mpirun": ["--hosts", "a,b"]}.get(target, [])
    shown, folder = launch(name, tmp_path, "--with", target, *several)
    if target == "slurm" and case in INVISIBLE:
        refused(shown, "option chdir cannot be")
        assert shown.stdout == ""
        return
    assert shown.code == 0, shown
    (call,) = run_with_bash(shown.stdout, folder)
    end = ["run", str(folder / f"{name}.json"), str(folder / "model.py"), "--", "--data", name]
    assert call[-len(end) :] == end
    header = [line for line in shown.stdout.splitlines() if line.startswith("#SBATCH")]
    if target == "slurm":
        assert [shlex.split(line[8:]) for line in header if "chdir" in line] == [[f"--chdir={folder}"]]
        assert not [line for line in header if "wrap" in line]
    else:
        assert header == []


@pytest.mark.parametrize("case", NAMES)
def test_jobs_that_tune_run_nothing_of_a_name(case: str, stubs: Path, tmp_path: Path) -> None:
    name = NAMES[case]
    folder = tmp_path / name
    folder.mkdir()
    (folder / "train.py").write_text(samples.SCRIPT)
    shown = give(
        ["tune", "train.py", f"--storage={name}.journal", f"--output={name}", "--with", "slurm", "--workers", "2",
         "--dry-run", "--", name, "-x"],
        folder,
    )  # fmt: skip
    assert shown.code == 0, shown
    (call,) = run_with_bash(shown.stdout, tmp_path / "stubs")
    assert call[call.index("--output") + 1] == f"{name}-42-3"
    assert call[call.index("--storage") + 1] == f"{name}.journal"
    assert call[-4:] == ["train.py", "--", name, "-x"]


@pytest.mark.parametrize("case", sorted(INVISIBLE))
def test_an_option_of_sbatch_is_one_line_or_none(case: str) -> None:
    with pytest.raises(Exception, match="comment of one line"):
        batch_script({"output": NAMES[case]}, [])


def test_an_array_keeps_what_is_in_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    script = array_batch(TuneCommand(["--budget", "1m\n2"], ["a\nb"], "c\nd"), 2, 60.0).script
    assert all(line.isprintable() for line in script.splitlines())


@pytest.mark.parametrize("address", ["x\ntouch canary", "$(touch canary)", "x'\ntouch canary\n'"])
def test_an_address_in_a_variable_is_a_word(
    address: str, stubs: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MASTER_ADDR", address)
    shown, folder = launch("runs", tmp_path, "--with", "torchrun", "--nodes", "2")
    (call,) = run_with_bash(shown.stdout, folder)
    assert call[call.index("--rdzv-endpoint") + 1] == f"{address}:29400"


@pytest.mark.parametrize("name", ["a:b", "runs,etc", "x:/etc:rw"])
@pytest.mark.parametrize("image", ["my.sif", "image"])
def test_a_folder_that_would_be_mounted_elsewhere_is_refused(name: str, image: str, tmp_path: Path) -> None:
    name = name.replace("/", "-")
    shown, _ = launch(name, tmp_path, "--in", image)
    refused(shown, "cannot be mounted in a container")


@pytest.mark.parametrize("option", ["chdir=/a\nb", "wrap=x\ntouch canary", "time=1;\x1b[2J", "wrap\n=x", "$(x)=1"])
def test_options_for_sbatch_are_one_line(option: str, tmp_path: Path) -> None:
    shown, _ = launch("runs", tmp_path, "--with", "slurm", "--slurm-option", option)
    refused(shown, "--slurm-option")
