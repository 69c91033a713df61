"""The options of `tune` on the command line, as they are declared in records/options.py."""

from __future__ import annotations

import argparse
from typing import Any

from autoaccel.records.option import Option
from autoaccel.records.options import OPTIONS


def add_options(parser: argparse.ArgumentParser) -> None:
    """Declare each option of a tuning run."""
    for option in OPTIONS:
        parser.add_argument(option.flag, dest=option.name, **_described(option))


def _described(option: Option) -> dict[str, Any]:
    text = option.help_with_default + ("; repeatable" if option.is_repeated else "")
    described: dict[str, Any] = {"help": text.replace("%", "%%")}  # argparse fills in what follows a %
    if option.is_switch:
        return {**described, "action": "store_true"}
    if option.is_repeated:
        return {**described, "action": "append", "default": list(option.default), "metavar": option.metavar}
    if option.choices:
        return {**described, "choices": option.choices, "default": option.default}
    # argparse's own metavar is made of dest, which need not be how the flag is spelled.
    metavar = option.metavar or option.flag.removeprefix("--").upper()
    return {**described, "type": option.parse, "default": option.default, "metavar": metavar}
