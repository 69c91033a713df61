"""A script sees what it sees under plain Python: held against `python script.py` itself, in processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

RUN = (
    "import os, sys; sys.path[:] = [p for p in sys.path if p]; import autoaccel.runtime.script.entry as entry;"
    "path, program = os.path.abspath(sys.argv[1]), sys.argv[1]; arguments = tuple(sys.argv[2:]);"
    "entry.enter(os.path.dirname(path), program, arguments); entry.main(path)"
)
RUN_MODULE = (
    "import os, sys; sys.path[:] = [p for p in sys.path if p]; import autoaccel.runtime.script.entry as entry;"
    "module, path = sys.argv[1], os.path.abspath(sys.argv[2]); entry.enter(os.getcwd(), path, tuple(sys.argv[3:]));"
    "entry.main(path, module)"
)


def run(code: list[str], folder: Path, given: str = "") -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    return subprocess.run(
        [sys.executable, *code], cwd=folder, env=environment, input=given, capture_output=True, text=True, timeout=300
    )


def both(folder: Path, source: str, *arguments: str, given: str = "") -> tuple[str, str, int]:
    """Return stdout, stderr and exit code of a script; assert that they are what plain Python gives."""
    (folder / "train.py").write_text(source)
    plain = run(["train.py", *arguments], folder, given)
    ours = run(["-c", RUN, "train.py", *arguments], folder, given)
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, plain.returncode)
    return ours.stdout, ours.stderr, ours.returncode


def test_names_arguments_and_paths_are_the_scripts_own(tmp_path: Path) -> None:
    source = """\
import os, sys
print(__name__, __file__, __package__, __spec__, __doc__, sorted(globals()))
print(sys.argv, sys.path[0], os.getcwd(), sys.modules["__main__"].__dict__ is globals(), sys.flags.optimize)
"""
    out, _, _ = both(tmp_path, source, "--epochs", "3")
    assert "['train.py', '--epochs', '3']" in out


def test_local_modules_shadow_installed_ones(tmp_path: Path) -> None:
    for name in ("data", "utils", "statistics", "evaluate"):
        (tmp_path / f"{name}.py").write_text(f"WHO = 'my {name}'")
    out, _, _ = both(tmp_path, "import data, evaluate, statistics, utils\nprint(data.WHO, statistics.WHO, utils.WHO)")
    assert out == "my data my statistics my utils\n"


@pytest.mark.parametrize(("module", "file"), [("pack.train", "pack/train.py"), ("pack", "pack/__main__.py")])
def test_a_module_is_run_as_python_does(tmp_path: Path, module: str, file: str) -> None:
    (tmp_path / "pack").mkdir()
    (tmp_path / "pack" / "__init__.py").write_text("print('the package comes first')")
    (tmp_path / "pack" / "model.py").write_text("WIDTH = 3")
    (tmp_path / file).write_text("""\
import multiprocessing, sys
from .model import WIDTH
def double(x):
    return 2 * x
if __name__ == "__main__":
    print(WIDTH, __package__, __spec__.name, __file__ == sys.argv[0], sys.argv[1:], sys.path[0])
    if __spec__.name != "pack.__main__":  # which spawned processes do not import
        with multiprocessing.get_context("spawn").Pool(1) as pool:
            print(pool.map(double, [WIDTH]))
""")
    plain = run(["-m", module, "--epochs", "3"], tmp_path)
    ours = run(["-c", RUN_MODULE, module, file, "--epochs", "3"], tmp_path)
    assert (ours.stdout, ours.stderr, ours.returncode) == (plain.stdout, plain.stderr, 0)
    assert ("[6]" in ours.stdout) == (module != "pack")


def test_a_configurator_may_be_run_in_its_globals(tmp_path: Path) -> None:
    (tmp_path / "configurator.py").write_text("import sys\nglobals().update(rate=float(sys.argv[1]))")
    out, _, _ = both(tmp_path, "rate = 0.1\nexec(open('configurator.py').read())\nprint(rate)", "0.5")
    assert out == "0.5\n"


def test_classes_of_main_are_pickled_and_spawned_processes_find_them(tmp_path: Path) -> None:
    source = """\
import multiprocessing, pickle
class Point:
    x = 3
def double(point):
    return point.x * 2
if __name__ == "__main__":
    print(pickle.loads(pickle.dumps(Point())).x)
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(double, [Point()]))
"""
    assert both(tmp_path, source)[0] == "3\n[6]\n"


@pytest.mark.parametrize(
    ("source", "code"),
    [
        ("import sys\nsys.exit(7)", 7),
        ("raise SystemExit", 0),
        ("import sys\nsys.exit('no data')", 1),
        ("import sys\nprint(sys.stdin.read())", 0),
        ("import atexit\natexit.register(print, 'bye')", 0),
        ("raise KeyboardInterrupt", 130),
    ],
)
def test_ends_and_streams_are_the_scripts_own(tmp_path: Path, source: str, code: int) -> None:
    found = both(tmp_path, source, given="hello")[2]
    assert found in (code, -2)  # a shell says 130 of a process that ended by SIGINT


@pytest.mark.parametrize(
    "source",
    [
        "def f():\n    return 1 / 0\nf()",
        "def f(\n",
        "try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise ValueError('no') from error",
        "import sys\nsys.excepthook = lambda kind, error, trace: print('mine', kind.__name__, trace.tb_lineno)\n1 / 0",
        "import missing_module",
    ],
)
def test_a_traceback_shows_the_script_and_nothing_of_ours(tmp_path: Path, source: str) -> None:
    out, err, code = both(tmp_path, source)
    assert code == 1
    assert "autoaccel" not in out + err


def test_what_it_sets_before_it_imports_torch_still_matters(tmp_path: Path) -> None:
    source = """\
import os, sys
assert "torch" not in sys.modules and "numpy" not in sys.modules
os.environ["OMP_NUM_THREADS"] = "1"
import torch
print(torch.get_num_threads())
"""
    assert both(tmp_path, source)[0] == "1\n"
