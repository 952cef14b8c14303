"""What the pages for users show: commands, files, tables, links, and a folder in which the commands run."""

import re
import shlex
from dataclasses import dataclass
from pathlib import Path

from tests.e2e.command import Command

ROOT = Path(__file__).parents[1]

ELSEWHERE = "# with "
"""How a block of commands begins that needs what no test has: such a block is checked and not run."""

SHORT = (
    *("measure.max_seconds=0.2", "measure.warm_up_seconds=0.2", "measure.min_block_seconds=0.001"),
    *("measure.trace_steps=3", "measure.warm_compile=false", "device=cpu"),
)
"""Appended to a command, so that it takes seconds: how long it measures is not what a page is about."""


@dataclass(frozen=True)
class Shown:
    """A command of a page."""

    line: str
    here: bool
    """Whether it can run here."""

    @property
    def environment(self):
        """Return the variables before the program."""
        return dict(word.split("=", 1) for word in self._words if is_variable(word))

    @property
    def arguments(self):
        """Return the arguments of `python -m src.run`; None where the program is another."""
        words = [word for word in self._words if not is_variable(word)]
        return words[3:] if words[:3] == ["python", "-m", "src.run"] else None

    @property
    def _words(self):
        return shlex.split(self.line, comments=True)


def is_variable(word):
    """Return whether a word of a command sets a variable for it."""
    return re.match(r"[A-Z_]+=", word) is not None


def text(page):
    """Return a page, by its path in the repository."""
    return (ROOT / page).read_text(encoding="utf-8")


def blocks(page, language):
    """Return the code blocks of a page in a language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", text(page), re.DOTALL | re.MULTILINE)


def commands(page):
    """Return the commands of a page in their order."""
    return [
        Shown(line, here=not block.startswith(ELSEWHERE))
        for block in blocks(page, "bash")
        for line in block.splitlines()
        if line and not line.startswith("#")
    ]


def files(page):
    """Return the files that a page shows, by the names in their first lines."""
    found = {}
    for block in blocks(page, "python"):
        named = re.match(r"# (\w+\.py)\n", block)
        if named:
            found[named[1]] = block
    return found


def table(page, *header):
    """Return the rows of the table of a page with these column heads, without the marks of code."""
    lines = iter(text(page).splitlines())
    wanted = _cells("| " + " | ".join(header) + " |")
    for line in lines:
        if line.startswith("|") and _cells(line) == wanted:
            next(lines)
            break
    else:
        raise AssertionError(f"{page} has no table {header}")
    rows = []
    for line in lines:
        if not line.startswith("|"):
            break
        rows.append(_cells(line))
    return rows


def _cells(line):
    """Return the cells of a line of a table."""
    return [re.sub(r"`([^`]*)`", r"\1", cell).strip() for cell in line.strip().strip("|").split(" | ")]


class Folder:
    """A folder in which the commands of a page are run, one after the other."""

    def __init__(self, path, page):
        """Write the files of the page into it."""
        self.path, self.page = path, page
        for name, code in files(page).items():
            (path / name).write_text(code, encoding="utf-8")

    def run(self, shown, *more):
        """Run a command with `more` overrides to its end, and return it with its own rows alone."""
        known = self.sweeps()
        done = Command(self.path, *shown.arguments, *SHORT, *more, environment=shown.environment).end()
        (new,) = self.sweeps() - known
        return Done(done, self.path, new)

    def run_all(self, *more):
        """Run every command of the page that can run here, in their order."""
        return [self.run(shown, *more) for shown in commands(self.page) if shown.here and shown.arguments]

    def sweeps(self):
        """Return the folders of rows."""
        return set((self.path / "out" / "runs").glob("sweep=*"))


@dataclass(frozen=True)
class Done:
    """A command that has run."""

    command: Command
    command_folder: Path
    """Where it was given."""
    sweep: Path
    """Folder of its rows."""

    @property
    def output_dir(self):
        """Return the folder of rows, logs and caches."""
        return self.command.output_dir

    @property
    def rows(self):
        """Return its rows in the order of its runs, as dictionaries."""
        import pandas as pd  # as in `Command`

        rows = pd.read_parquet(self.sweep).sort_values("job")
        return rows.astype(object).where(rows.notna(), None).to_dict("records")

    @property
    def row(self):
        """Return its only row."""
        (row,) = self.rows
        return row

    def log(self, name="run.log", job=0):
        """Return the text of a log."""
        folder = self.output_dir / "logs" / self.sweep.name.removeprefix("sweep=")
        return (folder / str(job) / name).read_text(encoding="utf-8", errors="replace")
