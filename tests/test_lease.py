"""A device for one timing run at a time, with real processes."""

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from src import lease
from src.lease import Lease

ROOT = Path(__file__).parents[1]
GENEROUS = 60.0

HOLDER = """
import sys
from src.lease import Lease
names, how = sys.argv[1].split(","), sys.argv[2]
held = Lease(names, lambda: print("waits", flush=True), lambda *told: None)
if how == "share":
    held.share()
    print("holds", flush=True)
    input()
else:
    with held.alone():
        print("holds", flush=True)
        input()
print("ends", flush=True)
"""


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.setenv(lease.FOLDER, str(tmp_path / "leases"))
    return tmp_path / "leases"


@pytest.fixture
def start():
    """Return a function that starts a process which takes devices and says so."""
    started = []

    def start(names, how="alone"):
        process = subprocess.Popen(
            [sys.executable, "-c", HOLDER, names, how],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()


def says(process):
    return process.stdout.readline().strip()


def go_on(process):
    process.stdin.write("\n")
    process.stdin.flush()


class TestAlone:
    def test_another_process_waits_until_the_device_is_given_back(self, start):
        first = start("gpu-a")
        assert says(first) == "holds"
        second = start("gpu-a")
        assert says(second) == "waits"
        go_on(first)
        assert says(second) == "holds"

    def test_a_device_that_is_shared_is_waited_for_and_no_more_share_it_meanwhile(self, start):
        """Who waits to be alone is not passed by those who would share."""
        first = start("gpu-a", "share")
        assert says(first) == "holds"
        second = start("gpu-a", "share")
        assert says(second) == "holds"
        alone = start("gpu-a")
        assert says(alone) == "waits"
        third = start("gpu-a", "share")
        assert says(third) == "waits"
        go_on(first)
        go_on(second)
        assert says(alone) == "holds"
        go_on(alone)
        assert says(third) == "holds"

    @pytest.mark.parametrize(
        ("names", "second"),
        [("gpu-b", "holds"), ("cpu-2,cpu-3", "holds"), ("cpu-1,cpu-2", "waits"), ("cpu-0", "waits")],
    )
    def test_devices_are_apart_and_cpus_that_overlap_are_not(self, start, names, second):
        first = start("cpu-0,cpu-1")
        assert says(first) == "holds"
        assert says(start(names)) == second

    def test_a_holder_that_is_killed_holds_nothing(self, start):
        """The system gives up its locks; no file has to be removed."""
        first = start("gpu-a")
        assert says(first) == "holds"
        second = start("gpu-a")
        assert says(second) == "waits"
        os.kill(first.pid, signal.SIGKILL)
        assert says(second) == "holds"

    def test_a_file_that_was_removed_while_it_was_waited_for_is_no_lock(self, folder, monkeypatch):
        """Who comes later makes a new one, and both must meet there."""
        plainly, gone = lease._opened, []

        def removed_at_first(path):
            descriptor = plainly(path)
            if path.name == "gpu-a.lock" and not gone:
                path.unlink()
                gone.append(path)
            return descriptor

        monkeypatch.setattr(lease, "_opened", removed_at_first)
        descriptor = lease.taken_if_free("gpu-a")
        assert gone
        assert os.path.samestat(os.fstat(descriptor), (folder / "gpu-a.lock").stat())
        assert lease.taken_if_free("gpu-a") is None
        os.close(descriptor)


class TestTold:
    def test_what_was_waited_and_when_the_device_was_ones_own(self):
        """Nothing was waited where nobody else was there; from and until are in order, and in UTC."""
        told = []
        held = Lease(["gpu-a"], lambda: told.append("waits"), lambda *what: told.append(what))
        held.share()
        with held.alone():
            pass
        shared, (waited, start, end) = told
        assert shared == (0.0, None, None)
        assert waited == 0.0
        assert start <= end
        assert start.utcoffset().total_seconds() == 0

    def test_a_wait_is_told_before_it_begins(self):
        """So that it does not count as time of the run."""
        told, other = [], Lease(["gpu-a"], lambda: None, lambda *_: None)
        waits = threading.Event()
        held = Lease(["gpu-a"], waits.set, lambda *what: told.append(what))
        with other.alone():
            thread = threading.Thread(target=held.share)
            thread.start()
            assert waits.wait(GENEROUS)
            assert told == []
        thread.join(GENEROUS)
        assert told[0][0] > 0

    def test_nothing_where_the_folder_cannot_be_made(self, tmp_path, monkeypatch):
        """The run goes on, and its row says nothing of a lease."""
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(lease.FOLDER, str(tmp_path / "file" / "below"))
        told = []
        held = Lease(["gpu-a"], lambda: told.append("waits"), lambda *what: told.append(what))
        held.share()
        with held.alone():
            pass
        assert told == []


class TestUsers:
    def test_files_and_folder_are_for_everybody(self, folder):
        """Whatever the umask of who came first."""
        before = os.umask(0o077)
        try:
            Lease(["gpu-a"], lambda: None, lambda *_: None).share()
        finally:
            os.umask(before)
        assert folder.stat().st_mode & 0o7777 == 0o1777
        assert {file.name: file.stat().st_mode & 0o777 for file in folder.iterdir()} == {
            "gpu-a.gate": 0o666,
            "gpu-a.lock": 0o666,
        }

    def test_another_users_file_is_opened_without_the_right_to_write_it(self, folder, start):
        """The kernel may refuse to create what another has made in such a folder."""
        if os.getuid() != 0:
            pytest.skip("needs root, to become another user")
        os.close(lease.taken_if_free("gpu-a"))
        for file in folder.iterdir():
            file.chmod(0o644)
        folder.parent.chmod(0o755)
        code = (
            "import os, sys; sys.path.insert(0, sys.argv[2]); from src import lease;"
            "os.setgroups([]); os.setgid(65534); os.setuid(65534);"
            "os.environ[lease.FOLDER] = sys.argv[1];"
            "print(lease.taken_if_free('gpu-a') is not None)"
        )
        for above in folder.parents:  # pytest's own are closed to others
            if not above.stat().st_mode & 1:
                above.chmod(above.stat().st_mode | 1)
        done = subprocess.run(
            [sys.executable, "-c", code, folder, ROOT], cwd="/", capture_output=True, text=True, check=False
        )
        assert (done.stdout, done.stderr) == ("True\n", "")


def test_the_folder_is_the_same_for_all_users_of_a_host(monkeypatch):
    """Whatever their TMPDIR, and only where everybody may write."""
    monkeypatch.delenv(lease.FOLDER)
    monkeypatch.setenv("TMPDIR", "/nonexistent")
    found = lease._folder_for_everybody()
    assert str(found) in {f"{place}/stepsweep" for place in lease._FOR_EVERYBODY}
