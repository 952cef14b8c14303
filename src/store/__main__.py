"""`python -m src.store compact`: the row files of every sweep that has ended become one file each."""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from src import paths
from src.store.compaction import CompactionError, compact


def main(arguments: Sequence[str]) -> int:
    """Run the command line and return its exit code: 1 when a sweep could not be compacted."""
    parser = argparse.ArgumentParser(prog="python -m src.store", description=__doc__)
    commands = parser.add_subparsers(dest="command", required=True)
    one = commands.add_parser("compact", help="put the good rows of each sweep into one file")
    one.add_argument("folder", nargs="?", type=Path, help="folder of sweeps, or of one (outputs/runs)")
    given = parser.parse_args(arguments)
    folder: Path = given.folder or paths.output_dir() / "runs"
    sweeps = sorted(folder.glob("sweep=*")) or [folder]
    if not folder.is_dir() or not all(sweep.name.startswith("sweep=") for sweep in sweeps):
        print(f"error: no sweep in {folder}", file=sys.stderr)  # noqa: T201  # the entry's own output
        return 2
    code = 0
    for sweep in (each for each in sweeps if each.is_dir()):
        try:
            done = compact(sweep)
        except (CompactionError, OSError) as error:
            print(f"{sweep.name}: {error}", file=sys.stderr)  # noqa: T201
            code = 1
            continue
        told = f"{done.files_before} files became {done.files_after}" if done.rows else "nothing to do"
        print(f"{sweep.name}: {told}")  # noqa: T201
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
