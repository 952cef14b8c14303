"""Geometric means of speedups, one for each way of compiling, over comparable cells only.

Two ways of compiling are comparable over the workloads that both ran well; a mean over different
workloads would compare the workloads. Machines are never mixed.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from src import stats
from src.analysis import format as fmt
from src.analysis.axes import Axis, apart, implied
from src.analysis.cells import Cell
from src.stats import Interval

Group = Mapping[tuple[str, ...], int]  # workload to the index of its cell


@dataclass(frozen=True, slots=True)
class Geomean:
    """The geometric mean of one way of compiling on one machine, or why there is none."""

    label: str  # compile and machine axes that vary, empty when none does
    speedup: Interval | None  # the interval is the margin of measuring these cells
    vs_best: Interval | None  # the same against the best eager implementation; None unless all have it
    covered: int  # workloads in it
    total: int  # workloads that any way of compiling ran on this machine
    note: str  # what was left out and why, empty when nothing was


def geomeans_of(cells: Sequence[Cell], axes: Sequence[Axis]) -> tuple[Geomean, ...]:
    """Return a geomean for each way of compiling, or one without a number for a machine that has none."""
    result: list[Geomean] = []
    machines = _split(range(len(cells)), axes, "machine")
    for machine, members in machines.items():
        groups = {
            compiling: {key[0]: key[1] for key in _workloads(indices, axes)}
            for compiling, indices in _split(members, axes, "compile").items()
        }
        result += _of_machine(cells, axes, machine, groups)
    return tuple(result)


def _of_machine(
    cells: Sequence[Cell],
    axes: Sequence[Axis],
    machine: tuple[str, ...],
    groups: Mapping[tuple[str, ...], Group],
) -> list[Geomean]:
    workloads = list(dict.fromkeys(key for group in groups.values() for key in group))
    comparable = {
        compiling: {key for key, index in group.items() if cells[index].comparable}
        for compiling, group in groups.items()
    }
    in_all = set.intersection(*comparable.values())
    shared = [key for key in workloads if key in in_all]
    words = {kind: _labels(axes, kind) for kind in ("workload", "compile", "machine")}
    place = words["machine"](machine)
    if len(shared) < 2:
        note = _too_few(len(shared), len(workloads), ways=len(groups))
        return [Geomean(place, None, None, len(shared), len(workloads), note)]

    def why(key: tuple[str, ...]) -> str:
        """Return the first thing that keeps a workload from being shared."""
        compiling = next(compiling for compiling in groups if key not in comparable[compiling])
        where = words["compile"](compiling)
        if key not in groups[compiling]:
            return f"not run with {where}"
        bad = next(outcome for outcome in cells[groups[compiling][key]].outcomes if outcome != "ok")
        return f"{bad} with {where}" if where else bad

    missing = [f"{words['workload'](key)} ({why(key)})" for key in workloads if key not in in_all]
    return [
        Geomean(
            label=", ".join(filter(None, (words["compile"](compiling), place))),
            speedup=stats.geomean_interval(
                [_speedup(cells[group[key]]) for key in shared],
                [cells[group[key]].shared_spread for key in shared],
            ),
            vs_best=_vs_best([cells[group[key]] for key in shared]),
            covered=len(shared),
            total=len(workloads),
            note="left out: " + fmt.listed(missing) if missing else "",
        )
        for compiling, group in groups.items()
    ]


def _too_few(shared: int, total: int, ways: int) -> str:
    if total == 1:
        return "none of a single workload"
    by_all = " by every way of compiling" if ways > 1 else ""
    return f"none of fewer than 2 comparable workloads: {shared} of {total} measured without fault{by_all}"


def _speedup(cell: Cell) -> Interval:
    if cell.speedup is None:
        raise ValueError("a comparable cell must have a speedup")
    return cell.speedup


def _vs_best(cells: Sequence[Cell]) -> Interval | None:
    bests = [cell.best for cell in cells]
    speedups = [best.speedup for best in bests if best and best.speedup]
    if len(speedups) < len(cells):
        return None
    return stats.geomean_interval(speedups, [cell.shared_spread for cell in cells])


def _split(indices: Sequence[int], axes: Sequence[Axis], kind: str) -> dict[tuple[str, ...], list[int]]:
    """Group indices of cells by their labels on the axes of one kind."""
    of_kind = [axis for axis in axes if axis.kind == kind]
    groups: dict[tuple[str, ...], list[int]] = {}
    for index in indices:
        groups.setdefault(tuple(axis.labels[index] for axis in of_kind), []).append(index)
    return groups


def _workloads(indices: Sequence[int], axes: Sequence[Axis]) -> list[tuple[tuple[str, ...], int]]:
    of_kind = [axis for axis in axes if axis.kind == "workload"]
    keys = apart([tuple(axis.labels[index] for axis in of_kind) for index in indices])
    return list(zip(keys, indices, strict=True))


def _labels(axes: Sequence[Axis], kind: str) -> Callable[[tuple[str, ...]], str]:
    """Return what joins the labels of a kind: those that differ between cells and follow from no other."""
    followers = {*implied(axes, "model"), *implied(axes, "device")}
    of_kind = [axis for axis in axes if axis.kind == kind]
    told = [axis.varies and axis.title not in followers for axis in of_kind]

    def joined(labels: tuple[str, ...]) -> str:
        named = (_named(axis, label) for axis, label, tell in zip(of_kind, labels, told, strict=True) if tell)
        return ", ".join(named)

    return joined


def _named(axis: Axis, label: str) -> str:
    """Return `default` for what speaks for itself and `dynamic=true` for what does not."""
    speaks = axis.title in ("model", "dtype", "optimizer", "scheduler", "backend", "mode", "gpu")
    return label if speaks else f"{axis.title}={label}"
