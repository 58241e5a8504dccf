"""Parts of the report's page: sections of paragraphs, charts, tables and lists, which the template renders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, TypeAlias


@dataclass(frozen=True)
class Cell:
    """A cell of a table: its text, smaller lines below it, and a grade that colours and marks the text.

    An empty text is shown as a dash, "does not apply". The text of a number is not broken.
    """

    text: str
    notes: tuple[str, ...] = ()
    grade: str = ""
    is_number: bool = False


def number(text: str, *notes: str) -> Cell:
    """Return a cell with a number, and lines below it unless they are empty.

    >>> number("0.5", "0.4 to 0.6", "")
    Cell(text='0.5', notes=('0.4 to 0.6',), grade='', is_number=True)
    """
    # a percent sign stays on the line of its number
    return Cell(text, tuple(note.replace(" %", "\N{NO-BREAK SPACE}%") for note in notes if note), is_number=True)


@dataclass(frozen=True)
class Table:
    """A table whose first column names the rows; ``folded`` is the title under which it is folded away."""

    kind: ClassVar[str] = "table"
    name: str
    caption: str
    heads: Sequence[str]
    rows: Sequence[Sequence[str | Cell]]
    folded: str = ""
    is_matrix: bool = False


@dataclass(frozen=True)
class Chart:
    """An Altair chart with its caption; the name is the id of its element."""

    kind: ClassVar[str] = "chart"
    folded: ClassVar[str] = ""
    name: str
    chart: Any
    caption: str

    @property
    def spec(self) -> dict[str, Any]:
        """The Vega-Lite specification, transparent so that the page's background shows."""
        return {**self.chart.to_dict(), "background": None}


@dataclass(frozen=True)
class Paragraph:
    """A paragraph, graded or not; ``code`` is a command that is shown as one."""

    kind: ClassVar[str] = "paragraph"
    folded: ClassVar[str] = ""
    text: str
    grade: str = ""
    is_note: bool = False
    code: str = ""

    @property
    def as_cell(self) -> Cell:
        """The text with its grade."""
        return Cell(self.text, grade=self.grade)


@dataclass(frozen=True)
class Heading:
    """The title of a part of a section."""

    kind: ClassVar[str] = "heading"
    folded: ClassVar[str] = ""
    text: str


@dataclass(frozen=True)
class Items:
    """A numbered list of cells, the first the most important."""

    kind: ClassVar[str] = "items"
    folded: ClassVar[str] = ""
    cells: Sequence[Cell]


@dataclass(frozen=True)
class Terms:
    """Terms with their texts, folded away under a title unless it is empty."""

    kind: ClassVar[str] = "terms"
    rows: Sequence[tuple[str, str]]
    folded: str = ""


Block: TypeAlias = Table | Chart | Paragraph | Heading | Items | Terms


@dataclass(frozen=True)
class Section:
    """A section of the page: its id, the text of the link to it, its title and its content."""

    name: str
    link: str
    title: str
    blocks: Sequence[Block]

    def charts(self) -> Iterator[Chart]:
        """Yield the charts of the section."""
        yield from (block for block in self.blocks if isinstance(block, Chart))
