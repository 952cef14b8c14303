"""What some tests need beside Python: without it they skip, and where nothing may be missing they fail."""

import importlib
import os
import shutil
from types import ModuleType
from typing import Any

import pytest

EVERYTHING = "STEPSWEEP_TEST_EVERYTHING"  # set to 1 by .ci/run, which has installed all of them

PACKAGES = {  # of Debian, by program
    "chromium": "chromium fonts-dejavu-core",
    "g++": "g++",
    "git": "git",
    **dict.fromkeys(
        ("munged", "slurmctld", "slurmd", "sbatch", "squeue"), "slurmctld slurmd slurm-client munge"
    ),
    "pdflatex": "texlive-latex-base texlive-latex-recommended texlive-science",
}


def needed_program(*names: str) -> str:
    """Return the path of the first of `names` that is on PATH; else the test ends, see `missing`."""
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    return missing(f"no {names[0]}: apt-get install --no-install-recommends {PACKAGES[names[0]]}")


def needed_module(name: str) -> ModuleType:
    """Return that module; without it the test ends, see `missing`."""
    try:
        return importlib.import_module(name)
    except ImportError as error:
        return missing(f"{error}: make install")


def missing(reason: str) -> Any:
    """Skip the test that runs because of `reason`; fail it where everything must be there."""
    if os.environ.get(EVERYTHING, "0") not in ("", "0"):
        pytest.fail(f"{reason} ({EVERYTHING} is set)", pytrace=False)
    pytest.skip(reason, allow_module_level=True)
