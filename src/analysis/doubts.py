"""What a reader must know before trusting a cell, and what several cells say together."""

from src import vocabulary
from src.analysis import format as fmt
from src.analysis import recompiles
from src.analysis.cells import OK, TOLD_BY_WARNINGS, Cell
from src.analysis.facts import CELL_FACTS
from src.analysis.summary import Summary, cell_label


def doubts_of(cell: Cell) -> list[str]:
    """Return the doubts about a cell and the hints on it, each as one footnote."""
    doubts = [fmt.shorten(text, 240) for text in cell.reasons]
    doubts += warnings_of(cell)
    doubts += parity_failures(cell)
    if cell.trace.recompiles is not None and cell.trace.recompiles[0] != cell.trace.recompiles[1]:
        low, high = cell.trace.recompiles
        doubts.append(f"recompiles differ between the runs of the cell: {low} to {high}")
    doubts += against_best(cell)
    doubts += recompiles.sentences(cell.trace)
    doubts += [f"gate failed: the speedup is below gate.min_speedup={limit:g}" for limit in cell.failed_gates]
    return doubts + [f"hint: {fmt.shorten(text, 400)}" for text in cell.hints]


def warnings_of(cell: Cell) -> list[str]:
    """Return the warnings that the rows in the numbers carry; parity is told with its reason elsewhere."""
    return [_warning(name, cell) for name in cell.warnings if name != "parity_failed"]


def slower_than_best(cell: Cell) -> str | None:
    """Return the eager implementation that beats the compiled step, where `slower` does not say it.

    What a reader must not miss: compiling looks like a gain, and a flag of the optimizer gains more.
    """
    if cell.best is None or cell.best.verdict != "slower" or cell.verdict in (None, "slower"):
        return None
    return " or ".join(map(fmt.plain, cell.best.names))


def against_best(cell: Cell) -> list[str]:
    """Return what the verdict against the best eager implementation is, where nothing else tells it."""
    best = cell.best
    if best is None or best.verdict in (None, cell.verdict) or cell.verdict is None or slower_than_best(cell):
        return []
    names = " or ".join(map(fmt.plain, best.names))
    words = str(best.verdict).replace("_", " ")
    return [f"against the best eager implementation ({names}): {words}"]


def intervals(summary: Summary) -> list[str]:
    """Return what the intervals of rows that stand alone are over: their processes, or one.

    Rows that repeat a cell have an interval over the rows, of which the head of a table tells.
    """
    kinds: dict[str, list[str]] = {}
    for index, cell in enumerate(summary.cells):
        if cell.outcomes.count(OK) == 1:
            kinds.setdefault(_interval(cell), []).append(cell_label(summary.shown, index))
    if len(kinds) == 1:
        return [f"{kind}." for kind in kinds]
    return [f"{kind} ({fmt.listed(where)})." for kind, where in kinds.items()]


def _interval(cell: Cell) -> str:
    processes = max(
        cell.processes, default=1
    )  # rows of schema versions 1 and 2 are of one, and do not say so
    if processes > 1:
        return (
            f"Intervals over {processes} fresh processes, those of speedups widened by what all share "
            "(shared_spread); times and speedups are geometric means over them"
        )
    if not any(cell.process_spreads):
        return "Intervals of one process: they lack the spread over processes"
    (spread,) = cell.process_spreads
    return (
        f"Intervals of one process: those of speedups are widened by an assumed spread of {100 * spread:g} % "
        "over processes, and by what all share (shared_spread); those of times are not"
    )


def parity_failures(cell: Cell) -> list[str]:
    """Return what differs between the arms of a cell whose parity failed."""
    if cell.trace.parity_reasons:
        return [f"parity failed: {fmt.shorten(text, 240)}" for text in cell.trace.parity_reasons]
    if "failed" in cell.trace.parities or "parity_failed" in cell.warnings:
        return [f"parity failed: {vocabulary.WARNINGS['parity_failed']}"]
    return []


def same_kernels(summary: Summary) -> list[str]:
    """Return a sentence for each set of compile modes that gave equal kernels in some cells.

    Cells are compared that differ in their mode alone. Modes that replay CUDA graphs are compared
    with each other alone: with equal kernels, the others differ from them by the launches.
    """
    by_modes: dict[tuple[str, ...], list[str]] = {}
    for members in _by_code(summary).values():
        modes = tuple(fmt.value(summary.cells[i].facts["compile_mode"]) for i in members)
        if len(modes) > 1:
            by_modes.setdefault(modes, []).append(_where(summary, members[0]))
    noise = ": their times differ by noise alone" if summary.timed else ""
    return [
        f"Modes {', '.join(modes)} gave the same kernels ({fmt.listed(where)}){noise}."
        for modes, where in by_modes.items()
    ]


def _by_code(summary: Summary) -> dict[tuple[object, ...], list[int]]:
    others = [name for name in CELL_FACTS if name != "compile_mode"]
    groups: dict[tuple[object, ...], list[int]] = {}
    for index, cell in enumerate(summary.cells):
        if len(cell.trace.code_hashes) == 1:
            replays = (
                cell.facts["device"] == "cuda" and cell.facts["compile_mode"] in vocabulary.CUDAGRAPH_MODES
            )
            key = (*(cell.facts[name] for name in others), replays, cell.trace.code_hashes[0])
            groups.setdefault(key, []).append(index)
    return groups


def _where(summary: Summary, index: int) -> str:
    label = cell_label([axis for axis in summary.shown if axis.title != "mode"], index)
    code = f"code_hash {fmt.plain(summary.cells[index].trace.code_hashes[0])[:8]}"
    return f"{label}: {code}" if label else code


def retested(summary: Summary) -> list[str]:
    """Return a sentence on combinations that are listed as impossible and were measured all the same."""
    found = [(i, cell) for i, cell in enumerate(summary.cells) if cell.retested]
    if not found:
        return []
    words = [
        f"{cell_label(summary.shown, i) or 'this one'} (listed because: "
        f"{'; '.join(fmt.shorten(text, 120) for text in cell.retested)})"
        for i, cell in found
    ]
    what = (
        "combination listed as impossible works"
        if len(found) == 1
        else "combinations listed as impossible work"
    )
    return [f"{len(found)} {what} here: {fmt.listed(words)}."]


def _warning(name: str, cell: Cell) -> str:
    meaning = vocabulary.WARNINGS.get(name, "a warning this version does not know")
    if name == "eager_left_foreach" and cell.trace.eager_paths:
        meaning += f" (it ran: {', '.join(map(fmt.plain, cell.trace.eager_paths))})"
    for column in TOLD_BY_WARNINGS:
        if meaning.endswith(column) and cell.told[column]:
            meaning += f"={', '.join(map(_told, cell.told[column]))}"
    return f"{fmt.plain(name)}: {meaning}"


def _told(value: object) -> str:
    return fmt.significant(value) if isinstance(value, float) else fmt.shorten(fmt.value(value), 80)
