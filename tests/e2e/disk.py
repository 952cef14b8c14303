"""A small disk that a test may fill: a tmpfs of its own."""

import contextlib
import os
import subprocess
from pathlib import Path

from tests.needed import missing


@contextlib.contextmanager
def small_disk(folder: Path, size: str):
    """Mount a tmpfs of that size on `folder` while this is entered; `missing` where that is not allowed."""
    folder.mkdir(parents=True)
    mounted = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={size}", "tmpfs", folder],
        capture_output=True,
        text=True,
        check=False,
    )
    if mounted.returncode:
        missing(f"no tmpfs of one's own, which needs root: {mounted.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", folder], check=False)


def fill(folder: Path) -> Path:
    """Fill the disk to the last byte; return the file that does it."""
    ballast = folder / "ballast"
    with contextlib.suppress(OSError), ballast.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(os.statvfs(folder).f_frsize))
    return ballast
