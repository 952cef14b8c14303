"""The on-disk compile cache of each run.

In an empty cache directory most of the first compile is not the user's model but inductor getting
to know the machine: which vector instructions the compiler and the CPU have, precompiled headers.
So that is probed once per sweep, in a directory of its own, and every cold run starts from a copy
without any compiled graph. What the probe took is reported once, apart from the compile seconds.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from filelock import FileLock

GRAPH_CACHE_FOLDERS = ("fxgraph", "aotautograd")
"""Folders of compiled graphs, without which a compile is cold (bench.torch_private says more)."""


@dataclass(frozen=True, slots=True)
class Cache:
    """The compile cache of one run."""

    folder: Path
    toolchain_s: float | None
    """What the probe of the toolchain took in s; None when it was not needed or failed."""
    temporary: bool
    """Whether the folder belongs to this run alone and goes when the run ends."""
    bytes_before: int

    def environment(self) -> dict[str, str]:
        """Return the variables that make torch use this cache."""
        return {
            "TORCHINDUCTOR_CACHE_DIR": str(self.folder),
            "TRITON_CACHE_DIR": str(self.folder / "triton"),
        }

    def grown_bytes(self) -> int:
        """Return by how many bytes the cache has grown."""
        return max(0, folder_bytes(self.folder) - self.bytes_before)


Probe = Callable[[Path], float | None]
"""Compiles something trivial in that cache folder; returns seconds, None when not needed or failed."""


def sweep_folder(output_dir: Path, sweep_id: str) -> Path:
    """Return the folder of a sweep's cold caches."""
    return output_dir / "cache" / f"sweep={sweep_id}"


def prepare(output_dir: Path, sweep_id: str, run_name: str, *, shared: str | None, probe: Probe) -> Cache:
    """Make the cache folder of one run: a cold one of its own, or the one of the name `shared`.

    Raises:
        OSError: the folder cannot be made.
    """
    if shared is not None:
        folder = output_dir / "cache" / shared
        toolchain_s = _probed(folder, probe, keep_graphs=True)
        return Cache(folder, toolchain_s, temporary=False, bytes_before=folder_bytes(folder))
    sweep = sweep_folder(output_dir, sweep_id)
    seed = sweep / "toolchain"
    toolchain_s = _probed(seed, probe, keep_graphs=False)
    folder = sweep / run_name
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(seed, folder, symlinks=True)
    return Cache(folder, toolchain_s, temporary=True, bytes_before=folder_bytes(folder))


def _probed(folder: Path, probe: Probe, *, keep_graphs: bool) -> float | None:
    """Return the seconds of the folder's probe, made by the first run that needs it."""
    folder.mkdir(parents=True, exist_ok=True)
    note = folder.with_name(folder.name + ".json")
    with FileLock(folder.with_name(folder.name + ".lock")):
        noted = _noted_seconds(note)
        if noted is not None:
            return noted
        seconds = probe(folder)
        if not keep_graphs:
            for name in GRAPH_CACHE_FOLDERS:
                shutil.rmtree(folder / name, ignore_errors=True)
        if seconds is not None:
            note.write_text(json.dumps({"toolchain_s": seconds}))
        return seconds


def _noted_seconds(note: Path) -> float | None:
    """Return what an earlier run noted; None where none did, or did not get to the end of it."""
    try:
        return float(json.loads(note.read_text())["toolchain_s"])
    except (FileNotFoundError, ValueError, KeyError, TypeError):
        return None


def remove_sweep(output_dir: Path, sweep_id: str, *, keep_runs: bool) -> None:
    """Remove a sweep's cold caches; with `keep_runs` only the probed toolchain."""
    sweep = sweep_folder(output_dir, sweep_id)
    if keep_runs:
        shutil.rmtree(sweep / "toolchain", ignore_errors=True)
        for left in sweep.glob("toolchain.*"):
            left.unlink(missing_ok=True)
    else:
        shutil.rmtree(sweep, ignore_errors=True)


def folder_bytes(folder: Path) -> int:
    """Return the size of all files under `folder` in bytes."""
    return sum(p.lstat().st_size for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
