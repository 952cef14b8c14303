"""What an entry says and writes: output, files, errors. Knows nothing of rows or tables."""

import argparse
import gc
import os
import secrets
import shutil
import sys
from collections.abc import Callable, Mapping
from pathlib import Path

OK, UNREADABLE, REFUSED, INTERRUPTED = 0, 1, 2, 130
"""Exit codes: all went well; a file could not be read, the rest did; the user's own mistake; Ctrl-C."""


def run(main: Callable[[], int]) -> int:
    """Return what an entry returns; Ctrl-C ends it in one line.

    The collector of cyclic garbage rests: rows and cells are millions of objects and no cycles, of which it
    finds nothing and takes a fifth of the time to do so.
    """
    collects = gc.isenabled()
    gc.disable()
    try:
        return main()
    except KeyboardInterrupt:
        tell("interrupted")
        return INTERRUPTED
    finally:
        if collects:
            gc.enable()


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


def path(text: str) -> Path:
    """Return a path of the command line; an empty one, such as a variable that is not set, is none.

    Raises:
        argparse.ArgumentTypeError: it is empty.
    """
    if not text.strip():
        raise argparse.ArgumentTypeError("must be a path: got an empty text")
    return Path(text)


def say(text: str) -> None:
    """Print `text` as it is. A reader that has enough (`| head`) is no error, nor a closed output.

    Raises:
        SystemExit: the output cannot take it, such as a full disk.
    """
    if sys.stdout is None:
        return
    try:
        print(text, end="")  # noqa: T201 - an entry talks
        sys.stdout.flush()
    except BrokenPipeError:
        _silence()
    except UnicodeEncodeError:
        encoding = sys.stdout.encoding
        print(text.encode(encoding, "backslashreplace").decode(encoding), end="")  # noqa: T201
    except OSError as error:
        _silence()
        raise SystemExit(refuse(f"cannot write the output: {error.strerror or error}")) from None


def _silence() -> None:
    """Send what is still to come nowhere: Python would complain again when it flushes at its end."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def tell(text: str) -> None:
    """Say on stderr what was done, beside the output. What could steer a terminal is written as an escape."""
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
        target = (folder / name).resolve()  # a link stays one
        if target.exists() and not target.is_file():
            target.write_bytes(content)  # a device or a pipe is written to, never replaced
            continue
        temporary = target.with_name(f".{target.name}.{secrets.token_hex(4)}.tmp")
        try:
            temporary.write_bytes(content)
            temporary.replace(target)
        finally:
            temporary.unlink(missing_ok=True)
