"""What all tests need of the process that runs them, and the programs that some need beside it."""

import signal
import subprocess

import pytest

from tests.needed import PACKAGES, missing, needed_program

# A shell starts its background jobs with SIGINT ignored, nohup ignores SIGHUP, and what is ignored
# is inherited: without this, tests of Ctrl-C and of a closed terminal would fail in such a job.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)


@pytest.fixture(scope="session")
def pdflatex():
    """Return the path of a TeX that has siunitx; without one the test skips (in CI it fails)."""
    found = needed_program("pdflatex")
    if not subprocess.run(["kpsewhich", "siunitx.sty"], capture_output=True, check=False).stdout:
        missing(f"this TeX has no siunitx: apt-get install --no-install-recommends {PACKAGES['pdflatex']}")
    return found


@pytest.fixture(scope="session")
def chromium():
    """Return the path of a browser that playwright can drive; without one the test skips (in CI it fails)."""
    return needed_program("chromium", "chromium-browser", "google-chrome")
