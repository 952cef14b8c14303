"""What all tests need of the process that runs them, and the programs that some need beside it."""

import atexit
import os
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from tests.needed import PACKAGES, missing, needed_program

# A shell starts its background jobs with SIGINT ignored, nohup ignores SIGHUP, and what is ignored
# is inherited: without this, tests of Ctrl-C and of a closed terminal would fail in such a job.
signal.signal(signal.SIGINT, signal.default_int_handler)
signal.signal(signal.SIGHUP, signal.SIG_DFL)
# A thread of OpenMP that has nothing to do keeps its CPU busy for a while. Where tests run in parallel
# that CPU is another test's: steps of two threads took three times as long. Read when torch is loaded.
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

# Tests that time a tenth of a second need not take turns with those of another process.
os.environ["STEPSWEEP_LEASES"] = tempfile.mkdtemp(prefix="stepsweep-leases-")
atexit.register(shutil.rmtree, os.environ["STEPSWEEP_LEASES"], ignore_errors=True)

MOST_WORKERS = 4
"""Each has a torch of its own, and starts processes that have one: 2 GiB and more."""


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_auto_num_workers():
    """Return the processes of `-n auto`: one per CPU, but a GPU is for one test at a time."""
    if Path("/proc/driver/nvidia/version").exists():
        return 1
    return min(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else 2, MOST_WORKERS)


@pytest.hookimpl(trylast=True)
def pytest_collection_modifyitems(items):
    """Put whole sweeps first, so that no process waits at the end for another that has one."""
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


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
