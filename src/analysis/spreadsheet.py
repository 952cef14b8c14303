"""Tables as files for other programs: Parquet, and CSV of which no name is run as a formula.

A field that begins with one of `= + - @`, a tab or a carriage return is taken for a formula by
spreadsheets, quoted or not (OWASP, CSV Injection). Such a text gets an apostrophe in front, which
they show as text. A number, and a dash alone, stay as they are.
"""

import io
import re
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyarrow import csv

_NUMBER = r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?"
_STARTS = r"[=+\-@\t\r\n\x{FF1D}\x{FF0B}\x{FF0D}\x{FF20}]"  # the last four: full-width, taken alike
_FORMULA = re.compile(re.sub(r"\\x\{(\w+)\}", r"\\u\1", _STARTS))


def guarded(value: Any) -> Any:
    """Return a value for a CSV field; a text that would be a formula begins with an apostrophe."""
    if not isinstance(value, str) or not _FORMULA.match(value):
        return value
    return value if value == "-" or re.fullmatch(_NUMBER, value) else f"'{value}"


def to_csv(table: pa.Table) -> str:
    """Return a table of numbers and names as CSV; null is an empty field."""
    columns = [_guarded(column) if pa.types.is_string(column.type) else column for column in table.columns]
    buffer = io.BytesIO()
    csv.write_csv(pa.table(columns, names=table.column_names), buffer)
    return buffer.getvalue().decode()


def _guarded(column: pa.ChunkedArray) -> pa.ChunkedArray:
    formula = pc.match_substring_regex(column, f"^{_STARTS}")
    harmless = pc.match_substring_regex(column, f"^({_NUMBER}|-)$")
    bare = pc.or_(pc.invert(formula), harmless)
    return pc.if_else(bare, column, pc.binary_join_element_wise("'", column, ""))


def to_parquet(table: pa.Table) -> bytes:
    """Return a table as a Parquet file, with its names as they are."""
    buffer = pa.BufferOutputStream()
    pq.write_table(table, buffer)
    content: bytes = buffer.getvalue().to_pybytes()
    return content
