from __future__ import annotations

from pathlib import Path

from benchmarks.checks.versions import read_report


def test_tests_that_failed_are_named(tmp_path: Path) -> None:
    report = tmp_path / "tests.xml"
    report.write_text(  # as pytest writes it, shortened
        '<testsuites><testsuite errors="1" failures="1" skipped="1" tests="4">'
        '<testcase classname="tests.a" name="test_one" time="0.1" />'
        '<testcase classname="tests.a" name="test_two"><failure message="no">...</failure></testcase>'
        '<testcase classname="tests.b" name="test_three"><skipped message="no">...</skipped></testcase>'
        '<testcase classname="tests.b" name="test_four[1]"><error message="no">...</error></testcase>'
        "</testsuite></testsuites>"
    )
    failed = ["tests.a::test_two", "tests.b::test_four[1]"]
    assert read_report(report) == {"passed": 1, "skipped": 1, "failed": failed}
