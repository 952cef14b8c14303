"""Summarise finished sweeps: `python -m src.aggregate [PATH]`. Loads neither torch nor Hydra."""

import argparse
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from src import paths
from src.analysis import figures, matrix, tables, text, why
from src.analysis.cut import LINES, cut, lines
from src.analysis.document import Document
from src.analysis.grid import document_of
from src.analysis.numbers import to_table
from src.analysis.selection import Selection, SelectionError, condition, select
from src.analysis.summary import Summary, summarize

_EXAMPLES = """\
examples:
  python -m src.aggregate                                  the newest sweep
  python -m src.aggregate --all                            every sweep, in one table
  python -m src.aggregate --sweep 2025-03-01_12-00-00      one sweep by its name
  python -m src.aggregate --where optimizer=adam,sgd --where compile_mode=default
  python -m src.aggregate outputs/runs/sweep=NAME --format latex > table.tex
  python -m src.aggregate --matrix recompiles              optimizers and learning rates against schedulers
  python -m src.aggregate --why                            where the time of each arm goes
  python -m src.aggregate --figure model_sizes             speedup and attained fraction over model sizes

exit code: 0; 1 when a file could not be read; 2 when there is nothing to summarise or no place to
write. Runs that failed are part of the table and do not change the exit code.
"""


@dataclass(frozen=True, slots=True)
class _View:
    """One way to show a summary: what is printed, and the name of its files."""

    name: str
    document: Document
    to_csv: Callable[[], str]


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of the rows asked for, write its files, and return the exit code."""
    arguments = _parser().parse_args(argv)
    path: Path = arguments.path or paths.output_dir() / "runs"
    try:
        where = [condition(asked) for asked in arguments.where]
        selection = select(path, sweep=arguments.sweep, everything=arguments.all, where=where)
        summary = summarize(selection.rows)
        numbers = to_table(summary)
        table = document_of(summary, arguments.where, arguments.lines)
        views = [_View("summary", table, lambda: tables.to_csv(numbers))]
        views += _other_view(summary, arguments)
        views = [replace(v, document=cut(v.document, arguments.lines, f"{v.name}.csv")) for v in views]
        drawn = figures.files(arguments.figure, summary.cells) if arguments.figure else {}
    except SelectionError as error:
        return _refuse(str(error))
    except (matrix.MatrixError, why.WhyError, figures.FigureError) as error:
        return _refuse(str(error))
    except OSError as error:
        return _refuse(f"cannot read {path}: {error.strerror or error}")
    out: Path = arguments.out or _default_out(path, summary, everything=arguments.all)
    try:
        _write(out, _contents(numbers, views) | drawn)
    except OSError as error:
        return _refuse(f"cannot write {out}: {error.strerror or error}")
    written = [f"{out}/summary.parquet, .csv, .md, .tex"]
    written += [f"{view.name}.csv, .md, .tex" for view in views[1:]]
    written += [f"{arguments.figure}.png, .svg"] if drawn else []
    return _print(_printed(arguments.format, views[-1]), selection, " and ".join(written))


def _other_view(summary: Summary, arguments: argparse.Namespace) -> list[_View]:
    """Return what is asked for instead of the table, if anything is."""
    if arguments.matrix:
        document = matrix.matrix_of(summary, arguments.where)
        return [_View("recompiles", document, lambda: matrix.to_csv(document))]
    if arguments.why:
        document = why.why_of(summary, arguments.where)
        return [_View("why", document, lambda: tables.to_csv(why.to_table(summary)))]
    return []


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m src.aggregate",
        description="Print a table of measured runs and write it as summary.parquet, .csv, .md and .tex.",
        epilog=_EXAMPLES,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument(
        "path",
        nargs="?",
        type=Path,
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
        type=Path,
        metavar="DIR",
        help="folder of the files (default: summaries/SWEEP, or summaries/all, beside runs)",
    )
    parser.add_argument(
        "--format",
        choices=("text", "markdown", "latex", "csv"),
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
        "--matrix",
        choices=("recompiles",),
        help="print optimizers and learning rates against schedulers instead of the table, and write "
        "recompiles.csv, .md and .tex as well",
    )
    instead.add_argument(
        "--why",
        action="store_true",
        help="print where the time of each arm goes instead of the table, and write why.csv, .md and .tex "
        "as well",
    )
    parser.add_argument(
        "--figure",
        choices=tuple(figures.FIGURES),
        help="draw this figure into the folder of the files, as .png and .svg (needs matplotlib)",
    )
    return parser


def _default_out(path: Path, summary: Summary, *, everything: bool) -> Path:
    """Return the folder `summaries/<sweep or all>` in the output folder that `path` lies in."""
    absolute = path.absolute()
    runs = next((folder for folder in (absolute, *absolute.parents) if folder.name == "runs"), None)
    # A sweep's name comes from a file: it must not lead out of the folder.
    name = "all" if everything else re.sub(r"[^\w.-]", "_", str(summary.sweeps[0])).lstrip(".") or "unnamed"
    return (runs.parent if runs else paths.output_dir()) / "summaries" / name


def _contents(numbers: pa.Table, views: Sequence[_View]) -> dict[str, bytes]:
    """Return what is written of the summary and of each view of it, by the name of the file."""
    buffer = pa.BufferOutputStream()
    pq.write_table(numbers, buffer)
    contents = {"summary.parquet": buffer.getvalue().to_pybytes()}
    for view in views:
        contents |= {
            f"{view.name}.csv": view.to_csv().encode(),
            f"{view.name}.md": tables.to_markdown(view.document).encode(),
            f"{view.name}.tex": tables.to_latex(view.document).encode(),
        }
    return contents


def _write(out: Path, contents: Mapping[str, bytes]) -> None:
    """Write files; each appears whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        temporary = out / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            temporary.write_bytes(content)
            temporary.replace(out / name)
        finally:
            temporary.unlink(missing_ok=True)


def _printed(kind: str, view: _View) -> str:
    if kind == "markdown":
        return tables.to_markdown(view.document)
    if kind == "latex":
        return tables.to_latex(view.document)
    if kind == "csv":
        return view.to_csv()
    return text.render(view.document, shutil.get_terminal_size((80, 24)).columns, unicode=_unicode())


def _unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _print(printed: str, selection: Selection, written: str) -> int:
    for file, reason in selection.unreadable.items():
        print(f"skipped {file}: {reason}", file=sys.stderr)  # noqa: T201 - an entry talks
    try:
        print(printed, end="")  # noqa: T201
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader has enough (`| head`). Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(printed.encode(encoding, "backslashreplace").decode(encoding), end="")  # noqa: T201
    print(f"wrote {written}", file=sys.stderr)  # noqa: T201
    return 1 if selection.unreadable else 0


def _refuse(message: str) -> int:
    print(f"error: {message}", file=sys.stderr)  # noqa: T201
    return 2


if __name__ == "__main__":
    sys.exit(main())
