"""Which stepsweep made a row."""

import subprocess
from functools import cache
from importlib.metadata import PackageNotFoundError, version

from src.paths import project_root


@cache
def stepsweep_version() -> str | None:
    """Return the installed version, None when the package is run without being installed."""
    try:
        return version("stepsweep")
    except PackageNotFoundError:
        return None


@cache
def stepsweep_commit() -> str | None:
    """Return the git commit of the checkout, with `+dirty` when tracked files were edited."""
    commit = _git("rev-parse", "HEAD")
    if not commit:
        return None
    return commit + ("+dirty" if _git("status", "--porcelain", "--untracked-files=no") else "")


def _git(*arguments: str) -> str | None:
    if not (project_root() / ".git").exists():
        return None
    try:
        done = subprocess.run(
            ["git", *arguments], cwd=project_root(), capture_output=True, text=True, check=False, timeout=10
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 else None
