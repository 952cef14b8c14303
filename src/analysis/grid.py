"""A summary in words: tables of short texts, with every doubt as a numbered footnote.

Which table a reader gets is decided here, what is said about a cell in `doubts`. `text` and
`tables` only set it.
"""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence

from src.analysis import format as fmt
from src.analysis.axes import USUAL, Axis, implied
from src.analysis.cells import Cell
from src.analysis.document import Column, Document, Entry, Footnotes, Grid, Line
from src.analysis.doubts import doubts_of, intervals, retested, same_kernels, slower_than_best
from src.analysis.geomeans import Geomean
from src.analysis.outcomes import OK, TRACED
from src.analysis.published import Line as PublishedLine
from src.analysis.summary import Summary
from src.stats import Interval


def document_of(summary: Summary, filters: Sequence[str] = (), most: int | None = None) -> Document:
    """Return the words of a summary.

    Args:
        summary: what there is to say.
        filters: the conditions that its rows met.
        most: lines of a table for whose making there is time; None makes all.
    """
    notes = Footnotes()
    grids, remarks = [_cells(summary, notes, most)], []
    if any(geomean.speedup for geomean in summary.geomeans):
        grids.append(_geomeans(summary.geomeans, notes))
    elif len(summary.cells) > 1 and summary.timed:
        remarks = list(dict.fromkeys(f"Geomean of the speedups: {g.note}." for g in summary.geomeans))
    if summary.published:
        grids.append(_published(summary.published, notes, most))
    remarks += [*intervals(summary), *same_kernels(summary), *retested(summary)]
    return Document(title_of(summary), _head(summary, filters), tuple(grids), tuple(remarks), notes.texts())


def outcome_entry(cell: Cell) -> Entry:
    """Return the verdict, or what became of the rows where there is none or not of all.

    A compiled step that is slower than the best eager implementation says so beside its verdict.
    """
    bad = Counter(outcome for outcome in cell.outcomes if outcome != OK)
    best = slower_than_best(cell)
    if not bad:
        words = _words(cell.verdict or "-").split(" ")
        return (*words[:-1], f"{words[-1]},", "slower", f"than {best}") if best else tuple(words)
    if len(cell.outcomes) == 1:
        return (_words(next(iter(bad))),)
    ill = [f"{_words(kind)} {n}" for kind, n in bad.items()]
    ill[-1] += f" of {len(cell.outcomes)}"
    verdict = [_words(cell.verdict) + ","] if cell.verdict else []
    verdict += ["slower", f"than {best},"] if best else []
    return (*verdict, *(text + "," for text in ill[:-1]), ill[-1])


def _words(name: str) -> str:
    return fmt.plain(name).replace("_", " ")


def title_of(summary: Summary, title: str | None = None) -> str:
    """Return the title given or that of the experiment, if there is one, and the sweep."""
    sweeps = summary.sweeps
    sweep = f"sweep {fmt.plain(str(sweeps[0]))}" if len(sweeps) == 1 else f"{len(sweeps)} sweeps"
    title = title or summary.title
    return f"{fmt.plain(title)} ({sweep})" if title else sweep[0].upper() + sweep[1:]


def selection_head(summary: Summary, filters: Sequence[str]) -> list[str]:
    """Return sentences on what the rows are: how many, of what, measured where."""
    outcomes = Counter(outcome for cell in summary.cells for outcome in cell.outcomes)
    counts = ", ".join(f"{n} {_words(kind)}" for kind, n in outcomes.items())
    lines = [f"{_counted(summary.rows, 'run')}: {counts}."]
    if filters:
        lines.append("Only rows with " + ", ".join(map(fmt.plain, filters)) + ".")
    machine_titles = {axis.title for axis in summary.axes if axis.kind == "machine"}
    known = [(t, v) for t, v in summary.constant if v not in ("null", "-") and (t, v) not in USUAL]
    same = [f"{t}={v}" for t, v in known if t not in machine_titles]
    lines.append("The same in all: " + ", ".join(same) + ".")
    machine = [f"{t} {v}" for t, v in known if t in machine_titles]
    if machine:
        lines.append("Machine: " + ", ".join(machine) + ".")
    return lines + _models(summary)


def steps_words(summary: Summary) -> str:
    """Return the numbers of steps over which recompiles were counted, empty when none is known."""
    steps = sorted({n for cell in summary.cells for n in cell.trace.steps})
    return f"the first {' or '.join(map(str, steps))} steps" if steps else ""


def _head(summary: Summary, filters: Sequence[str]) -> tuple[str, ...]:
    steps = steps_words(summary)
    words = "Times are medians of a step, with 95 % intervals; speedup is eager / compiled."
    if _has_best(summary):
        words = words[:-1] + ", vs best is the fastest eager implementation / compiled."
    if not summary.timed:
        words = "No run has a time that can be used: the table has what the traces found."
    if steps:
        words += f" Recompiles are counted over {steps}."
    if _has_warm(summary):
        words += " Compile and break-even steps: with a cold cache / with that of an earlier process."
    if any(cell.outcomes.count(OK) > 1 for cell in summary.cells):
        words += " Where several runs repeat one cell: their geometric mean, with a t interval over the runs."
    return (*selection_head(summary, filters), words)


def _models(summary: Summary) -> list[str]:
    """Return sizes: one for all, or what each choice of model stands for."""
    if len(summary.sizes) == 1:
        parameters, tensors = summary.sizes[0]
        return [f"Workload: {parameters:,} parameters in {_counted(tensors, 'tensor')}."]
    followers = [axis for axis in summary.axes if axis.title in implied(summary.axes, "model")]
    model = next(axis for axis in summary.axes if axis.title == "model")
    words = {
        label: ", ".join(_of_model(cell, followers, place))
        for place, (label, cell) in enumerate(zip(model.labels, summary.cells, strict=True))
    }
    if not any(words.values()):
        return []
    told = (f"{label} ({text})" if text else label for label, text in words.items())
    return ["Models: " + "; ".join(told) + "."]


def _of_model(cell: Cell, followers: Sequence[Axis], place: int) -> Iterator[str]:
    """Yield what a choice of model stands for: its number of parameters, unless it has a width."""
    stack = cell.facts["width"] is not None
    if not stack and cell.parameters is not None:
        yield f"{cell.parameters:,} parameters"
    for axis in followers:
        if stack or axis.title not in ("width", "depth", "bias"):
            yield f"{axis.title}={axis.labels[place]}"


_EAGER = Column("eager", ("eager",), number=True)
_BEST = Column("best eager", ("best", "eager"), number=True)
_COMPILED = Column("compiled", ("compiled",), number=True)
_SPEEDUP = Column("speedup", ("speedup",), number=True)
_VS_BEST = Column("vs best", ("vs best",), number=True)
_RECOMPILES = Column("recompiles", ("recom-", "piles"), number=True)
_GRAPHS = Column("graphs", ("graphs",), number=True)
_COMPILE_S = Column("compile", ("compile",), number=True)
_BREAK_EVEN = Column("break-even steps", ("break-", "even", "steps"), number=True)
_RUNS = Column("runs", ("runs",), number=True)
_PATH = Column("path", ("path",), number=False)
_PARITY = Column("parity", ("parity",), number=False)
_VERDICT = Column("verdict", ("verdict",), number=False)
_OUTCOME = Column("outcome", ("outcome",), number=False)


def _cells(summary: Summary, notes: Footnotes, most: int | None) -> Grid:
    columns = _timed_columns(summary) if summary.timed else _traced_columns(summary)
    lines = tuple(
        Line(
            tuple(axis.labels[index] for axis in summary.shown),
            tuple(entry(cell) for _, entry in columns),
            tuple(notes.add(text) for text in doubts_of(cell)),
        )
        for index, cell in enumerate(summary.cells[:most])
    )
    return Grid(
        "",
        tuple(axis.title for axis in summary.shown),
        tuple(column for column, _ in columns),
        lines,
        left_out=len(summary.cells) - len(lines),
    )


_Columns = list[tuple[Column, Callable[[Cell], Entry]]]


def _timed_columns(summary: Summary) -> _Columns:
    best = _has_best(summary)
    columns: _Columns = [
        (_EAGER, lambda cell: _with_half_width(fmt.time_us(_center(cell.eager)), cell.eager)),
        *([(_BEST, _best)] if best else []),
        (_COMPILED, lambda cell: _with_half_width(fmt.time_us(_center(cell.compiled)), cell.compiled)),
        (_SPEEDUP, lambda cell: _ratio(cell.speedup)),
        *([(_VS_BEST, lambda cell: _ratio(cell.best.speedup if cell.best else None))] if best else []),
        (_RECOMPILES, lambda cell: (fmt.count_range(cell.trace.recompiles),)),
        (_COMPILE_S, _compile_s),
        (_BREAK_EVEN, _break_even),
        *_runs(summary),
    ]
    if {path for cell in summary.cells for path in cell.trace.paths} - {"compiled"}:
        columns.append((_PATH, _path))
    return [*columns, (_VERDICT, outcome_entry)]


def _traced_columns(summary: Summary) -> _Columns:
    """Return the columns of a table where no run has a time: what the traces found."""
    columns: _Columns = [
        (_RECOMPILES, lambda cell: (fmt.count_range(cell.trace.recompiles),)),
        (_GRAPHS, lambda cell: (fmt.count_range(cell.trace.graphs),)),
        (_COMPILE_S, _compile_s),
        *_runs(summary),
        (_PATH, _path),
        (_PARITY, lambda cell: _some_words(cell.trace.parities)),
    ]
    if {outcome for cell in summary.cells for outcome in cell.outcomes} != {TRACED}:
        columns.append((_OUTCOME, outcome_entry))
    return columns


def _runs(summary: Summary) -> _Columns:
    def entry(cell: Cell) -> Entry:
        whole = cell.used == len(cell.outcomes)
        return (str(cell.used) if whole else f"{cell.used} of {len(cell.outcomes)}",)

    repeated = any(len(cell.outcomes) > 1 for cell in summary.cells)
    return [(_RUNS, entry)] if repeated else []


def _has_best(summary: Summary) -> bool:
    return any(cell.best for cell in summary.cells)


def _has_warm(summary: Summary) -> bool:
    return any(cell.compile_warm_s for cell in summary.cells)


def _best(cell: Cell) -> Entry:
    if cell.best is None:
        return (fmt.NONE,)
    time = _with_half_width(fmt.time_us(_center(cell.best.us)), cell.best.us)
    return (" or ".join(map(fmt.plain, cell.best.names)), *time)


def _compile_s(cell: Cell) -> Entry:
    cold = _with_half_width(fmt.time_s(_center(cell.compile_s)), cell.compile_s)
    if cell.compile_warm_s is None:
        return cold
    warm = _with_half_width(fmt.time_s(cell.compile_warm_s.center), cell.compile_warm_s)
    return (*_before_slash(cold), *warm)


def _break_even(cell: Cell) -> Entry:
    """Return the steps from a cold cache, and from a warm one; their intervals are equally wide."""
    cold = fmt.count(_center(cell.break_even))
    if cell.break_even_warm is None:
        return _with_half_width(cold, cell.break_even)
    warm = fmt.count(cell.break_even_warm.center)
    return _with_half_width(f"{cold} / {warm}", cell.break_even_warm)


def _before_slash(entry: Entry) -> Entry:
    return (*entry[:-1], f"{entry[-1]} /")


def _path(cell: Cell) -> Entry:
    return _some_words(cell.trace.paths)


def _some_words(names: Sequence[str]) -> Entry:
    """Return words of which a narrow table may put each on a line of its own."""
    return tuple(" or ".join(_words(name) for name in names).split(" ")) if names else (fmt.NONE,)


def _geomeans(geomeans: Sequence[Geomean], notes: Footnotes) -> Grid:
    best = any(geomean.vs_best for geomean in geomeans)
    lines = tuple(
        Line(
            (geomean.label or "all",),
            (
                _ratio(geomean.speedup),
                *([_ratio(geomean.vs_best)] if best else []),
                (f"{geomean.covered} of {geomean.total}",),
            ),
            (notes.add(f"geomean: {geomean.note}"),) if geomean.note else (),
        )
        for geomean in geomeans
    )
    columns = (
        *((_SPEEDUP, _VS_BEST) if best else (_SPEEDUP,)),
        Column("workloads", ("workloads",), number=True),
    )
    return Grid("Geomean of the speedups over comparable workloads", ("compiled with",), columns, lines)


def _published(published: Sequence[PublishedLine], notes: Footnotes, most: int | None) -> Grid:
    lines = tuple(
        Line(
            (fmt.plain(line.label),),
            _published_entries(line),
            (notes.add(f"published; {fmt.plain(line.source)}"),) if line.source else (),
        )
        for line in published[:most]
    )
    title = "Published and measured" if any(line.source for line in published) else "Methods of timing"
    columns = (_EAGER, _COMPILED, _SPEEDUP, _RECOMPILES)
    return Grid(title, ("what",), columns, lines, left_out=len(published) - len(lines))


def _published_entries(line: PublishedLine) -> tuple[Entry, ...]:
    """Return the entries of a line: times, or samples per second where those were published."""
    times = [
        (f"{rate:,.0f}/s",) if time is None and rate is not None else _time(time)
        for time, rate in zip((line.eager, line.compiled), line.throughput, strict=True)
    ]
    return (*times, _ratio(line.speedup), (fmt.count_range(line.recompiles),))


def _time(time: Interval | None) -> Entry:
    return _with_half_width(fmt.time_us(_center(time)), time)


def _center(interval: Interval | None) -> float | None:
    return interval.center if interval else None


def _ratio(interval: Interval | None) -> Entry:
    return tuple(filter(None, (fmt.ratio(interval), fmt.bounds(interval))))


def _with_half_width(text: str, interval: Interval | None) -> Entry:
    return tuple(filter(None, (text, fmt.half_width(interval))))


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}" if number == 1 else f"{number} {noun}s"
