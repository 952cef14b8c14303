"""A device for one timing run at a time, over all processes and users of a host.

A run shares its devices with others while it builds and compiles, and has them alone while it times: runs
compile side by side and take turns. Nothing of ours compiles on a device that something of ours times.

Each device has two files that are locked with flock(2), which the system gives up when its holder ends,
however it ends: the lock itself, shared or exclusive, and a gate that is passed to get it. Who waits for
the lock alone keeps the gate, so that those who would share it do not pass for ever. Devices are taken in
the order of their names, so that no two runs wait for each other.

filelock, which keeps the caches, opens its files for writing and creates them: in a folder for everybody
the kernel refuses that for the file of another user (proc_sys_fs(5), protected_regular).
"""

import contextlib
import os
import stat
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

try:
    import fcntl
except ImportError:  # not a Unix
    fcntl = None  # type: ignore[assignment]

FOLDER = "STEPSWEEP_LEASES"
"""Environment variable with the folder of the files, for containers that share devices and not /run/lock."""

_FOR_EVERYBODY = ("/run/lock", "/tmp")  # noqa: S108  # the same for all users, whatever their TMPDIR

Told = Callable[[float, datetime | None, datetime | None], None]
"""Hears the seconds that a lease was waited for, and from when until when the devices were one's own;
None where they were shared."""


class Lease:
    """The devices of one process."""

    def __init__(self, names: Sequence[str], waiting: Callable[[], None], told: Told) -> None:
        """Get ready; nothing is held yet.

        Args:
            names: of the devices, good as file names.
            waiting: called before a wait, if there is one.
            told: called when a lease was shared, and when one was given back.
        """
        self._names = sorted(names)
        self._waiting = waiting
        self._told = told
        self._held: list[int] = []

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Have the devices to oneself while this is entered; they are not shared afterwards."""
        waited = self._take(alone=True)
        start = datetime.now(UTC)
        try:
            yield
        finally:
            end = datetime.now(UTC)
            self.give_back()
            if waited is not None:
                self._told(waited, start, end)

    def share(self) -> None:
        """Share the devices with others, from now until `alone` or `give_back`."""
        waited = self._take(alone=False)
        if waited is not None:
            self._told(waited, None, None)

    def give_back(self) -> None:
        """Hold nothing any more."""
        for descriptor in self._held:
            os.close(descriptor)
        self._held = []

    def _take(self, *, alone: bool) -> float | None:
        """Take every device; return the seconds waited, None where the host has no place for leases."""
        self.give_back()
        if fcntl is None:
            return None
        kind = fcntl.LOCK_EX if alone else fcntl.LOCK_SH
        start = time.monotonic()
        try:
            if self._take_all(kind | fcntl.LOCK_NB):
                return 0.0
            self._waiting()
            self._take_all(kind)
        except OSError:  # such as a folder that cannot be made: the row says that nothing was leased
            self.give_back()
            return None
        return time.monotonic() - start

    def _take_all(self, kind: int) -> bool:
        for name in self._names:
            taken = take(name, kind)
            if taken is None:
                self.give_back()
                return False
            self._held.append(taken)
        return True


def take(name: str, kind: int) -> int | None:
    """Lock a device's file and return its descriptor, which keeps the lock until it is closed.

    Args:
        name: of the device.
        kind: `fcntl.LOCK_SH` or `LOCK_EX`, with `LOCK_NB` not to wait.

    Returns:
        The descriptor, or None where another process has the lock and `kind` does not wait.

    Raises:
        OSError: the file cannot be made.
    """
    try:
        gate = _locked(f"{name}.gate", fcntl.LOCK_EX | kind & fcntl.LOCK_NB)
        try:
            return _locked(f"{name}.lock", kind)
        finally:
            os.close(gate)
    except BlockingIOError:
        return None


def taken_if_free(name: str) -> int | None:
    """Lock a name of which there is one, and return the descriptor that keeps it; None where it is taken.

    Raises:
        OSError: the host has no place for leases.
    """
    if fcntl is None:
        raise OSError("no flock on this system")
    return take(name, fcntl.LOCK_EX | fcntl.LOCK_NB)


def _locked(file: str, kind: int) -> int:
    while True:
        path = folder() / file
        descriptor = _opened(path)
        try:
            fcntl.flock(descriptor, kind)
            # What cleans a folder of old files may have removed it, and another process made it anew.
            if _is_at(descriptor, path):
                return descriptor
        except BaseException:
            os.close(descriptor)
            raise
        os.close(descriptor)


def _is_at(descriptor: int, path: Path) -> bool:
    try:
        return os.path.samestat(os.fstat(descriptor), os.stat(path))
    except FileNotFoundError:
        return False


def _opened(path: Path) -> int:
    """Open a file that every user may open, and make it where there is none."""
    how = os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW
    try:
        return os.open(path, how)
    except FileNotFoundError:
        descriptor = os.open(path, how | os.O_CREAT, 0o666)
        with contextlib.suppress(OSError):  # another user has made it just now
            os.fchmod(descriptor, 0o666)  # whatever the umask says
        return descriptor


def folder() -> Path:
    """Return the folder of the files, and make it where there is none.

    Raises:
        OSError: it cannot be made.
    """
    asked = os.environ.get(FOLDER)
    found = Path(asked) if asked else _folder_for_everybody()
    try:
        found.mkdir(parents=True)
    except FileExistsError:
        return found
    with contextlib.suppress(OSError):
        found.chmod(0o1777)
    return found


def _folder_for_everybody() -> Path:
    for place in _FOR_EVERYBODY:
        with contextlib.suppress(OSError):
            if os.stat(place).st_mode & stat.S_IWOTH:
                return Path(place) / "stepsweep"
    raise FileNotFoundError("no folder for all users")
