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


def row_files(plan: Plan) -> set[Path]:
    """Return the files of the sweep's rows."""
    return set(store.row_files(store.sweep_dir(plan.output_dir, plan.sweep_id)))


def begun(plan: Plan, status: str, reason: str) -> list[Lost]:
    """Return a loss for each run of the plan that has begun, by what Hydra wrote then."""
    found = []
    for number in range(len(plan.specs)):
        told = _folder(plan, number) / ".hydra" / "overrides.yaml"
        try:
            overrides = yaml.safe_load(told.read_text())
        except (OSError, yaml.YAMLError):  # it has not, or not by far
            continue
        found.append(Lost(number, tuple(overrides or ()), status, reason))
    return found


def write(plan: Plan, lost: Iterable[Lost], before: set[Path]) -> list[Lost]:
    """Write a row for each lost run that has none but in the files of `before`.

    Returns:
        The runs that have no row, since a sweeper chose them: what they measured is not known here.

    Raises:
        OSError: a row could not be written.
    """
    rows, _ = store.read(sorted(row_files(plan) - before), ["job"])
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
