"""Words that the documentation and the source do not use: metaphors and personifications that readers must decode."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
WORDS = [
    *("nobody", "somebody", "whoever", "diary", "crew", "doctor", "pupil", "lessons?", "twins?"),
    *("told", "tells", "believes", "had enough", "the door"),
]
# Titles of papers and names in which a word of the list is right, as they stand in the text.
EXCEPTIONS: list[str] = []


def unwanted_words(text: str) -> list[str]:
    for exception in EXCEPTIONS:
        text = text.replace(exception, "")
    return [match.group() for match in re.finditer(rf"\b(?:{'|'.join(WORDS)})\b", text, re.IGNORECASE)]


@pytest.mark.parametrize(
    "path",
    sorted([*ROOT.glob("src/**/*.py"), *ROOT.glob("docs/**/*.md")]),
    ids=lambda path: path.relative_to(ROOT).as_posix(),
)
def test_no_file_uses_a_word_of_the_list(path: Path) -> None:
    assert unwanted_words(path.read_text(encoding="utf-8")) == []


def test_words_are_recognised() -> None:
    assert unwanted_words("Nobody told the doctor; lessons. Untold doctoral twinkle.") == [
        *("Nobody", "told", "doctor", "lessons"),
    ]
