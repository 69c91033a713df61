"""Arguments of a script's command line that settings decide on."""

from __future__ import annotations

import pytest

from autoaccel.records.settings import Settings
from autoaccel.space.knobs.arguments import arguments_with, changes_samples, is_given, is_harmless, own_value


@pytest.mark.parametrize(
    ("line", "settings", "changed"),
    [
        ("", {"arg.batch-size": "64"}, "--batch-size 64"),
        ("--epochs 3", {"arg.batch-size": "64"}, "--epochs 3 --batch-size 64"),
        ("--batch-size 32 --lr 1", {"arg.batch-size": "64"}, "--batch-size 64 --lr 1"),
        ("--batch-size=32 --lr 1", {"arg.batch-size": "64"}, "--batch-size=64 --lr 1"),
        ("-b 32 --lr 1", {"arg.-b": "64"}, "-b 64 --lr 1"),
        ("-b 1 -b 2", {"arg.-b": "3"}, "-b 1 -b 3"),
        ("data=small epochs=3", {"arg.batch_size": "64"}, "data=small epochs=3 batch_size=64"),
        ("train.batch_size=32 --flag", {"arg.train.batch_size": "64"}, "train.batch_size=64 --flag"),
        ("--lr 1", {"arg.amp": True}, "--lr 1 --amp"),
        ("--lr 1 --amp", {"arg.amp": True}, "--lr 1 --amp"),
        ("--amp --lr 1", {"arg.amp": False}, "--lr 1"),
        ("--lr 1", {"arg.amp": False}, "--lr 1"),
        ("--lr 1", {"arg.batch-size": "(not given)", "loader.workers": 3}, "--lr 1"),
        ("--batch-size-val 9", {"arg.batch-size": "64"}, "--batch-size-val 9 --batch-size 64"),
        ("--offset -1", {"arg.offset": "2"}, "--offset 2"),
    ],
)
def test_a_command_line_has_the_values_of_the_settings(line: str, settings: Settings, changed: str) -> None:
    assert arguments_with(line.split(), settings) == tuple(changed.split())


def test_what_a_command_line_says_is_its_own_value() -> None:
    line = ["--batch-size", "32", "--amp", "width=8", "--lr=0.1"]
    assert [own_value(name, False, line) for name in ("batch-size", "width", "lr", "depth")] == [
        "32",
        "8",
        "0.1",
        "(not given)",
    ]
    assert own_value("amp", True, line) is True and own_value("fast", True, line) is False
    assert is_given("amp", line) and is_given("lr", line) and not is_given("depth", line)


def test_only_names_that_say_who_loads_are_harmless() -> None:
    assert all(is_harmless(name) for name in ("num-workers", "num_workers", "--workers", "pin_memory"))
    assert not any(is_harmless(name) for name in ("batch-size", "j", "workers-lr", "amp", "seed"))
    assert changes_samples({"arg.batch-size": "3"}) and not changes_samples({"arg.workers": "3", "loader.workers": 1})
