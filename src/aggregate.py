"""Summarise finished sweeps: `python -m src.aggregate [PATH]`. Loads neither torch nor Hydra."""

import argparse
import re
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from src import console, paths
from src.analysis import charts, experiments, matrix, paper, placing, spreadsheet, tidy, why
from src.analysis.cut import LINES, cut, lines
from src.analysis.experiments import Experiment, ExperimentError
from src.analysis.grid import document_of
from src.analysis.numbers import to_table
from src.analysis.selection import Selection, SelectionError, condition, select
from src.analysis.summary import Summary, summarize
from src.analysis.views import ENDS, FORMATS, View, summaries_folder

_EXAMPLES = """\
examples:
  python -m src.aggregate                                  the newest sweep
  python -m src.aggregate --all                            every sweep, in one table
  python -m src.aggregate --sweep 2025-03-01_12-00-00      one sweep by its name
  python -m src.aggregate --where optimizer=adam,sgd --where compile_mode=default
  python -m src.aggregate outputs/runs/sweep=NAME --format latex > table.tex
  python -m src.aggregate --table compiling_optimizer --format latex
  python -m src.aggregate --matrix recompiles              optimizers and learning rates against schedulers
  python -m src.aggregate --why                            where the time of each arm goes
  python -m src.aggregate --figure model_sizes             speedup and attained fraction over model sizes

exit code: 0; 1 when a file could not be read; 2 when there is nothing to summarise or no place to
write. Runs that failed are part of the table and do not change the exit code.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of the rows asked for, write its files, and return the exit code."""
    arguments = _parser().parse_args(argv)
    path: Path = arguments.path or paths.output_dir() / "runs"
    try:
        experiment = None if arguments.table is None else experiments.read(experiments.find(arguments.table))
        selection = _select(path, arguments, experiment)
        summary = summarize(selection.rows)
        numbers = to_table(summary)
        views = list(_views(summary, numbers, arguments, experiment))
        views = [replace(v, document=cut(v.document, arguments.lines, f"{v.name}.csv")) for v in views]
        drawn = charts.files([charts.one(arguments.figure, summary)]) if arguments.figure else {}
    except _MISTAKES as error:
        return console.refuse(str(error))
    except OSError as error:
        return console.refuse(f"cannot read {error.filename or path}: {error.strerror or error}")
    out: Path = arguments.out or summaries_folder(path, summary, everything=arguments.all)
    contents = {"summary.parquet": _parquet(numbers)} | drawn
    for view in views:
        contents |= view.files()
    try:
        console.write(out, contents)
    except OSError as error:
        return console.refuse(f"cannot write {out}: {error.strerror or error}")
    code = console.tell_unreadable(selection.unreadable)
    console.say(views[-1].printed(arguments.format, console.width(), unicode=console.unicode()))
    written = [f"{out}/summary.parquet, {', '.join(f'.{end}' for end in ENDS)}"]
    written += [view.file_names for view in views[1:]]
    written += [f"{arguments.figure}.png, .svg, .pdf"] if drawn else []
    console.tell(f"wrote {' and '.join(written)}")
    return code


_MISTAKES = (
    *(SelectionError, ExperimentError, placing.MixedError),
    *(matrix.MatrixError, why.WhyError, charts.ChartError),
)


def _select(path: Path, arguments: argparse.Namespace, experiment: Experiment | None) -> Selection:
    where = [condition(asked) for asked in arguments.where]
    chosen: dict[str, Any] = {"sweep": arguments.sweep, "everything": arguments.all, "where": where}
    return experiments.rows_of(experiment, path, **chosen) if experiment else select(path, **chosen)


def _views(
    summary: Summary, numbers: pa.Table, arguments: argparse.Namespace, experiment: Experiment | None
) -> Iterator[View]:
    """Yield the summary, and what is asked for instead of it, if anything is."""
    filters = arguments.where
    if experiment:
        filters = [*(each.text for each in experiment.table.where), *filters]
    document = document_of(summary, filters, arguments.lines)
    yield View("summary", document, lambda: spreadsheet.to_csv(numbers))
    if arguments.matrix:
        counts = matrix.matrix_of(summary, filters)
        yield View("recompiles", counts, lambda: matrix.to_csv(counts))
    if arguments.why:
        explained = why.why_of(summary, filters)
        yield View("why", explained, lambda: spreadsheet.to_csv(why.to_table(summary)))
    if experiment:
        table = paper.paper_of(summary, experiment, filters)
        name = re.sub(r"[^\w.-]", "_", experiment.name or experiment.file.stem)
        yield View(f"{name}-table", table, lambda: tidy.to_csv(summary, experiment))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m src.aggregate",
        description="Print a table of measured runs and write summary.parquet, .csv, .md, .tex, .html.",
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
        "--out",
        type=console.path,
        metavar="DIR",
        help="folder of the files (default: summaries/SWEEP, or summaries/all, beside runs)",
    )
    parser.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="format of what is printed (default: text)",
    )
    parser.add_argument(
        "--lines",
        type=lines,
        default=LINES,
        metavar="N",
        help=f"most lines of a table, or all, in every format but .parquet and .csv (default: {LINES})",
    )
    instead = parser.add_mutually_exclusive_group()
    instead.add_argument(
        "--table",
        metavar="NAME",
        help="print the table that experiments/NAME.yaml (or a YAML file of your own) lays out, of the "
        "newest sweep of that experiment, beside what was published, and write NAME-table.csv, .md, .tex "
        "and .html as well",
    )
    instead.add_argument(
        "--matrix",
        choices=("recompiles",),
        help="print optimizers and learning rates against schedulers instead of the table, and write "
        "recompiles.csv, .md, .tex and .html as well",
    )
    instead.add_argument(
        "--why",
        action="store_true",
        help="print where the time of each arm goes instead of the table, and write why.csv, .md, .tex "
        "and .html as well",
    )
    parser.add_argument(
        "--figure",
        choices=charts.NAMES,
        help="draw this chart into the folder of the files, as .png, .svg and .pdf (needs vl-convert-python)",
    )
    return parser


def _parquet(numbers: pa.Table) -> bytes:
    buffer = pa.BufferOutputStream()
    pq.write_table(numbers, buffer)
    return bytes(buffer.getvalue())


if __name__ == "__main__":
    sys.exit(console.run(main))
