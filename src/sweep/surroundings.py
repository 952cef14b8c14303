"""The facts of versions and machine that rows must share to be of one sweep, found without torch."""

import importlib.util
import runpy
from collections.abc import Iterable, Mapping
from functools import cache
from pathlib import Path
from typing import Any

from src import hardware, provenance

VERSIONS = ("torch_version", "cuda_version", "stepsweep_commit")
MACHINE = ("cpu", "gpu")
FACTS = (*VERSIONS, *MACHINE)
"""Columns that are compared."""


def changes(rows: Iterable[Mapping[str, Any]], *, machine: bool) -> list[str]:
    """Return what has changed since `rows` were measured, each in words; none when nothing has.

    Args:
        rows: with the columns `FACTS`; what a row does not know is not compared.
        machine: whether the runs will be on this machine; else the versions alone are compared.
    """
    told, rows = [], list(rows)
    for name in FACTS if machine else VERSIONS:
        here = _here(name)
        if not here and (name != "gpu" or hardware.has_nvidia_driver()):
            continue  # it cannot be told here
        there = sorted({str(row[name]) for row in rows if row[name] is not None} - set(here))
        if there:
            told.append(f"{name} was {', '.join(there)}, now is {', '.join(here) or 'none'}")
    return told


@cache
def _here(name: str) -> tuple[str, ...]:
    """Return the values of a column that a run here may have."""
    values: dict[str, Any] = {
        "torch_version": _of_torch().get("__version__"),
        "cuda_version": _of_torch().get("cuda"),
        "stepsweep_commit": provenance.stepsweep_commit(),
        "cpu": hardware.cpu_model(),
    }
    if name == "gpu":  # a CPU run has none, and is not compared
        return tuple(dict.fromkeys(gpu.name for gpu in hardware.gpus()))
    return () if values[name] is None else (str(values[name]),)


@cache
def _of_torch() -> dict[str, Any]:
    """Return what torch's file of its version defines; torch itself takes seconds to load."""
    spec = importlib.util.find_spec("torch")
    folders = spec.submodule_search_locations if spec is not None else None
    for folder in folders or ():
        file = Path(folder) / "version.py"
        if file.is_file():
            return runpy.run_path(str(file))
    return {}
