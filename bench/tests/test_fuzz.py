"""The record of fuzzing, and the judge of files at full size; the fuzzer itself has an environment of its own."""

from __future__ import annotations

from dataclasses import replace

import pytest

from bench.fuzz import all as everything
from bench.fuzz.all import Fuzzed, page
from bench.fuzz.full_size import CASES, Tried, faults, tried
from bench.fuzz.targets import TARGETS

CASE = replace(CASES["columns"], megabytes=100.0, seconds=10.0)
FINE = Tried("refused", "log.parquet: too wide", megabytes=50.0, seconds=1.0)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({}, []),
        ({"outcome": "read"}, ["it should be refused, and is read: log.parquet: too wide"]),
        ({"outcome": "broken"}, ["it should be refused, and is broken: log.parquet: too wide"]),
        ({"megabytes": 101.0}, ["101 MB, and 100 are allowed"]),
        ({"seconds": 11.0}, ["11 s, and 10 are allowed"]),
        ({"words": "y" * 5_001}, ["a message of 5,001 signs"]),
        ({"words": "two\nlines"}, ["a message of 9 signs"]),
    ],
)
def test_what_is_not_as_it_should_be_is_said(change: dict[str, object], words: list[str]) -> None:
    assert faults(CASE, FINE._replace(**change)) == words  # type: ignore[arg-type]


def test_a_file_is_made_and_read_in_processes_of_their_own() -> None:
    case = CASES["settings"]
    found = tried(case)
    assert faults(case, found) == []
    assert "larger than 4,194,304 bytes" in found.words


def test_every_target_is_fuzzed_and_the_page_says_what_was_found() -> None:
    assert list(everything.WORDS) == sorted(TARGETS, key=list(everything.WORDS).index)
    found = [Fuzzed("spec", 7_665, ["spec-crash-12"], ""), Fuzzed("saved", 0, [], "no such module")]
    text = page(60, found, {CASE: FINE, CASES["settings"]: FINE._replace(outcome="read")})
    assert "| spec | policies, evaluators and intervals in words | 7,665 | 60 | spec-crash-12 |" in text
    assert "| saved | saved results | 0 | 60 | ended early: no such module |" in text
    assert "| Parquet, a million columns | refused | 50 MB | 100 MB | 1.0 | 10 | yes |" in text
    assert "| it should be refused, and is read: log.parquet: too wide |" in text


def test_the_fuzzer_is_understood() -> None:
    said = "INFO: seed\nTypeError: no\nstat::number_of_executed_units: 12\nstat::average_exec_per_sec: 3\n"
    assert everything.executions(said) == 12
    assert everything.executions("nothing") == 0
    assert everything.last_words(said) == "TypeError: no"
    assert everything.last_words("") == "no message"
