"""CsvDialect: delimiter, encoding and decimal point of a text file, found from its first bytes."""

from __future__ import annotations

import codecs
import csv
import re
from dataclasses import dataclass
from typing import Any

import pyarrow.csv
import pyarrow.dataset

from backcast.errors import OptionError

HEAD_BYTES = 2**20  # from which a dialect is found: as much as Arrow guesses types from
DELIMITERS = (",", ";", "\t", "|")
LINES = 100
COMMA_NUMBER, POINT_NUMBER = re.compile(r"[-+]?\d+,\d+"), re.compile(r"[-+]?\d+\.\d+")


@dataclass(frozen=True)
class CsvDialect:
    """How a text file with delimiters is written."""

    delimiter: str = ","
    encoding: str = "utf8"
    decimal_point: str = "."

    def read_options(self, **options: Any) -> pyarrow.csv.ReadOptions:
        """Return Arrow's options for reading."""
        return pyarrow.csv.ReadOptions(encoding=self.encoding, **options)

    def parse_options(self) -> pyarrow.csv.ParseOptions:
        """Return Arrow's options for parsing."""
        return pyarrow.csv.ParseOptions(delimiter=self.delimiter)

    def convert_options(self) -> pyarrow.csv.ConvertOptions:
        """Return Arrow's options for converting values."""
        return pyarrow.csv.ConvertOptions(decimal_point=self.decimal_point)

    def file_format(self) -> pyarrow.dataset.CsvFileFormat:
        """Return Arrow's description of such files."""
        return pyarrow.dataset.CsvFileFormat(
            read_options=self.read_options(),
            parse_options=self.parse_options(),
            convert_options=self.convert_options(),
        )


def check_dialect_options(delimiter: Any, encoding: Any) -> None:
    """Refuse a delimiter that is not one character, and an encoding that Python does not have."""
    if delimiter is not None and (not isinstance(delimiter, str) or len(delimiter) != 1 or delimiter in '\r\n".'):
        raise OptionError(f"delimiter is {delimiter!r}; it must be one character, such as ';'")
    if encoding is not None:
        try:
            codecs.lookup(encoding)
        except (LookupError, TypeError, ValueError):
            raise OptionError(f"encoding is {encoding!r}; give a name such as 'utf-8', 'latin-1' or 'utf-16'") from None


def find_dialect(head: bytes, delimiter: str | None = None, encoding: str | None = None) -> CsvDialect:
    r"""Return the dialect of a file that starts with these bytes; what is given is not guessed.

    >>> find_dialect(b"a;p\nmail;0,5\n")
    CsvDialect(delimiter=';', encoding='utf8', decimal_point=',')
    >>> find_dialect("ville,p\nOrl\xe9ans,0.5\n".encode("latin-1"))
    CsvDialect(delimiter=',', encoding='cp1252', decimal_point='.')
    """
    encoding = encoding or find_encoding(head)
    text = head.decode(encoding, errors="replace").removeprefix("\ufeff")
    # The last line may be cut off.
    lines = [line for line in text.splitlines()[: LINES + 1] if line.strip()]
    lines = lines[:-1] if len(lines) > 2 else lines
    if delimiter is None:
        delimiter = find_delimiter(lines)
    return CsvDialect(delimiter, encoding, "," if delimiter != "," and _has_decimal_commas(lines, delimiter) else ".")


def find_encoding(head: bytes) -> str:
    """Return the encoding: by a byte-order mark, by zero bytes of UTF-16, else UTF-8 if it fits, else Windows-1252."""
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16"
    for encoding, zeros in (("utf-16-le", head[1:1000:2]), ("utf-16-be", head[0:1000:2])):
        if len(zeros) > 4 and zeros.count(0) > 0.9 * len(zeros):
            return encoding
    try:
        codecs.getincrementaldecoder("utf-8")().decode(head, final=len(head) < HEAD_BYTES)
    except UnicodeDecodeError:
        pass
    else:
        return "utf8"
    try:
        head.decode("cp1252")
    except UnicodeDecodeError:
        return "latin-1"
    return "cp1252"


def find_delimiter(lines: list[str]) -> str:
    """Return the delimiter that divides all lines into as many fields as the header; a comma in doubt.

    >>> find_delimiter(["x|y", "1,5|2"]), find_delimiter(["x,y;z", "1,2;3"]), find_delimiter(["only one"])
    ('|', ',', ',')
    """
    for delimiter in DELIMITERS:
        try:
            counts = {len(fields) for fields in csv.reader(lines, delimiter=delimiter) if fields}
        except csv.Error:
            continue
        # Commas are tried first, so that another delimiter must divide where they do not.
        if len(counts) == 1 and max(counts) > 1:
            return delimiter
    # Lines of different lengths: the header decides.
    header = max(DELIMITERS, key=lambda delimiter: lines[0].count(delimiter)) if lines else ","
    return "," if lines and "," in lines[0] else header


def _has_decimal_commas(lines: list[str], delimiter: str) -> bool:
    try:
        fields = [field.strip() for row in csv.reader(lines[1:], delimiter=delimiter) for field in row]
    except csv.Error:
        return False
    has_commas = any(COMMA_NUMBER.fullmatch(field) for field in fields)
    return has_commas and not any(POINT_NUMBER.fullmatch(field) for field in fields)
