"""The rows of all cells, and the numbers of all cells at once. Knows nothing of a single cell's words."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

import numpy as np

from src import stats
from src.analysis.outcomes import INVALID, JUDGED, OK, TRACED, judge
from src.analysis.repeats import Estimates, Places, Repeats, break_even, there
from src.analysis.rows import Numbers, Rows


class Groups:
    """The rows of all cells, and the numbers of all cells."""

    def __init__(self, rows: Rows, members: Sequence[Sequence[int]]) -> None:
        """Take the rows, and the places of those of each cell."""
        self.rows = rows
        self.members = members
        self._known: dict[str, Estimates] = {}

    @cached_property
    def outcomes(self) -> list[str]:
        """What became of each row."""
        return list(map(judge, zip(*map(self.rows.column, JUDGED), strict=True)))

    @cached_property
    def doubtful(self) -> list[bool]:
        """Whether there is a reason to tell of each row."""
        told = zip(self.outcomes, self.rows.column("verdict"), strict=True)
        return [outcome not in (OK, TRACED) or verdict == INVALID for outcome, verdict in told]

    @cached_property
    def used(self) -> list[Sequence[int]]:
        """Places of the rows of each cell whose times may be used."""
        return [self._those(places, OK) for places in self.members]

    @cached_property
    def counted(self) -> list[Sequence[int]]:
        """Places of those rows, or of those with a trace alone in a cell where no row has times."""
        both = zip(self.used, self.members, strict=True)
        return [used or self._those(places, TRACED) for used, places in both]

    @cached_property
    def timed(self) -> Repeats:
        """Numbers of the rows `used`."""
        return self._repeats(self.used)

    @cached_property
    def traced(self) -> Repeats:
        """Numbers of the rows `counted`."""
        return self._repeats(self.counted)

    @cached_property
    def min_effect(self) -> Numbers:
        """The largest effect that a row of each cell calls none."""
        return self.timed.largest("min_effect")

    @cached_property
    def verdicts(self) -> list[str | None]:
        """Verdict on the speedup of each cell: that of its only row, or on what several rows say together."""
        told = self.rows.column("verdict")
        return [
            str(told[used[0]]) if len(used) == 1 and told[used[0]] else self._verdict(group)
            for group, used in enumerate(self.used)
        ]

    def estimates(self, name: str) -> Estimates:
        """Return one of `ESTIMATES` of all cells."""
        if name not in self._known:
            self._known[name] = ESTIMATES[name](self)
        return self._known[name]

    def break_even(self, seconds: str) -> Estimates:
        """Return the steps that earn back the seconds of the first call, where compiling is faster."""
        eager, compiled, speedup = map(self.estimates, ("eager_us", "compiled_us", "speedup"))
        faster = np.array([verdict == "faster" for verdict in self.verdicts])
        compile_s = np.where(faster, self.estimates(seconds).center, np.nan)
        return break_even(eager, compiled, speedup, compile_s)

    def _verdict(self, group: int) -> str | None:
        speedup = self.estimates("speedup").at(group)
        return None if speedup is None else stats.verdict(speedup, there(self.min_effect, group) or 0.0)

    def _those(self, places: Sequence[int], kind: str) -> Sequence[int]:
        those = [place for place in places if self.outcomes[place] == kind]
        return places if len(those) == len(places) else those

    def _repeats(self, of_groups: Sequence[Sequence[int]]) -> Repeats:
        lengths = [len(places) for places in of_groups]
        places: Places = np.array([place for places in of_groups for place in places], dtype=np.int64)
        group: Places = np.repeat(np.arange(len(of_groups)), lengths)
        return Repeats(self.rows, places, group, len(of_groups))


ESTIMATES: Mapping[str, Callable[[Groups], Estimates]] = {
    "eager_us": lambda groups: groups.timed.number("eager_us"),
    "compiled_us": lambda groups: groups.timed.number("compiled_us"),
    "speedup": lambda groups: groups.timed.speedup("speedup"),
    "eager_best_us": lambda groups: groups.timed.number("eager_best_us"),
    "speedup_vs_best": lambda groups: groups.timed.speedup("speedup_vs_best"),
    "eager_after_compile_us": lambda groups: groups.timed.number("eager_after_compile_us"),
    "eager_before_compile_us": lambda groups: groups.timed.number("eager_before_compile_us"),
    "speedup_as_published": lambda groups: groups.timed.ratio("eager_after_compile_us", "compiled_us"),
    "sequential_eager_us": lambda groups: groups.timed.single("sequential_eager_us"),
    "sequential_compiled_us": lambda groups: groups.timed.single("sequential_compiled_us"),
    "sequential_speedup": lambda groups: groups.timed.single("sequential_speedup"),
    "compile_s": lambda groups: groups.traced.single("compile_s"),
    "compile_warm_s": lambda groups: groups.traced.single("compile_warm_s"),
    "break_even_steps": lambda groups: groups.break_even("compile_s"),
    "break_even_warm_steps": lambda groups: groups.break_even("compile_warm_s"),
}
"""Every number of a cell that may have an interval, and how it is made of the rows of all cells."""
