"""The table of an experiment in numbers: CSV with one line for each number or word."""

import csv
import io
from typing import Any

from src.analysis.contents import CONTENTS, Content
from src.analysis.experiments import Experiment
from src.analysis.placing import Place, place
from src.analysis.spreadsheet import guarded
from src.analysis.summary import Summary

_Row = dict[str, Any]


def to_csv(summary: Summary, experiment: Experiment) -> str:
    """Return the table in tidy form: one line for each number or word, in the units of `summary.csv`.

    Nothing is rounded. A text that a spreadsheet would take for a formula begins with an apostrophe.
    """
    placed = place(summary, experiment)
    spec = placed.spec
    across = [spec.columns] if spec.columns else []
    titles = [*placed.label_titles, *across, *_FIELDS]
    buffer = io.StringIO()
    writer = csv.DictWriter(buffer, titles, lineterminator="\n")
    writer.writeheader()
    for line in placed.lines:
        for group, here in line.places.items():
            place_of = dict(zip(placed.label_titles, line.labels, strict=True))
            place_of |= dict.fromkeys(across, group)
            for name in spec.cells:
                row: _Row = {**place_of, **_tidy(CONTENTS[name], here)}
                writer.writerow({key: guarded(value) for key, value in row.items()})
    return buffer.getvalue()


_FIELDS = (
    *("content", "unit", "value", "low", "high", "words"),
    *("published", "deviation", "deviation_low", "deviation_high", "label", "hardware", "source"),
    *("runs", "runs_used", "reasons", "warnings"),
)


def _tidy(content: Content, here: Place) -> _Row:
    cell, published = here.cell, here.published.get(content.name)
    number = content.number(cell) if content.number and cell else None
    row: _Row = {"content": content.name, "unit": content.unit}
    if cell is not None:
        row |= {
            "words": content.words(cell) if content.words else None,
            "runs": len(cell.outcomes),
            "runs_used": cell.used,
            "reasons": "; ".join(cell.reasons),
            "warnings": "; ".join(cell.warnings),
        }
    if number is not None:
        row |= {"value": number.value, "low": number.low, "high": number.high}
        if content.kind == "count":
            row |= {key: int(row[key]) for key in ("value", "low", "high") if row[key] is not None}
    if published is not None:
        ends = (number.value, number.low, number.high) if number else (None, None, None)
        row |= {"published": published.value}
        row |= {
            f"deviation{end}": published.deviation(value)
            for end, value in zip(("", "_low", "_high"), ends, strict=True)
        }
        reference = published.reference
        row |= {"label": reference.label, "hardware": reference.hardware, "source": reference.source}
    return row
