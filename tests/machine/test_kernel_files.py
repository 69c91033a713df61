from __future__ import annotations

import pytest

from autoaccel.machine.kernel_files import parse_cpu_list, read_cpu_list, read_fields, read_integer, read_text


@pytest.mark.parametrize(
    ("text", "numbers"),
    [("0-2,5", (0, 1, 2, 5)), ("7", (7,)), ("", ()), ("8-9,0", (0, 8, 9)), ("0-1\n", (0, 1))],
)
def test_cpu_lists_include_both_ends(text, numbers):
    assert parse_cpu_list(text) == numbers


def test_a_text_that_is_no_cpu_list_is_refused():
    with pytest.raises(ValueError, match="a CPU has a number from 0 to 8191, got all"):
        parse_cpu_list("all")


def test_what_cannot_be_read_is_not_there(tmp_path):
    # A folder stands for all that fails in another way than by not being there.
    for path in (tmp_path / "missing", tmp_path):
        assert read_text(path) is None
        assert read_integer(path) is None
        assert read_cpu_list(path) == ()


@pytest.mark.parametrize(("text", "number"), [("48\n", 48), ("0", 0), ("-1", None), ("max", None), ("", None)])
def test_a_number_is_whole_and_not_negative(tmp_path, text, number):
    (tmp_path / "file").write_text(text)
    assert read_integer(tmp_path / "file") == number


def test_values_may_hold_colons_and_lines_without_one_say_nothing():
    assert read_fields("model name\t: a: b\n\nflags\t\t:\nnoise") == {"model name": "a: b", "flags": ""}
