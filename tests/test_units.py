"""Durations, sizes and drops, as people type and read them."""

from __future__ import annotations

import pytest

from autoaccel.errors import BadRequestError
from autoaccel.units import (
    check_range,
    excerpt,
    format_bytes,
    format_duration,
    format_numbers,
    parse_duration,
    parse_max_drop,
    parse_numbers,
    round_duration,
    two_digits,
)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("90s", 90), ("10m", 600), ("1h30m", 5400), ("1.5 min", 90), ("250ms", 0.25)]
)
def test_durations_are_read_as_typed(text: str, seconds: float) -> None:
    assert parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize("text", ["", "fast", "10x", "m", "-5s", "0", "nan", "inf", "5 s later"])
def test_what_is_no_duration_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="must be a time above zero"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (0.9999, "1.0 s"), (12.34, "12.3 s"), (59.97, "1 min 00 s"), (245, "4 min 05 s"),
     (7800, "2 h 10 min"), (259200, "3 d 0 h"), (-3.0, "-3.0 s")],
)  # fmt: skip
def test_durations_are_shown_in_units_that_matter(seconds: float, text: str) -> None:
    assert format_duration(seconds) == text


def test_two_digits_are_enough_but_none_before_the_point_is_lost() -> None:
    assert [two_digits(number) for number in (0.0381, 1.66, 99.7, -100.0, 1234.5)] == [
        "0.038",
        "1.7",
        "100",
        "-100",
        "1234",
    ]


def test_sizes_are_shown_in_binary_units() -> None:
    assert [format_bytes(size) for size in (512, 1536, 3 << 30, 5 << 40)] == ["512 B", "1.5 KiB", "3 GiB", "5 TiB"]


def test_a_drop_is_a_share_or_an_amount() -> None:
    assert parse_max_drop("0.5%") == (pytest.approx(0.005), True)
    assert parse_max_drop("0.005") == (0.005, False)
    assert parse_max_drop("0") == (0.0, False)


@pytest.mark.parametrize("text", ["", "%", "-1%", "half", "nan"])
def test_what_is_no_drop_is_refused(text: str) -> None:
    with pytest.raises(BadRequestError, match="--max-drop"):
        parse_max_drop(text)


@pytest.mark.parametrize(
    ("numbers", "text"), [((), ""), ((5,), "5"), ((0, 1, 2, 8, 9, 11), "0-2,8-9,11"), ((0, 2, 4), "0,2,4")]
)
def test_cpus_are_listed_as_linux_does(numbers: tuple[int, ...], text: str) -> None:
    assert format_numbers(numbers) == text


@pytest.mark.parametrize(
    ("seconds", "text"), [(4.0, "10s"), (81.0, "90s"), (121.0, "3m"), (7200.0, "120m"), (7300.0, "3h")]
)
def test_a_duration_is_rounded_up_to_what_people_type(seconds: float, text: str) -> None:
    assert round_duration(seconds) == text
    assert parse_duration(text) >= seconds


def test_a_duration_that_nobody_waits_for_is_refused() -> None:
    assert parse_duration("1000000000") == 1e9
    for text in ("1000000001", "99999999999999", "1e308", "9" * 400 + "h"):
        with pytest.raises(BadRequestError, match="a duration must be"):
            parse_duration(text)


@pytest.mark.parametrize("text", ["0-8191", "8191", "0-2, 5"])
def test_a_list_of_cpus_is_read_as_linux_writes_it(text: str) -> None:
    assert format_numbers(parse_numbers(text)) == text.replace(" ", "")


NO_LISTS = ["", "0-8192", "8192", "0-999999999999", "1,1", "0-3,2", "-1", "0--1", "1-", "\u0663"]
NO_LISTS += ["9" * 5000, "0," * 30_000]


@pytest.mark.parametrize("text", NO_LISTS)
def test_what_no_computer_has_is_no_list_of_cpus(text: str) -> None:
    with pytest.raises(ValueError, match=r"a CPU has a number|a list of CPUs"):
        parse_numbers(text)


@pytest.mark.parametrize(
    ("found", "shown"),
    [
        ("word", "word"),
        ("a\x1b[2J\n", "'a\\x1b[2J\\n'"),
        ("x" * 1000, "x" * 60 + "... (1,000 characters)"),
        ([1, "a"], "[1, 'a']"),
    ],
)
def test_what_was_found_is_shown_in_one_short_line(found: object, shown: str) -> None:
    assert excerpt(found) == shown
    assert excerpt(10**5000) == "int that is too long to show"  # Python writes no more than 4,300 digits


def test_a_number_is_within_its_range_or_the_sentence_says_which() -> None:
    check_range("--pairs", 3, 3, 5)
    check_range("--pairs", 5, 3, 5)
    wrong = ((2, "at least 3, as fewer prove nothing, got 2"), (6, "at most 5, got 6"), (float("nan"), "got nan"))
    for number, said in wrong:
        with pytest.raises(BadRequestError, match=f"--pairs must be .*{said}"):
            check_range("--pairs", number, 3, 5, "as fewer prove nothing")
