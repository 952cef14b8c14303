"""A summary as one HTML page that needs nothing else: no network, no server, no other file.

Jinja escapes what a row says; the table and the charts get it as data, which the page's own script shows
as text. The page allows no script but its own, by their hashes, and no connection at all.
"""

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from src.analysis import format as fmt
from src.analysis import html, page_facts, page_table
from src.analysis.charts import VEGA_LITE, config
from src.analysis.charts_look import Chart
from src.analysis.cut import LINES, cut
from src.analysis.grid import document_of
from src.analysis.matrix import MatrixError, matrix_of
from src.analysis.rows import Row
from src.analysis.summary import Summary

_FILES = Path(__file__).with_name("page_files")

ROWS_AT_A_TIME = 100
"""Cells that the table shows at once."""

MOST_PRINTED = 2000
"""Cells that are printed at most: about sixty pages."""


class PageError(ValueError):
    """The page cannot be made; the message says what it lacks."""


def page_of(
    summary: Summary, rows: Sequence[Row], charts: Sequence[Chart], filters: Sequence[str] = ()
) -> str:
    """Return the page; equal rows give the same one.

    Args:
        summary: of `rows`.
        rows: with the columns `cells.ROW_COLUMNS`; facts of the machine come from them.
        charts: to be shown; none leaves their section out.
        filters: the conditions that the rows met.

    Raises:
        PageError: there are charts and vl-convert, which draws them, is not installed.
    """
    from jinja2 import Environment, FileSystemLoader, StrictUndefined  # noqa: PLC0415 - not needed elsewhere

    document = document_of(summary, filters, LINES)
    # Without its first table, that of the cells: the page has one of its own.
    document = cut(replace(document, grids=document.grids[1:]), LINES, "summary.csv of src.aggregate", "")
    table = page_table.table_of(summary)
    scripts = [_text("page.js"), *([_bundle(), _text("charts.js")] if charts else [])]
    environment = Environment(
        loader=FileSystemLoader(_FILES), autoescape=True, undefined=StrictUndefined, trim_blocks=True
    )
    environment.filters["plain"] = fmt.plain
    environment.filters["listed"] = lambda items: fmt.listed(items, most=12)
    return environment.get_template("page.html").render(
        title=document.title,
        head=document.head,
        rows=len(rows),
        cells=len(summary.cells),
        table=table,
        at_a_time=ROWS_AT_A_TIME,
        data=_data({**table, "atATime": ROWS_AT_A_TIME, "mostPrinted": MOST_PRINTED}),
        verdicts=page_facts.verdicts(summary),
        others=_safe(html.fragment(document.grids, document.footnotes)),
        remarks=document.remarks,
        charts=charts,
        chart_data=_data(_chart_data(charts)),
        matrix=_safe(_matrix(summary)) if any(chart.name == "recompiles" for chart in charts) else "",
        machines=page_facts.machines(rows),
        failures=page_facts.failures(summary),
        warnings=page_facts.warnings(summary),
        origin=page_facts.origin(rows),
        style=_safe(_text("page.css")),
        policy=_policy(scripts),
        script=_safe(scripts[0]),
        chart_scripts=[_safe(script) for script in scripts[1:]],
    )


def _chart_data(charts: Sequence[Chart]) -> dict[str, Any]:
    return {
        "light": config(dark=False),
        "dark": config(dark=True),
        "specs": {chart.name: chart.spec for chart in charts},
    }


def _matrix(summary: Summary) -> str:
    """Return the recompiles as a table, which says in words what the heat map shows."""
    try:
        document = matrix_of(summary)
    except MatrixError:
        return ""
    return html.fragment(document.grids, document.footnotes, document.legend, name="matrix")


def _data(value: Mapping[str, Any]) -> Any:
    """Return JSON for a script element: nothing in it can end that element or start a comment."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return _safe(text)


def _policy(scripts: Sequence[str]) -> str:
    """Return a content security policy that allows these scripts alone, and styles of the page's own."""
    hashes = (base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() for script in scripts)
    allowed = " ".join(f"'sha256-{each}'" for each in hashes)
    return (
        f"default-src 'none'; script-src {allowed}; style-src 'unsafe-inline'; img-src data:; "
        "base-uri 'none'; form-action 'none'"
    )


def _safe(text: str) -> Any:
    from markupsafe import Markup  # noqa: PLC0415 - comes with Jinja

    return Markup(text)  # noqa: S704 - the package's own files, and what `html` and `_data` escaped


@cache
def _text(name: str) -> str:
    return (_FILES / name).read_text(encoding="utf-8").strip()


@cache
def _bundle() -> str:
    """Return Vega, Vega-Lite and Vega-Embed as one script."""
    try:
        import vl_convert  # noqa: PLC0415 - an optional dependency
    except ImportError:
        raise PageError(
            "charts need vl-convert-python, which is not installed: pip install 'stepsweep[plot]', "
            "or leave them out with --no-charts"
        ) from None
    bundle: str = vl_convert.javascript_bundle(vl_version=VEGA_LITE)  # type: ignore[call-arg] # its stub has no default
    return bundle.replace("</script", r"<\/script").replace("<!--", r"<\!--").strip()
