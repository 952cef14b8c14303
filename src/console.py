"""What an entry says and writes: output, files, errors. Knows nothing of rows or tables."""

import gc
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NoReturn

OK, UNREADABLE, REFUSED = 0, 1, 2
"""Exit codes: all went well; a file could not be read, the rest did; the user's own mistake."""


def run(main: Callable[[], int]) -> NoReturn:
    """Run an entry as all that its process does, and leave with its exit code.

    Without the collector of cyclic garbage: rows and cells are millions of objects and no cycles, of which it
    finds nothing and takes a fifth of the time to do so.
    """
    gc.disable()
    sys.exit(main())


def escaped(text: str) -> str:
    """Return `text` with what could steer a terminal written as an escape; lines stay lines."""
    if text.isprintable():
        return text
    return "".join(c if c.isprintable() or c == "\n" else c.encode("unicode_escape").decode() for c in text)


def width() -> int:
    """Return the columns of the terminal, 80 where there is none."""
    return shutil.get_terminal_size((80, 24)).columns


def unicode() -> bool:
    """Return whether what reads the output takes every character."""
    return (getattr(sys.stdout, "encoding", None) or "").lower().replace("-", "") == "utf8"


def say(text: str) -> None:
    """Print `text` as it is. A reader that has enough (`| head`) is no error."""
    try:
        print(text, end="")  # noqa: T201 - an entry talks
        sys.stdout.flush()
    except BrokenPipeError:
        # Python would complain again when it flushes at its end.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="")  # noqa: T201


def tell(text: str) -> None:
    """Say on stderr, beside the output, what was done. Names of files may be anyone's: they are escaped."""
    print(escaped(text), file=sys.stderr)  # noqa: T201


def tell_unreadable(unreadable: Mapping[Path, str]) -> int:
    """Name the files that could not be read, and return the exit code that follows."""
    for file, reason in unreadable.items():
        tell(f"skipped {file}: {reason}")
    return UNREADABLE if unreadable else OK


def refuse(message: str) -> int:
    """Tell the user's own mistake, and return the exit code that follows."""
    tell(f"error: {message}")
    return REFUSED


def write(folder: Path, contents: Mapping[str, bytes]) -> None:
    """Write files of these names; each appears whole or not at all.

    Raises:
        OSError: the folder cannot be made, or a file cannot be written.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for name, content in contents.items():
        temporary = folder / f".{name}.{secrets.token_hex(4)}.tmp"
        try:
            temporary.write_bytes(content)
            temporary.replace(folder / name)
        finally:
            temporary.unlink(missing_ok=True)
