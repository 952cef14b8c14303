"""Compare two sets of runs: `python -m src.compare BASE NEW`. Loads neither torch nor Hydra."""

import argparse
import math
import sys
from collections.abc import Sequence
from functools import cache

from src import arguments as options
from src import console
from src.analysis import changes_fail, spreadsheet
from src.analysis.changes import ROW_COLUMNS, Comparison, compare
from src.analysis.changes_document import document_of
from src.analysis.changes_estimates import METRICS
from src.analysis.changes_matching import MatchError, ignored_axis
from src.analysis.changes_table import to_table
from src.analysis.cut import cut
from src.analysis.selection import Selection, SelectionError, condition, select
from src.analysis.views import View

_EXAMPLES = """\
examples:
  python -m src.compare runs_of_2.11 runs_of_2.13            the newest sweep of each
  python -m src.compare outputs/runs outputs/runs --base-sweep before --new-sweep after
  python -m src.compare base.parquet new.parquet --fail-on regression:5% --fail-on recompiles
  python -m src.compare rows.parquet rows.parquet --base-where optimizer=adam --new-where optimizer=adamw \\
      --ignore optimizer --ignore optimizer_args             two cells of one file
  python -m src.compare base new --metric compiled_us        absolute times: they move with the machine

exit code: 0; 1 when a --fail-on condition is met or a file could not be read; 2 when there is nothing to
compare or no place to write.
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Print the comparison asked for, write its files, and return the exit code."""
    arguments = _parser().parse_args(argv)
    try:
        conditions = [changes_fail.condition(asked) for asked in arguments.fail_on]
        ignored = [ignored_axis(name) for name in arguments.ignore]
        base, new = (_selected(arguments, side) for side in ("base", "new"))
        compared = compare(
            base.rows, new.rows, arguments.metric, min_effect=arguments.min_effect, ignored=ignored
        )
    except (SelectionError, MatchError, changes_fail.ConditionError) as error:
        return console.refuse(str(error))
    except OSError as error:
        return console.refuse(f"cannot read {error.filename}: {error.strerror or error}")
    numbers = cache(lambda: to_table(compared))
    view = View(
        "comparison",
        cut(
            document_of(compared, _filters(arguments), arguments.lines),
            arguments.lines,
            "comparison.csv, which --out writes",
        ),
        lambda: spreadsheet.to_csv(numbers()),
    )
    if arguments.out:
        try:
            parquet = spreadsheet.to_parquet(numbers())
            console.write(arguments.out, {"comparison.parquet": parquet} | view.files())
        except OSError as error:
            return console.refuse(f"cannot write {arguments.out}: {error.strerror or error}")
    code = console.tell_unreadable(base.unreadable | new.unreadable)
    console.say(view.printed(arguments.format, console.width(), unicode=console.unicode()))
    if arguments.out:
        console.tell(f"wrote {arguments.out}/{view.file_names} and .parquet")
    if not compared.changes:
        return console.refuse(_nothing_common(compared))
    failed = changes_fail.failures(compared, conditions)
    for sentence in failed:
        console.tell(f"failed on {sentence}")
    return 1 if failed else code


def _selected(arguments: argparse.Namespace, side: str) -> Selection:
    own = getattr(arguments, f"{side}_where")
    try:
        return select(
            getattr(arguments, side),
            sweep=getattr(arguments, f"{side}_sweep"),
            everything=arguments.all,
            where=[condition(asked) for asked in (*arguments.where, *own)],
            columns=ROW_COLUMNS,
        )
    except SelectionError as error:
        raise SelectionError(f"{side.upper()}: {error}") from error


def _nothing_common(compared: Comparison) -> str:
    ways = [f"--ignore {axis} ({cells})" for axis, cells in compared.would_match.items()]
    hint = f"; cells would match with {', '.join(ways)}" if ways else ", whatever one axis is ignored"
    return f"no cell is on both sides{hint}"


def _filters(arguments: argparse.Namespace) -> list[str]:
    own = [f"{side}: {asked}" for side in ("base", "new") for asked in getattr(arguments, f"{side}_where")]
    return [*arguments.where, *own]


def _effect(asked: str) -> float:
    try:
        value = float(asked)
    except ValueError:
        value = math.nan
    if not 0 <= value < math.inf:
        raise argparse.ArgumentTypeError(f"must be a part of one such as 0.02: got {asked!r}")
    return value


def _parser() -> argparse.ArgumentParser:
    parser = options.parser(
        "src.compare",
        "Match the cells of two sets of runs and print what changed, with intervals.",
        _EXAMPLES,
    )
    for side in ("base", "new"):
        parser.add_argument(
            side,
            type=console.path,
            metavar=side.upper(),
            help="folder of runs, folder of one sweep, or one Parquet file",
        )
    parser.add_argument("--all", action="store_true", help="all sweeps of both, not the newest of each alone")
    for side in ("base", "new"):
        parser.add_argument(f"--{side}-sweep", metavar="ID", help=f"the sweep of this name in {side.upper()}")
    options.add_where(parser)
    for side in ("base", "new"):
        options.add_repeated(parser, f"--{side}-where", "AXIS=VALUE", f"the same, of {side.upper()} alone")
    options.add_repeated(parser, "--ignore", "AXIS", "match cells although they differ in this axis")
    parser.add_argument(
        "--metric",
        choices=tuple(METRICS),
        default="speedup",
        help="what is compared (default: speedup, paired in one process: drift of the machine cancels)",
    )
    parser.add_argument(
        "--min-effect",
        type=_effect,
        metavar="PART",
        help="a change closer to 1 than this is none, such as 0.02 (default: min_effect of the rows)",
    )
    options.add_view(parser)
    parser.add_argument(
        "--out",
        type=console.path,
        metavar="DIR",
        help="write comparison.parquet, .csv, .md, .tex and .html here",
    )
    options.add_repeated(
        parser,
        "--fail-on",
        "CONDITION",
        f"exit with 1 when this is found: {', '.join(changes_fail.CONDITIONS)}".replace("%", "%%"),
    )
    return parser


if __name__ == "__main__":
    sys.exit(console.run(main))
