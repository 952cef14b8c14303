r"""A document as LaTeX: tabulars for booktabs and siunitx, footnotes below them.

Every character of a name is escaped, also those that a plain pdflatex has no letter for, so that the
result is ASCII and compiles whatever the rows say.
"""

# ruff: noqa: RUF001 - the characters that look like others are what this module is about

import re
import unicodedata
from collections.abc import Iterator, Sequence

from src.analysis import format as fmt
from src.analysis.document import Column, Document, Entry, Grid, Line

_CHARACTERS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "&": r"\&",
    "%": r"\%",
    "$": r"\$",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    '"': r"\texttt{\char34}",  # \textquotedbl is not there in the default encoding
    "`": r"\`{}",
    "[": "{[}",  # after a line's \\ a bare bracket would be its optional argument, a star a variant
    "]": "{]}",
    "*": "{*}",
    "±": r"$\pm$",
    "×": r"$\times$",
    "·": r"$\cdot$",
    "°": r"$^{\circ}$",
    "≤": r"$\leq$",
    "≥": r"$\geq$",
    "≠": r"$\neq$",
    "≈": r"$\approx$",
    "→": r"$\rightarrow$",
    "←": r"$\leftarrow$",
    "∞": r"$\infty$",
    "−": "$-$",
    "²": "$^2$",
    "³": "$^3$",
    "–": "--",
    "—": "---",
    "…": r"\dots{}",
    "‘": "`{}",
    "’": "'{}",
    "“": "``{}",
    "”": "''{}",
    "§": r"\S{}",
    "©": r"\copyright{}",
    "ß": r"\ss{}",
    "æ": r"\ae{}",
    "Æ": r"\AE{}",
    "œ": r"\oe{}",
    "Œ": r"\OE{}",
    "ø": r"\o{}",
    "Ø": r"\O{}",
    "ł": r"\l{}",
    "Ł": r"\L{}",
    "ı": r"\i{}",
    "\u00a0": "~",
    "\u00ad": r"\-",
}

_GREEK = (
    *("alpha", "beta", "gamma", "delta", "epsilon", "zeta", "eta", "theta", "iota", "kappa", "lambda", "mu"),
    *("nu", "xi", None, "pi", "rho", None, "sigma", "tau", "upsilon", "phi", "chi", "psi", "omega"),
)
_CHARACTERS |= {chr(0x3B1 + i): rf"$\{name}$" for i, name in enumerate(_GREEK) if name}
_CHARACTERS |= {"µ": r"$\mu$", "ο": "$o$", "Δ": r"$\Delta$", "Σ": r"$\Sigma$", "Ω": r"$\Omega$"}

_ACCENTS = {
    "\u0300": r"\`",
    "\u0301": r"\'",
    "\u0302": r"\^",
    "\u0303": r"\~",
    "\u0304": r"\=",
    "\u0306": r"\u",
    "\u0307": r"\.",
    "\u0308": r"\"",
    "\u030a": r"\r",
    "\u030b": r"\H",
    "\u030c": r"\v",
    "\u0327": r"\c",
}

_BARE_NUMBER = re.compile(r"([+-]?)(\d+)(?:\.(\d+))?")


def escape(text: str) -> str:
    r"""Return `text` such that LaTeX prints it as it is.

    A character that plain LaTeX has no letter for is shown by its number, such as `U+4E2D`.
    """
    # Pairs that fonts join into one sign are kept apart: -- and ,, and ''.
    before = ["", *text]
    return "".join(
        ("{}" if character == last and character in "-,'" else "") + _escaped(character)
        for last, character in zip(before, text, strict=False)
    )


def _escaped(character: str) -> str:
    if character in _CHARACTERS:
        return _CHARACTERS[character]
    if " " <= character <= "~":
        return character
    letter, *accents = list(unicodedata.normalize("NFD", character))
    if len(accents) == 1 and accents[0] in _ACCENTS and letter.isascii() and letter.isalpha():
        return f"{_ACCENTS[accents[0]]}{{{letter}}}"
    return rf"\texttt{{U+{ord(character):04X}}}"


def to_latex(document: Document, label: str = "") -> str:
    r"""Return the document as LaTeX; `label` is what `\label` may be called.

    What stands above the tables becomes comments, to be used in a caption.
    """
    tables = [_tabular(grid) for grid in document.grids]
    parts = [
        "% needs \\usepackage{" + ",".join(_packages(document, tables)) + "}",
        # On one line each, so that nothing of a text leaves its comment.
        *(f"% {fmt.plain(text)}" for text in (document.title, *document.head)),
        rf"% \begin{{table}}\centering\caption{{{escape(document.title)}}}\label{{tab:{_label(label)}}}"
        r" \input{this file} \end{table}",
    ]
    for grid, table in zip(document.grids, tables, strict=True):
        if grid.title:
            parts += ["", rf"\medskip\noindent {escape(grid.title)}", ""]
        parts.append(table)
    parts += [f"\n\\medskip\\noindent {escape(text)}" for text in document.remarks]
    parts += _small(rf"{escape(mark)}: {escape(text)}\par" for mark, text in document.legend)
    parts += _small(
        rf"\textsuperscript{{{number}}} {escape(text)}\par"
        for number, text in enumerate(document.footnotes, 1)
    )
    return "\n".join(parts) + "\n"


def _label(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9-]", "-", name) or "stepsweep"


def _packages(document: Document, tables: Sequence[str]) -> Iterator[str]:
    yield "booktabs"
    if any("S[table-format" in table for table in tables):
        yield "siunitx"
    if any(grid.divisible for grid in document.grids):
        yield "graphicx"


def _small(lines: Iterator[str]) -> list[str]:
    listed = list(lines)
    return ["", r"\medskip{\footnotesize\parindent0pt", *listed, "}"] if listed else []


def _tabular(grid: Grid) -> str:
    formats = [
        _format(column, [line.entries[i] for line in grid.lines]) for i, column in enumerate(grid.columns)
    ]
    labels = len(grid.label_titles)
    layout = "l" * labels + "".join(formats)
    heads = [line for level in range(grid.levels) for line in _heads(grid, level, labels)]
    titles = [escape(title) for title in grid.label_titles]
    for column, layout_of in zip(grid.columns, formats, strict=True):
        title = escape(column.title)
        # A page has room for many narrow columns, but not for their titles side by side.
        title = rf"\rotatebox{{90}}{{{title}}}" if grid.divisible else title
        titles.append(_braced(title, layout_of))
    rows = [" & ".join(_row(line, grid.note_at, formats)) + r" \\" for line in grid.lines]
    return "\n".join(
        [
            rf"\begin{{tabular}}{{{layout}}}",
            r"\toprule",
            *heads,
            " & ".join(titles) + r" \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
        ]
    )


def _heads(grid: Grid, level: int, labels: int) -> Iterator[str]:
    """Yield a line of heads and the rules below them."""
    cells, rules = ["" for _ in range(labels)], []
    at = labels
    for head, width in grid.spans(level):
        cells.append(rf"\multicolumn{{{width}}}{{c}}{{{escape(head)}}}")
        if head:
            rules.append(rf"\cmidrule(lr){{{at + 1}-{at + width}}}")
        at += width
    yield " & ".join(cells) + r" \\"
    if rules:
        yield "".join(rules)


def _format(column: Column, entries: Sequence[Entry]) -> str:
    """Return the type of a column: S of siunitx where all that it has is bare numbers."""
    if not column.number:
        return "l"
    numbers = [_BARE_NUMBER.fullmatch("".join(entry)) for entry in entries if _is_number(entry)]
    others = [entry for entry in entries if not _is_number(entry)]
    if not numbers or any(len(entry) > 1 or any(map(str.isdigit, "".join(entry))) for entry in others):
        return "r"
    found = [match for match in numbers if match is not None]
    signed = any(match[1] for match in found)
    whole, decimals = (max(len(match[n] or "") for match in found) for n in (2, 3))
    plus = ",retain-explicit-plus" if any(match[1] == "+" for match in found) else ""
    return f"S[table-format={'+' if plus else '-' if signed else ''}{whole}.{decimals}{plus}]"


def _is_number(entry: Entry) -> bool:
    return len(entry) == 1 and _BARE_NUMBER.fullmatch(entry[0]) is not None


def _braced(text: str, layout: str) -> str:
    """Return what is no number for a column of numbers: in braces, where siunitx leaves it alone."""
    return f"{{{text}}}" if layout.startswith("S") else text


def _row(line: Line, note_at: int, formats: Sequence[str]) -> list[str]:
    labels = [escape(label) for label in line.labels]
    marks = [line.notes_of(i) for i in range(len(line.entries))]
    at = note_at if note_at >= 0 else len(labels) + len(marks) + note_at
    if line.notes and at >= len(labels):
        marks[at - len(labels)] += line.notes
    elif line.notes:
        labels[at] += _sup(line.notes)
    entries = []
    for entry, mark, layout in zip(line.entries, marks, formats, strict=True):
        text = escape(" ".join(entry))
        if layout.startswith("S") and _is_number(entry):
            entries.append(entry[0] + (f"{{{_sup(mark)}}}" if mark else ""))
        else:
            entries.append(_braced(text + _sup(mark), layout) if text or mark else "")
    return labels + entries


def _sup(notes: Sequence[int]) -> str:
    return rf"\textsuperscript{{{','.join(map(str, notes))}}}" if notes else ""
