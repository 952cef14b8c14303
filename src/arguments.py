"""Options that the offline commands share, so that they have one name and one meaning."""

import argparse

from src import console
from src.analysis.cut import LINES, lines
from src.analysis.views import FORMATS


def parser(module: str, description: str, epilog: str) -> argparse.ArgumentParser:
    """Return the parser of `python -m MODULE`, which takes no shortened options."""
    return argparse.ArgumentParser(
        prog=f"python -m {module}",
        description=description,
        epilog=epilog,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )


def add_selection(to: argparse.ArgumentParser) -> None:
    """Add what chooses rows: PATH, `--all` or `--sweep`, `--where`."""
    to.add_argument(
        "path",
        nargs="?",
        type=console.path,
        metavar="PATH",
        help="folder of runs, folder of one sweep, or one Parquet file (default: outputs/runs)",
    )
    which = to.add_mutually_exclusive_group()
    which.add_argument("--all", action="store_true", help="all sweeps, not the newest alone")
    which.add_argument("--sweep", metavar="ID", help="the sweep of this name")
    add_where(to)


def add_where(to: argparse.ArgumentParser) -> None:
    """Add `--where`."""
    words = "only rows with this value, or with one of VALUE,VALUE; all must hold"
    add_repeated(to, "--where", "AXIS=VALUE", words)


def add_view(to: argparse.ArgumentParser) -> None:
    """Add how tables are shown: `--format` and `--lines`."""
    to.add_argument(
        "--format",
        choices=FORMATS,
        default="text",
        help="format of what is printed (default: text)",
    )
    to.add_argument(
        "--lines",
        type=lines,
        default=LINES,
        metavar="N",
        help=f"most lines of a table, or all, in every format but .parquet and .csv (default: {LINES})",
    )


def add_repeated(to: argparse.ArgumentParser, name: str, metavar: str, words: str) -> None:
    """Add an option that may be given several times."""
    to.add_argument(name, action="append", default=[], metavar=metavar, help=f"{words}; may be repeated")
