"""Who may choose the trials, and what is said of who cannot."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import optuna
import pytest

from autoaccel.errors import BadRequestError
from autoaccel.records.options import OPTIONS, OPTUNAS_SAMPLERS
from autoaccel.search.samplers import check_sampler, make_sampler

MODULE = """
import optuna

class Plain(optuna.samplers.RandomSampler):
    def __init__(self):
        super().__init__(seed=1)

class Seeded(optuna.samplers.RandomSampler):
    def __init__(self, seed):
        super().__init__(seed=seed)
        self.seed = seed

class Demanding(optuna.samplers.RandomSampler):
    def __init__(self, depth):
        super().__init__()

class Nothing:
    pass
"""


@pytest.fixture(autouse=True)
def modules(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    (tmp_path / "my_samplers.py").write_text(MODULE)
    (tmp_path / "broken_sampler.py").write_text("import optuna\n1 / 0\n")
    (tmp_path / "needy_sampler.py").write_text("import no_such_package\n")
    monkeypatch.chdir(tmp_path)
    yield
    for name in ("my_samplers", "broken_sampler", "needy_sampler"):
        sys.modules.pop(name, None)


@pytest.mark.parametrize(
    ("name", "kind", "package"),
    [("tpe", "TPESampler", ""), ("gp", "GPSampler", "scipy"), ("cmaes", "CmaEsSampler", "cmaes"),
     ("random", "RandomSampler", "")],
)  # fmt: skip
def test_optunas_samplers_have_short_names(name: str, kind: str, package: str) -> None:
    if package and importlib.util.find_spec(package) is None:
        with pytest.raises(BadRequestError, match=f"--sampler {name}: needs {package}: pip install {package}"):
            make_sampler(name, 0)
        return
    assert type(make_sampler(name, 0)).__name__ == kind


@pytest.mark.parametrize("name", OPTUNAS_SAMPLERS)
def test_a_short_name_is_in_the_help_and_in_the_docs(name: str) -> None:
    told = next(option.help for option in OPTIONS if option.name == "sampler")
    page = (Path(__file__).parents[2] / "docs" / "optuna.md").read_text("utf-8")
    assert re.search(rf"[ (]{name}[ ,)]", told) and f"| `{name}` | `optuna.samplers.{OPTUNAS_SAMPLERS[name]}`" in page


def test_a_class_of_ones_own_is_found_in_the_working_folder_and_gets_the_seed() -> None:
    assert isinstance(make_sampler("my_samplers:Plain", 3), optuna.samplers.BaseSampler)
    assert make_sampler("my_samplers:Seeded", 3).seed == 3  # type: ignore[attr-defined]  # its own, which the protocol has not
    assert isinstance(make_sampler("optuna.samplers:QMCSampler", 3), optuna.samplers.QMCSampler)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("bayes", "or module:Class with a class of your own, got bayes."),
        ("no_such_module:Mine", "there is no module no_such_module. Run autoaccel in the folder of no_such_module.py"),
        ("needy_sampler:Mine", "there is no module no_such_package"),
        ("broken_sampler:Mine", 'ZeroDivisionError: division by zero). Try it with: python -c "import broken_sampler"'),
        ("my_samplers:Missing", "my_samplers has no class Missing."),
        ("my_samplers:Nothing", "must be a subclass of optuna.samplers.BaseSampler"),
        ("my_samplers:Demanding", "must accept no arguments, or a seed (TypeError"),
        ("my_samplers:", "my_samplers has no class ."),
    ],
)
def test_a_sampler_that_cannot_be_had_is_one_clear_error(name: str, message: str) -> None:
    with pytest.raises(BadRequestError) as caught:
        check_sampler(name)
    assert message in str(caught.value)
    assert len(str(caught.value).splitlines()) == 1


def test_a_package_that_is_missing_is_named_with_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(BadRequestError, match=r"--sampler cmaes: needs cmaes: pip install cmaes"):
        check_sampler("cmaes")
    check_sampler("autoaccel")
