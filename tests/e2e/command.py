"""The real command line in real processes, and what it leaves behind."""

import os
import secrets
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import psutil

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).with_name("faults")
GENEROUS = 300.0
"""Seconds that nothing here needs, however busy the machine."""

QUICK = (
    *("model=tiny", "measure=quick", "compile=aot_eager"),
    *("measure.max_seconds=0.2", "measure.warm_up_seconds=0.2", "measure.trace_steps=3"),
)
ENDLESS = ("measure.target_relative_width=1e-9", "measure.max_seconds=0.2,600,0.2")
"""Three runs, of which the second times until it is ended."""


class Command:
    """A command line that was started in a session of its own."""

    def __init__(
        self,
        folder,
        *arguments,
        output_dir=None,
        program=None,
        faults=False,
        python_path=str(ROOT),
        leases=None,
        environment=None,
    ):
        """Start it in `folder`; with `faults` SGD misbehaves for some learning rates."""
        self.output_dir = output_dir or folder / "out"
        self.mark = f"STEPSWEEP_TEST_{secrets.token_hex(8)}"
        path = f"{FAULTS}:{ROOT}" if faults else python_path
        # As on a host of its own, unless a test says otherwise.
        self.leases = leases or Path(tempfile.mkdtemp(prefix="stepsweep-leases-"))
        own = {"COLUMNS": "100", self.mark: "1", "STEPSWEEP_LEASES": str(self.leases)}
        environment = os.environ | own | (environment or {})
        environment.pop("PYTHONPATH", None)
        self.process = subprocess.Popen(
            [*(program or (sys.executable, "-m", "src.run")), *arguments, f"output_dir='{self.output_dir}'"],
            cwd=folder,
            env=environment | ({"PYTHONPATH": path} if path else {}),
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def end(self):
        """Wait for its end; return it."""
        try:
            self.out, self.err = self.process.communicate(timeout=GENEROUS)
        finally:
            if self.process.poll() is None:
                os.killpg(self.process.pid, signal.SIGKILL)
        self.code = self.process.returncode
        return self

    def rows(self):
        """Return all rows under its output folder, as any reader of Parquet sees them."""
        import pandas as pd  # not at the top: every run of `every_order` would load it

        return pd.read_parquet(self.output_dir / "runs").sort_values("job").reset_index(drop=True)

    def wait_for_files(self, pattern, count=1):
        """Wait until `count` files of that pattern are in its output folder."""
        deadline = time.monotonic() + GENEROUS
        while len(found := list(self.output_dir.glob(pattern))) < count:
            assert self.process.poll() is None, f"ended early: {self.process.communicate()}"
            assert time.monotonic() < deadline, f"no {pattern}"
            time.sleep(0.05)
        return found

    def wait_for_process(self, text):
        """Wait until it has a process with `text` on its command line."""
        deadline = time.monotonic() + GENEROUS
        while not self.processes(text):
            assert self.process.poll() is None, f"ended early: {self.process.communicate()}"
            assert time.monotonic() < deadline, f"no process {text}"
            time.sleep(0.05)

    def processes(self, text=""):
        """Return its processes that are alive, by the mark that all inherit, and by their command line."""
        found = []
        for process in psutil.process_iter():
            try:
                alive = self.mark in process.environ() and process.status() != psutil.STATUS_ZOMBIE
                if alive and text in " ".join(process.cmdline()):
                    found.append(process)
            except psutil.Error:
                continue
        return found

    def leaves_no_process(self):
        """Wait until all its processes are gone; the fork server takes a moment."""
        deadline = time.monotonic() + 60
        while self.processes():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.1)
        return True


def run(folder, *arguments, **more):
    """Run a command line to its end."""
    return Command(folder, *arguments, **more).end()


def cache_files(output_dir):
    """Return the files in the cache folder."""
    return [p for p in (output_dir / "cache").rglob("*") if p.is_file()]
