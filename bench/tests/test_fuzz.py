"""The record of fuzzing, and the checks of files of full size; the fuzzer itself has its own environment."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.fuzz.__main__ import DESCRIPTIONS, FuzzResult, fuzz_blocks, parse_output
from bench.fuzz.full_size import CASES, Reading, find_faults, read_in_process
from bench.fuzz.targets import TARGETS

CASE = replace(CASES["columns"], megabytes=100.0, seconds=10.0)
FINE = Reading("refused", "log.parquet: too wide", megabytes=50.0, seconds=1.0)


@pytest.mark.parametrize(
    ("change", "faults"),
    [
        ({}, []),
        ({"outcome": "read"}, ["it should be refused, and is read: log.parquet: too wide"]),
        ({"outcome": "broken"}, ["it should be refused, and is broken: log.parquet: too wide"]),
        ({"megabytes": 101.0}, ["101 MB, and 100 are allowed"]),
        ({"seconds": 11.0}, ["11 s, and 10 are allowed"]),
        ({"message": "y" * 5_001}, ["a message of 5,001 characters"]),
        ({"message": "two\nlines"}, ["a message of 9 characters"]),
    ],
)
def test_faults_are_described(change: dict[str, object], faults: list[str]) -> None:
    assert find_faults(CASE, FINE._replace(**change)) == faults  # type: ignore[arg-type]


def test_a_file_is_written_and_read_in_new_processes() -> None:
    case = CASES["settings"]
    reading = read_in_process(case)
    assert find_faults(case, reading) == []
    assert "larger than 4,194,304 bytes" in reading.message


def test_every_target_is_fuzzed_and_the_page_lists_findings() -> None:
    assert DESCRIPTIONS.keys() == TARGETS.keys()
    results = [FuzzResult("spec", 7_665, ["spec-crash-12"], ""), FuzzResult("saved", 0, [], "no such module")]
    text = "\n".join(fuzz_blocks(60, results, {CASE: FINE, CASES["settings"]: FINE._replace(outcome="read")}))
    assert "| spec | policies, evaluators and intervals in words | 7,665 | 60 | spec-crash-12 |" in text
    assert "| saved | saved results | 0 | 60 | ended early: no such module |" in text
    assert "| Parquet, a million columns | refused | 50 MB | 100 MB | 1.0 | 10 | yes |" in text
    assert "| it should be refused, and is read: log.parquet: too wide |" in text


def test_output_of_the_fuzzer_is_parsed() -> None:
    output = "INFO: seed\nTypeError: no\nstat::number_of_executed_units: 12\nstat::average_exec_per_sec: 3\n"
    assert parse_output(output) == (12, "TypeError: no")
    assert parse_output("") == (0, "no message")
