"""Where the project's folders are, in a checkout and in an installed wheel."""

from pathlib import Path

_PACKAGE = Path(__file__).resolve().parent


def project_root() -> Path:
    """Return the checkout, or the current directory when the package is installed from a wheel."""
    checkout = _PACKAGE.parent
    return checkout if (checkout / "pyproject.toml").is_file() else Path.cwd()


def share_root() -> Path:
    """Return the folder that holds `conf/` and `experiments/`."""
    packaged = _PACKAGE / "share"
    return packaged if packaged.is_dir() else _PACKAGE.parent


def output_dir() -> Path:
    """Return the default folder of rows, logs and caches."""
    return project_root() / "outputs"
