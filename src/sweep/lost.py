"""Runs that their launcher lost: each gets the row that its own job can write no more."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import yaml

from src import store
from src.sweep import job
from src.sweep.command_line import Plan

INTERRUPTED = "ended by Ctrl-C or a signal to stepsweep"


@dataclass(frozen=True, slots=True)
class Lost:
    """A run whose job ended without telling how it went."""

    number: int
    """Of the run in its sweep."""
    overrides: tuple[str, ...]
    status: str
    reason: str
    error: str | None = None
    """What its job wrote last."""


@dataclass(frozen=True, slots=True)
class Before:
    """What there was of a sweep before its jobs were started: a sweep may be taken up again."""

    rows: frozenset[tuple[Path, int]]
    """Files of rows, with their inodes: a row that replaces another has the name of it."""
    begun: dict[int, int]
    """When runs had begun, in ns, by their numbers."""


def before(plan: Plan) -> Before:
    """Return what there is of a sweep."""
    return Before(_rows(plan), {n: at for n in range(len(plan.specs)) if (at := _begun_at(plan, n))})


def _rows(plan: Plan) -> frozenset[tuple[Path, int]]:
    folder = store.sweep_dir(plan.output_dir, plan.sweep_id)
    return frozenset((path, path.stat().st_ino) for path in store.row_files(folder) if path.is_file())


def _begun_at(plan: Plan, number: int) -> int | None:
    try:
        return _overrides(plan, number).stat().st_mtime_ns
    except OSError:
        return None


def begun(plan: Plan, since: Before, status: str, reason: str) -> list[Lost]:
    """Return a loss for each run of the plan that has begun, by what Hydra wrote then."""
    found = []
    for number in range(len(plan.specs)):
        if _begun_at(plan, number) == since.begun.get(number):
            continue
        try:
            overrides = yaml.safe_load(_overrides(plan, number).read_text())
        except (OSError, yaml.YAMLError):  # it has not, or not by far
            continue
        found.append(Lost(number, tuple(overrides or ()), status, reason))
    return found


def write(plan: Plan, lost: Iterable[Lost], since: Before) -> list[Lost]:
    """Write a row for each lost run that has written none since then.

    Returns:
        The runs that have no row, since a sweeper chose them: what they measured is not known here.

    Raises:
        OSError: a row could not be written.
    """
    rows, _ = store.read([path for path, _ in sorted(_rows(plan) - since.rows)], ["job"])
    have = set(rows["job"].to_pylist())
    unknown = []
    for each in lost:
        if each.number in have:
            continue
        if each.number >= len(plan.specs):
            unknown.append(each)
            continue
        log = _folder(plan, each.number) / "run.log"
        ended = job.Job(plan.specs[each.number], each.number, each.overrides, log)
        job.write_lost(ended, each.status, each.reason, each.error)
    return unknown


def _folder(plan: Plan, number: int) -> Path:
    """Return the folder of a run's log, by conf/hydra/stepsweep.yaml."""
    return plan.output_dir / "logs" / plan.sweep_id / str(number)


def _overrides(plan: Plan, number: int) -> Path:
    return _folder(plan, number) / ".hydra" / "overrides.yaml"
