"""A sweep that is taken up again: what it has measured well stays, the rest is run once more.

The rows are the truth. What they say is read once, when the sweep is resumed, and left in a note beside
them, where the jobs find it, in whatever process a launcher runs them.
"""

import json
import os
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import cache
from pathlib import Path
from typing import Any

from src import store, vocabulary
from src.spec import OBJECTIVES, RunSpec
from src.sweep import surroundings
from src.sweep.command_line import Plan, UsageError

LATEST = "latest"

_NOTE = ".resume.json"
_COLUMNS = (
    *("run_key", "job", "started_at", "status", "verdict", "reason", "attempts", "earlier_ends"),
    *OBJECTIVES,
    *surroundings.FACTS,
)


@dataclass(frozen=True, slots=True)
class Earlier:
    """The row that a run has already."""

    status: str
    attempts: int
    ends: tuple[str, ...]
    """Status and reason of each attempt so far, as far as they did not end well."""
    told: Mapping[str, Any]
    """The columns by which `study.objective` judges a run."""
    file: str | None
    """Name of the file whose row a further attempt replaces; None where the row stays."""

    @property
    def good(self) -> bool:
        """Whether the run needs no further attempt."""
        return self.status in vocabulary.GOOD_STATUSES


@dataclass(frozen=True, slots=True)
class Resumed:
    """What there is of a sweep when it is resumed."""

    good: int
    """Runs of the plan that need not be run; of a sweeper that chooses them: rows of such runs."""
    again: frozenset[Path]
    """Files whose rows are to be replaced."""


def named(plan: Plan) -> Plan:
    """Return the plan under the id of the sweep that it resumes.

    Raises:
        UsageError: there is no such sweep, or `sweep_id` names another one.
    """
    runs = plan.output_dir / "runs"
    prefix = "sweep="
    known = [p for p in runs.glob(f"{prefix}*") if p.is_dir()]
    if not known:
        raise UsageError(f"resume={plan.resume}: there is no sweep in {runs}")
    if plan.resume == LATEST:
        found = max(known, key=lambda p: p.stat().st_mtime).name.removeprefix(prefix)
    else:
        found = str(plan.resume)
        if store.sweep_dir(plan.output_dir, found) not in known:
            newest = sorted(known, key=lambda p: p.stat().st_mtime)[-5:]
            listed = ", ".join(p.name.removeprefix(prefix) for p in newest)
            raise UsageError(f"resume must be latest or a sweep of {runs}: got {found}, there is {listed}")
    if plan.named and plan.sweep_id != found:
        raise UsageError(f"sweep_id must be left out with resume={found}: got {plan.sweep_id}")
    # What all runs share is not repeated beside each.
    fixed = (*plan.fixed, *(f"{name}={found}" for name in ("sweep_id", "resume")))
    return replace(plan, sweep_id=found, resume=found, fixed=fixed)


def prepare(plan: Plan) -> Resumed:
    """See what a sweep has measured, and leave a note of it for the jobs.

    Raises:
        UsageError: the sweep is of other runs, a row file cannot be read, a row that must be replaced
            shares its file with others, or versions or machine have changed and `resume_mixed` does
            not allow it.
    """
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    files = store.row_files(folder)
    table, unreadable = store.read(files, list(_COLUMNS))
    for path, why in unreadable.items():
        raise UsageError(f"resume={plan.sweep_id}: {path} cannot be read, move it away or delete it: {why}")
    rows = table.to_pylist()
    if plan.specs:
        found = _by_number([spec.run_key() for spec in plan.specs], rows)
        if rows and not found:
            raise UsageError(
                f"resume={plan.sweep_id}: none of these runs is of that sweep, it must be resumed with its "
                "own command line"
            )
    else:
        found = {key: max(same, key=_is_good) for key, same in _by_key(rows).items()}
    kept = [row for row in rows if row["status"] == "ok"]
    changed = [] if plan.resume_mixed else surroundings.changes(kept, machine=plan.local)
    if changed:
        raise UsageError(
            f"resume={plan.sweep_id} would mix rows: {'; '.join(changed)}\n"
            "resume_mixed=true goes on all the same, without resume= a new sweep begins"
        )
    alone = _by_key_of_name(files)
    runs = {name: _earlier(folder, row, alone) for name, row in found.items()}
    noted = {name: asdict(each) for name, each in runs.items()}
    _leave(folder, {"by": "number" if plan.specs else "key", "runs": noted})
    return Resumed(
        sum(each.good for each in runs.values()),
        frozenset(folder / each.file for each in runs.values() if each.file is not None),
    )


def missing(plan: Plan) -> int:
    """Return how many runs of a resumed sweep's plan have no row."""
    files = store.row_files(store.sweep_dir(plan.output_dir, plan.sweep_id))
    table, _ = store.read(files, ["run_key", "job"])
    keys = [spec.run_key() for spec in plan.specs]
    return len(keys) - len(_by_number(keys, [row | {"status": "ok"} for row in table.to_pylist()]))


def forget(plan: Plan) -> None:
    """Remove the note."""
    (store.sweep_dir(plan.output_dir, plan.sweep_id) / _NOTE).unlink(missing_ok=True)


def earlier(spec: RunSpec, number: int) -> Earlier | None:
    """Return what a job's run has left when its sweep was run before; None where it left nothing."""
    if spec.resume is None:
        return None
    note = store.sweep_dir(Path(spec.output_dir), spec.sweep_id) / _NOTE
    try:
        told = _read(note, note.stat().st_mtime_ns)
    except FileNotFoundError:
        return None
    found = told["runs"].get(str(number) if told["by"] == "number" else spec.run_key())
    return None if found is None else Earlier(**(found | {"ends": tuple(found["ends"])}))


@cache
def _read(note: Path, _changed: int) -> dict[str, Any]:
    """Return the note; all jobs of a process read it once."""
    found: dict[str, Any] = json.loads(note.read_text(encoding="utf-8"))
    return found


def _by_number(keys: Sequence[str], rows: Iterable[Mapping[str, Any]]) -> dict[str, Mapping[str, Any]]:
    """Return the row of each job that has one: of the same key, and of the same number if there is one.

    A command line that has grown has other numbers for the same runs. Two jobs may have one key, and then
    each has a row of its own.
    """
    left = _by_key(rows)
    found: dict[str, Mapping[str, Any]] = {}
    for number, key in enumerate(keys):
        same = next((row for row in left.get(key, ()) if row["job"] == number), None)
        if same is not None:
            left[key].remove(same)
            found[str(number)] = same
    for number, key in enumerate(keys):
        if str(number) not in found and left.get(key):
            best = max(left[key], key=_is_good)
            left[key].remove(best)
            found[str(number)] = best
    return found


def _by_key(rows: Iterable[Mapping[str, Any]]) -> dict[str, list[Mapping[str, Any]]]:
    found: dict[str, list[Mapping[str, Any]]] = defaultdict(list)
    for row in rows:
        found[row["run_key"]].append(row)
    return found


def _is_good(row: Mapping[str, Any]) -> bool:
    return row["status"] in vocabulary.GOOD_STATUSES


def _earlier(folder: Path, row: Mapping[str, Any], alone: Mapping[str, Sequence[Path]]) -> Earlier:
    ends = tuple(row["earlier_ends"] or ())
    good = _is_good(row)
    return Earlier(
        status=row["status"],
        attempts=row["attempts"] or 1,
        ends=ends if good else (*ends, end(row)),
        told={name: row[name] for name in ("status", "verdict", *OBJECTIVES)},
        file=None if good else _file_of(folder, row, alone),
    )


def end(row: Mapping[str, Any]) -> str:
    """Return how an attempt ended, for the row of a later one."""
    return f"{row['status']}: {row['reason']}"


def _by_key_of_name(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Return the files that are named after a run key, by that key."""
    found: dict[str, list[Path]] = defaultdict(list)
    for path in files:
        found[path.stem.partition("-")[0]].append(path)
    return found


def _file_of(folder: Path, row: Mapping[str, Any], alone: Mapping[str, Sequence[Path]]) -> str:
    """Return the name of the file that holds a row, and no other."""
    wanted = {"job": row["job"], "started_at": row["started_at"]}
    for path in alone.get(row["run_key"], ()):
        table, _ = store.read([path], ["job", "started_at"])
        if table.to_pylist() == [wanted]:
            return str(path.relative_to(folder))
    raise UsageError(
        f"a row of {folder} that must be measured again has no file of its own: run_key {row['run_key']}"
    )


def _leave(folder: Path, told: Mapping[str, Any]) -> None:
    temporary = folder / f"{_NOTE}.{os.getpid()}"
    temporary.write_text(json.dumps(told), encoding="utf-8")
    temporary.replace(folder / _NOTE)
