"""Write finished sweeps as one HTML page: `python -m src.report [PATH] -o report.html`. Loads no torch."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from src import console, paths
from src.analysis import charts
from src.analysis.page import PageError, page_of
from src.analysis.selection import SelectionError, condition, select
from src.analysis.summary import summarize
from src.analysis.views import summaries_folder

_EXAMPLES = """\
examples:
  python -m src.report                                     the newest sweep
  python -m src.report --all -o everything.html            every sweep, in one page
  python -m src.report --where optimizer=adam -o adam.html --figures figures
  python -m src.report experiments/results/h200_modes.parquet -o modes.html

The page holds all it needs and loads nothing from a network. exit code: 0; 1 when a file could not be
read; 2 when there is nothing to report or no place to write.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Write the page and the figures asked for, and return the exit code."""
    arguments = _parser().parse_args(argv)
    path: Path = arguments.path or paths.output_dir() / "runs"
    try:
        where = [condition(asked) for asked in arguments.where]
        selection = select(path, sweep=arguments.sweep, everything=arguments.all, where=where)
        summary = summarize(selection.rows)
        drawn = charts.charts_of(summary)
        page = page_of(summary, selection.rows, () if arguments.no_charts else drawn, arguments.where)
        figures = charts.files(drawn) if arguments.figures else {}
    except (SelectionError, PageError, charts.ChartError) as error:
        return console.refuse(str(error))
    except OSError as error:
        return console.refuse(f"cannot read {error.filename or path}: {error.strerror or error}")
    out: Path = arguments.out or summaries_folder(path, summary, everything=arguments.all) / "report.html"
    if out.is_dir():
        return console.refuse(f"-o must be a file: {out} is a folder")
    written = str(out)
    try:
        console.write(out.parent, {out.name: page.encode()})
    except OSError as error:
        return console.refuse(f"cannot write {out}: {error.strerror or error}")
    if arguments.figures:
        try:
            console.write(arguments.figures, figures)
        except OSError as error:
            return console.refuse(f"cannot write into {arguments.figures}: {error.strerror or error}")
        written += f" and {len(figures)} figures in {arguments.figures}"
    code = console.tell_unreadable(selection.unreadable)
    console.tell(f"wrote {written}")
    return code


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m src.report",
        description="Write measured runs as one HTML page with a table to sort and filter, and charts.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "path",
        nargs="?",
        type=console.path,
        metavar="PATH",
        help="folder of runs, folder of one sweep, or one Parquet file (default: outputs/runs)",
    )
    which = parser.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="all sweeps, not the newest alone")
    which.add_argument("--sweep", metavar="ID", help="the sweep of this name")
    parser.add_argument(
        "--where",
        action="append",
        default=[],
        metavar="AXIS=VALUE",
        help="only rows with this value, or with one of VALUE,VALUE; may be repeated, all must hold",
    )
    parser.add_argument(
        "-o",
        "--out",
        type=console.path,
        metavar="FILE",
        help="the page (default: summaries/SWEEP/report.html, or summaries/all/report.html, beside runs)",
    )
    parser.add_argument(
        "--figures",
        type=console.path,
        metavar="DIR",
        help="also write each chart into this folder as .png, .svg and .pdf, as wide as a column of a paper",
    )
    parser.add_argument("--no-charts", action="store_true", help="a page of tables alone, 1 MB smaller")
    return parser


if __name__ == "__main__":
    sys.exit(console.run(main))
