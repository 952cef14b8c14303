"""Summarise finished sweeps: `python -m src.aggregate [PATH]`. Loads neither torch nor Hydra."""

import argparse
import os
import re
import secrets
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from src import paths
from src.analysis import matrix, tables, text
from src.analysis.document import Document
from src.analysis.grid import document_of
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

exit code: 0; 1 when a file could not be read; 2 when there is nothing to summarise or no place to
write. Runs that failed are part of the table and do not change the exit code.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the table of the rows asked for, write its files, and return the exit code."""
    arguments = _parser().parse_args(argv)
    path: Path = arguments.path or paths.output_dir() / "runs"
    try:
        where = [condition(asked) for asked in arguments.where]
        selection = select(path, sweep=arguments.sweep, everything=arguments.all, where=where)
        summary = summarize(selection.rows)
        document = document_of(summary, arguments.where)
        shown = matrix.matrix_of(summary, arguments.where) if arguments.matrix else None
    except SelectionError as error:
        return _refuse(str(error))
    except matrix.MatrixError as error:
        return _refuse(f"--matrix {arguments.matrix}: {error}")
    except OSError as error:
        return _refuse(f"cannot read {path}: {error.strerror or error}")
    out: Path = arguments.out or _default_out(path, summary, everything=arguments.all)
    try:
        _write(out, summary, document, shown)
    except OSError as error:
        return _refuse(f"cannot write {out}: {error.strerror or error}")
    as_csv = (lambda: matrix.to_csv(shown)) if shown else (lambda: tables.to_csv(summary))
    printed = _printed(arguments.format, shown or document, as_csv)
    written = f"{out}/summary.parquet, .csv, .md, .tex" + (" and recompiles.csv, .md, .tex" if shown else "")
    return _print(printed, selection, written)


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
        "--matrix",
        choices=("recompiles",),
        help="print optimizers and learning rates against schedulers instead of the table, and write "
        "recompiles.csv, .md and .tex as well",
    )
    return parser


def _default_out(path: Path, summary: Summary, *, everything: bool) -> Path:
    """Return the folder `summaries/<sweep or all>` in the output folder that `path` lies in."""
    absolute = path.absolute()
    runs = next((folder for folder in (absolute, *absolute.parents) if folder.name == "runs"), None)
    # A sweep's name comes from a file: it must not lead out of the folder.
    name = "all" if everything else re.sub(r"[^\w.-]", "_", str(summary.sweeps[0])).lstrip(".") or "unnamed"
    return (runs.parent if runs else paths.output_dir()) / "summaries" / name


def _write(out: Path, summary: Summary, document: Document, matrix_document: Document | None) -> None:
    """Write the four files, and three of a matrix; each appears whole or not at all."""
    out.mkdir(parents=True, exist_ok=True)
    buffer = pa.BufferOutputStream()
    pq.write_table(tables.to_table(summary), buffer)
    contents: dict[str, bytes] = {
        "summary.parquet": buffer.getvalue().to_pybytes(),
        "summary.csv": tables.to_csv(summary).encode(),
        "summary.md": tables.to_markdown(document).encode(),
        "summary.tex": tables.to_latex(document).encode(),
    }
    if matrix_document:
        contents |= {
            "recompiles.csv": matrix.to_csv(matrix_document).encode(),
            "recompiles.md": tables.to_markdown(matrix_document).encode(),
            "recompiles.tex": tables.to_latex(matrix_document).encode(),
        }
    for name, content in contents.items():
        temporary = out / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            temporary.write_bytes(content)
            temporary.replace(out / name)
        finally:
            temporary.unlink(missing_ok=True)


def _printed(kind: str, document: Document, as_csv: Callable[[], str]) -> str:
    if kind == "markdown":
        return tables.to_markdown(document)
    if kind == "latex":
        return tables.to_latex(document)
    if kind == "csv":
        return as_csv()
    return text.render(document, shutil.get_terminal_size((80, 24)).columns, unicode=_unicode())


def _unicode() -> bool:
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def _print(printed: str, selection: Selection, written: str) -> int:
    for file, why in selection.unreadable.items():
        print(f"skipped {file}: {why}", file=sys.stderr)  # noqa: T201 - an entry talks
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
