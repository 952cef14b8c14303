"""Ways to show rows, and the formats of each: what is printed, and the files that are written."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from src import paths
from src.analysis import html, latex, tables, text
from src.analysis.document import Document
from src.analysis.summary import Summary

FORMATS = ("text", "markdown", "latex", "csv", "html")

ENDS = ("csv", "md", "tex", "html")
"""Ends of the names of the files of a view."""


@dataclass(frozen=True, slots=True)
class View:
    """One way to show rows: its document, the same in numbers, and the name of its files."""

    name: str
    document: Document
    to_csv: Callable[[], str]

    def printed(self, kind: str, width: int, *, unicode: bool) -> str:
        """Return the view in one of `FORMATS`; `width` and `unicode` are those of a terminal, for text."""
        if kind == "text":
            return text.render(self.document, width, unicode=unicode)
        if kind == "csv":
            return self.to_csv()
        if kind == "latex":
            return latex.to_latex(self.document, self.name)
        return {"markdown": tables.to_markdown, "html": html.to_html}[kind](self.document)

    def files(self) -> dict[str, bytes]:
        """Return the files of the view by their names."""
        kinds = zip(ENDS, ("csv", "markdown", "latex", "html"), strict=True)
        return {f"{self.name}.{end}": self.printed(kind, 0, unicode=True).encode() for end, kind in kinds}

    @property
    def file_names(self) -> str:
        """Return the names of the files in short, such as `why.csv, .md, .tex, .html`."""
        first, *others = ENDS
        return ", ".join([f"{self.name}.{first}", *(f".{end}" for end in others)])


def summaries_folder(path: Path, summary: Summary, *, everything: bool) -> Path:
    """Return the folder `summaries/<sweep or all>` in the output folder that `path` lies in."""
    absolute = path.absolute()
    runs = next((folder for folder in (absolute, *absolute.parents) if folder.name == "runs"), None)
    # A sweep's name comes from a file: it must not lead out of the folder.
    name = "all" if everything else re.sub(r"[^\w.-]", "_", str(summary.sweeps[0])).lstrip(".") or "unnamed"
    return (runs.parent if runs else paths.output_dir()) / "summaries" / name
