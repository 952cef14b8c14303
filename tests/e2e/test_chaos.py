"""Forty runs through kills of runs and of the sweep, and a disk that is full for a while."""

import contextlib
import random
import signal
import time

import pandas as pd
import psutil
import pytest

from tests.e2e.command import GENEROUS, Command
from tests.e2e.disk import fill, small_disk

pytestmark = pytest.mark.slow

FORTY = (
    *("-m", "model=tiny", "measure=trace", "compile=aot_eager", "compile.backend=eager", "device=cpu"),
    *("measure.trace_steps=2", "optimizer=sgd,adam", "seed=range(20)", "retry=1"),
)


class Chaos:
    """A sweep that is disturbed, and what is seen of its rows meanwhile."""

    def __init__(self, folder, seed):
        self.folder, self.random = folder, random.Random(seed)  # noqa: S311  # the same chaos every time
        self.runs = folder / "out" / "runs"
        self.good = set()
        self.killed = 0

    def start(self, *more):
        self.command = Command(self.folder, *FORTY, *more)

    def look(self):
        """Read all rows as anybody would; none that was good has gone, and none is there twice."""
        try:
            rows = pd.read_parquet(self.runs)
        except FileNotFoundError:  # no row yet
            return 0
        if rows.empty:
            return 0
        assert rows["run_key"].is_unique
        good = set(rows.loc[rows["status"] == "ok", "run_key"])
        assert self.good <= good
        self.good = good
        return len(rows)

    def until(self, count):
        """Wait until there are so many good rows, or the sweep has ended."""
        deadline = time.monotonic() + GENEROUS
        while self.command.process.poll() is None and time.monotonic() < deadline:
            self.look()
            if len(self.good) >= count:
                return
            time.sleep(0.05)

    def kill_a_run(self):
        """Kill the next process of a run that is there; one is gone again after some tenths of a second."""
        deadline = time.monotonic() + GENEROUS
        servers = self.command.processes("multiprocessing.forkserver")
        while self.command.process.poll() is None and time.monotonic() < deadline:
            with contextlib.suppress(psutil.Error):
                children = [child for server in servers for child in server.children()]
                if children:
                    time.sleep(self.random.uniform(0, 0.3))
                    self.random.choice(children).kill()
                    self.killed += 1
                    return
            time.sleep(0.01)

    def end(self, number=None):
        if number is not None:
            self.command.process.send_signal(number)
        done = self.command.end()
        assert self.command.leaves_no_process()
        self.look()
        return done


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_forty_good_rows_whatever_happened(tmp_path, seed):
    """Exactly forty in the end, each `ok`, none twice, none lost on the way."""
    with small_disk(tmp_path / "disk", "32m") as disk:
        chaos = Chaos(disk, seed)
        chance = chaos.random

        chaos.start("sweep_id=chaos")
        for count in sorted(chance.sample(range(1, 9), 3)):
            chaos.until(count)
            chaos.kill_a_run()
        chaos.until(chance.randint(9, 11))
        chaos.end(signal.SIGKILL)
        assert len(chaos.good) < 40

        chaos.start("resume=latest")
        chaos.until(len(chaos.good) + chance.randint(2, 4))
        ballast = fill(disk)
        chaos.until(len(chaos.good) + 1)  # rows may still find room in what a run gives back
        time.sleep(chance.uniform(1, 3))
        done = chaos.end(signal.SIGTERM)
        assert done.code != 0
        ballast.unlink()

        chaos.start("resume=chaos")
        for count in sorted(chance.sample(range(1, 6), 2)):
            chaos.until(len(chaos.good) + count)
            chaos.kill_a_run()
        chaos.until(chance.randint(26, 30))
        chaos.end(chance.choice([signal.SIGKILL, signal.SIGTERM, signal.SIGINT]))
        assert chaos.killed >= 3

        for _ in range(5):
            chaos.start("resume=latest")
            if chaos.end().code == 0:
                break
        rows = pd.read_parquet(chaos.runs)
        assert len(rows) == 40
        assert set(rows["status"]) == {"ok"}
        assert rows["run_key"].nunique() == 40
        assert sorted(rows["job"]) == list(range(40))
        assert set(rows["sweep_id"]) == {"chaos"}
