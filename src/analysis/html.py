"""A document as one HTML page that needs nothing else: no script, no font, no network.

Whatever a row says is escaped, and the page forbids itself to load or run anything.
"""

import html
from collections.abc import Iterator, Sequence

from src.analysis import format as fmt
from src.analysis.document import Document, Grid, Line

_STYLE = """\
:root { color-scheme: light dark;
  --line: light-dark(#c8c8c8, #4a4a4a); --link: light-dark(#0b57a4, #8ab8f0); }
body { font: 15px/1.5 system-ui, sans-serif; margin: 1.5rem auto; padding: 0 1rem; max-width: 75rem;
  color: light-dark(#1b1b1b, #e6e6e6); background: light-dark(#fff, #16181a); }
h1 { font-size: 1.35rem; line-height: 1.25; }
p { max-width: 60rem; margin: .4rem 0; overflow-wrap: anywhere; }
.wide { overflow-x: auto; margin: 1.2rem 0; }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; }
caption { text-align: left; font-weight: 600; padding-bottom: .4rem; }
th, td { padding: .25rem .7rem; text-align: left; vertical-align: baseline; }
thead th { vertical-align: bottom; border-bottom: 1px solid var(--line); }
thead th[scope=colgroup] { text-align: center; border: 0; padding-bottom: .3rem;
  background: linear-gradient(var(--line), var(--line)) bottom / calc(100% - 1.4rem) 1px no-repeat; }
tbody tr { border-bottom: 1px solid var(--line); }
tbody th { font-weight: 400; }
td.number, th.number { text-align: right; white-space: nowrap; }
td span { opacity: .75; margin-left: .45em; }
sup { font-size: .75em; line-height: 0; white-space: nowrap; padding-left: .15em; }
a { color: var(--link); }
ol, dl { max-width: 60rem; font-size: .9rem; overflow-wrap: anywhere; }
li:target { outline: 2px solid var(--link); }
dt { float: left; clear: left; font-weight: 600; margin-right: .6em; }
dd { margin: 0; }
@media print { .wide { overflow: visible; } a { color: inherit; text-decoration: none; } }
"""


def to_html(document: Document) -> str:
    """Return the document as a whole page; footnotes are linked with where they stand, both ways."""
    marks = _Marks()
    body = [f"<h1>{escape(document.title)}</h1>", *(f"<p>{escape(text)}</p>" for text in document.head)]
    for number, grid in enumerate(document.grids):
        body += _table(grid, grid.title or document.title, marks, hidden=not grid.title and number == 0)
    body += [f"<p>{escape(text)}</p>" for text in document.remarks]
    body += [*_legend(document.legend), *_notes(document.footnotes, marks)]
    return "\n".join([*_head(document.title), "<main>", *body, "</main>", "</body>", "</html>", ""])


def fragment(
    grids: Sequence[Grid],
    footnotes: Sequence[str],
    legend: Sequence[tuple[str, str]] = (),
    name: str = "note",
) -> str:
    """Return tables for a page of another maker, with those of the footnotes that they use.

    `name` tells the anchors of one fragment from those of another on the same page.
    """
    marks = _Marks(name)
    parts = [part for grid in grids for part in _table(grid, grid.title, marks, hidden=not grid.title)]
    return "\n".join([*parts, *_legend(legend), *_notes(footnotes, marks, used_alone=True)])


def escape(text: str) -> str:
    """Return `text` such that a browser shows it as it is; what steers is written as an escape."""
    return html.escape(fmt.plain(text))


def _head(title: str) -> Iterator[str]:
    yield '<!DOCTYPE html>\n<html lang="en">\n<head>\n<meta charset="utf-8">'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">'
    yield (
        '<meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
    )
    yield f"<title>{escape(title)}</title>\n<style>\n{_STYLE}</style>\n</head>\n<body>"


def _legend(legend: Sequence[tuple[str, str]]) -> Iterator[str]:
    if legend:
        yield "<dl>"
        yield from (f"<dt>{escape(mark)}</dt><dd>{escape(text)}</dd>" for mark, text in legend)
        yield "</dl>"


def _notes(footnotes: Sequence[str], marks: "_Marks", *, used_alone: bool = False) -> Iterator[str]:
    """Yield the footnotes; `used_alone` leaves out those that nothing above has a mark of."""
    notes = [(n, text) for n, text in enumerate(footnotes, 1) if marks.used(n) or not used_alone]
    if notes:
        yield '<ol aria-label="Footnotes">'
        for n, text in notes:
            number = f' value="{n}"' if used_alone else ""
            yield f'<li id="{marks.name}-{n}"{number}>{escape(text)}{marks.back(n)}</li>'
        yield "</ol>"


class _Marks:
    """Gives every mark of a footnote a name of its own, so that the footnote leads back to the first."""

    def __init__(self, name: str = "note") -> None:
        self.name = name
        self._first: dict[int, str] = {}
        self._count = 0

    def sup(self, notes: Sequence[int]) -> str:
        return f"<sup>{', '.join(map(self._mark, notes))}</sup>" if notes else ""

    def _mark(self, note: int) -> str:
        self._count += 1
        name = f"{self.name}-mark-{self._count}"
        self._first.setdefault(note, name)
        return f'<a id="{name}" href="#{self.name}-{note}" aria-label="footnote {note}">{note}</a>'

    def used(self, note: int) -> bool:
        return note in self._first

    def back(self, note: int) -> str:
        if note not in self._first:
            return ""
        return f' <a href="#{self._first[note]}" aria-label="back to the table">&#8617;</a>'


def _table(grid: Grid, caption: str, marks: _Marks, *, hidden: bool) -> Iterator[str]:
    """Yield a table. The heading of the page names the first one already, for all but a screen reader."""
    named = f' aria-label="{escape(caption)}"' if hidden else ""
    # A wide table scrolls in its box; the box can be reached by keyboard for that.
    yield f'<div class="wide" tabindex="0" role="group" aria-label="{escape(caption)}">\n<table{named}>'
    if not hidden:
        yield f"<caption>{escape(caption)}</caption>"
    yield "<thead>"
    yield from _titles(grid)
    yield "</thead>\n<tbody>"
    yield from (_row(grid, line, marks) for line in grid.lines)
    yield "</tbody>\n</table>\n</div>"


def _titles(grid: Grid) -> Iterator[str]:
    """Yield the lines of titles: heads above their columns, a label's title beside all of them."""
    levels = grid.levels
    tall = f' rowspan="{levels + 1}"' if levels else ""
    labels = [f'<th scope="col"{tall}>{escape(title)}</th>' for title in grid.label_titles]
    for level in range(levels):
        heads = []
        for head, width in grid.spans(level):
            scope = f' scope="colgroup" colspan="{width}"' if head else ""
            heads.append(f"<th{scope}>{escape(head)}</th>" if head else "<td></td>")
        yield f"<tr>{''.join([*(labels if level == 0 else []), *heads])}</tr>"
    kinds = (' class="number"' if column.number else "" for column in grid.columns)
    titles = [
        f'<th scope="col"{kind}>{escape(column.title)}</th>'
        for column, kind in zip(grid.columns, kinds, strict=True)
    ]
    yield f"<tr>{''.join([*([] if levels else labels), *titles])}</tr>"


def _row(grid: Grid, line: Line, marks: _Marks) -> str:
    at = grid.note_at if grid.note_at >= 0 else len(line.labels) + len(line.entries) + grid.note_at
    items = []
    for i, label in enumerate(line.labels):
        note = marks.sup(line.notes) if i == at else ""
        items.append(f'<th scope="row">{escape(label)}{note}</th>')
    for i, (entry, column) in enumerate(zip(line.entries, grid.columns, strict=True)):
        kind = ' class="number"' if column.number else ""
        notes = line.notes_of(i) + (line.notes if len(line.labels) + i == at else ())
        items.append(f"<td{kind}>{_entry(entry, number=column.number)}{marks.sup(notes)}</td>")
    return f"<tr>{''.join(items)}</tr>"


def _entry(entry: Sequence[str], *, number: bool) -> str:
    """Return a number and its interval, which is set apart; words stay together."""
    if not number:
        return escape(" ".join(entry))
    first, *others = map(escape, entry)
    return first + "".join(f"<span>{text}</span>" for text in others)
