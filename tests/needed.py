"""Programs that some tests need: without one they skip, and where nothing may be missing they fail."""

import os
import shutil

import pytest

EVERYTHING = "STEPSWEEP_TEST_EVERYTHING"  # set to 1 by .ci/run, which has installed all of them

PACKAGES = {  # of Debian, by program
    "chromium": "chromium fonts-dejavu-core",
    "g++": "g++",
    "git": "git",
    "pdflatex": "texlive-latex-base texlive-latex-recommended texlive-science",
}


def needed_program(*names: str) -> str:
    """Return the path of the first of `names` that is on PATH; else the test ends, see `missing`."""
    for name in names:
        found = shutil.which(name)
        if found is not None:
            return found
    return missing(f"no {names[0]}: apt-get install --no-install-recommends {PACKAGES[names[0]]}")


def missing(reason: str) -> str:
    """Skip the test that runs because of `reason`; fail it where everything must be there."""
    if os.environ.get(EVERYTHING, "0") not in ("", "0"):
        pytest.fail(f"{reason} ({EVERYTHING} is set)", pytrace=False)
    pytest.skip(reason)
