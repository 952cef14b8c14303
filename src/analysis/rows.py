"""Rows by the column: what one row is to a reader, and all rows at once to a program.

A hundred thousand rows of a hundred columns are too many Python objects to make them all. A column is
turned into Python values when it is first asked for, and equal texts are then one object. Knows nothing of
files or of what the columns mean.
"""

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, overload

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Row = Mapping[str, Any]

Numbers = npt.NDArray[np.float64]
"""A column of numbers, NaN where a row has none."""

RARELY_READ = ("config",)
"""Columns of long texts that almost all differ and are read of few rows: never kept as Python values."""


class Rows(Sequence[Row]):
    """Rows, each of them a mapping of its columns; `column` and `numbers` give all rows of one column."""

    def __init__(self, table: pa.Table, order: npt.NDArray[np.int64] | None = None) -> None:
        """Take the rows of `table` at the places `order`, all as they stand when None."""
        self._table = table
        self._order = order
        self._columns: dict[str, list[Any]] = {}

    @classmethod
    def of(cls, rows: Sequence[Row]) -> "Rows":
        """Return `rows` by the column, whatever they are."""
        return rows if isinstance(rows, Rows) else _Given(rows)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(self._table.column_names)

    def column(self, name: str) -> list[Any]:
        """Return the values of a column in the order of the rows; not to be changed.

        Raises:
            KeyError: there is no such column.
        """
        if name not in self._columns:
            self._columns[name] = _values(self._arrow(name))
        return self._columns[name]

    def numbers(self, name: str) -> Numbers:
        """Return a column of numbers as an array, NaN where a row has none.

        Raises:
            KeyError: there is no such column.
        """
        array: Numbers = self._arrow(name).cast(pa.float64()).to_numpy(zero_copy_only=False)
        return array

    def value(self, name: str, index: int) -> Any:
        """Return what the row of this number has in a column."""
        if name in RARELY_READ:
            place = index if self._order is None else int(self._order[index])
            return self._table.column(name)[place].as_py()
        return self.column(name)[index]

    def _arrow(self, name: str) -> pa.Array:
        whole = self._table.column(name).combine_chunks()
        return whole if self._order is None else whole.take(pa.array(self._order))

    def __len__(self) -> int:
        """Return the number of rows."""
        return len(self._table) if self._order is None else len(self._order)

    @overload
    def __getitem__(self, index: int) -> Row: ...
    @overload
    def __getitem__(self, index: slice) -> Sequence[Row]: ...
    def __getitem__(self, index: int | slice) -> Row | Sequence[Row]:
        """Return one row, or a list of some."""
        if isinstance(index, slice):
            return [_View(self, i) for i in range(*index.indices(len(self)))]
        place = index + len(self) if index < 0 else index
        if not 0 <= place < len(self):
            raise IndexError(index)
        return _View(self, place)

    def __iter__(self) -> Iterator[Row]:
        """Return the rows in their order."""
        return (_View(self, i) for i in range(len(self)))


class _Given(Rows):
    """Rows that are there as mappings, such as those of one run that has just ended."""

    def __init__(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self._columns = {}

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(self._rows[0]) if self._rows else ()

    def column(self, name: str) -> list[Any]:
        if name not in self._columns:
            self._columns[name] = [row[name] for row in self._rows]
        return self._columns[name]

    def numbers(self, name: str) -> Numbers:
        return np.array([np.nan if v is None else v for v in self.column(name)], dtype=np.float64)

    def value(self, name: str, index: int) -> Any:
        return self._rows[index][name]

    def __len__(self) -> int:
        return len(self._rows)


class _View(Mapping[str, Any]):
    """One row: its number among the rows, and nothing else."""

    __slots__ = ("_index", "_rows")

    def __init__(self, rows: Rows, index: int) -> None:
        self._rows = rows
        self._index = index

    def __getitem__(self, name: str) -> Any:
        try:  # a column that is there already, which is what most are asked for
            return self._rows._columns[name][self._index]
        except KeyError:
            return self._rows.value(name, self._index)

    def __iter__(self) -> Iterator[str]:
        return iter(self._rows.names)

    def __len__(self) -> int:
        return len(self._rows.names)

    def __repr__(self) -> str:
        return repr(dict(self))


def _values(array: pa.Array) -> list[Any]:
    """Return what `array.to_pylist()` does, many times faster and with one object for equal texts."""
    kind = array.type
    if pa.types.is_string(kind):
        return _texts(array)
    if pa.types.is_list(kind):
        return _lists(array)
    if pa.types.is_floating(kind) or pa.types.is_integer(kind) or pa.types.is_boolean(kind):
        filled = array.fill_null(False if pa.types.is_boolean(kind) else 0) if array.null_count else array
        return _with_nulls(filled.to_numpy(zero_copy_only=False).tolist(), array)
    values: list[Any] = array.to_pylist()
    return values


def _texts(array: pa.Array) -> list[Any]:
    encoded = array.dictionary_encode()
    texts = [*encoded.dictionary.to_pylist(), None]
    places = encoded.indices.fill_null(len(texts) - 1).to_numpy().tolist()
    return list(map(texts.__getitem__, places))


def _lists(array: pa.Array) -> list[Any]:
    values, ends = _values(array.values), array.offsets.to_numpy().tolist()
    return _with_nulls([values[a:b] for a, b in pairwise(ends)], array)


def _with_nulls(values: list[Any], array: pa.Array) -> list[Any]:
    if array.null_count:
        for place in np.flatnonzero(pc.is_null(array).to_numpy(zero_copy_only=False)).tolist():
            values[place] = None
    return values
