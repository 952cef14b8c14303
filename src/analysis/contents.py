"""What a place of a table can hold: every number and word of a cell, by one name.

The names are those of the columns of `summary.csv`, which takes its numbers from here as well.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from src import vocabulary
from src.analysis import explanation
from src.analysis import format as fmt
from src.analysis.cells import Cell
from src.stats import Interval


@dataclass(frozen=True, slots=True)
class Number:
    """A number with its interval at `stats.LEVEL`, or a count with its least and most over the runs."""

    value: float | None  # None for a count that differs between the runs
    low: float | None = None
    high: float | None = None


@dataclass(frozen=True, slots=True)
class Unit:
    """A unit that the numbers of a column share."""

    label: str  # empty for a plain number
    scale: float  # of the unit that `Content.unit` names


@dataclass(frozen=True, slots=True)
class Content:
    """One content: a number or words."""

    name: str
    title: str
    kind: str  # of `UNITS`, or words
    meaning: str
    number: Callable[[Cell], Number | None] | None = None
    words: Callable[[Cell], str | None] | None = None

    @property
    def unit(self) -> str:
        """Return the unit of `number`; empty for a ratio, a part of one or a count."""
        return {"us": "us", "s": "s", "bytes": "bytes", "gbps": "GB/s", "rate": "samples/s"}.get(
            self.kind, ""
        )


UNITS: Mapping[str, tuple[Unit, ...]] = {
    "us": (Unit("us", 1.0), Unit("ms", 1e3), Unit("s", 1e6)),
    "s": (Unit("us", 1e-6), Unit("ms", 1e-3), Unit("s", 1.0)),
    "bytes": (Unit("bytes", 1.0), Unit("KiB", 2.0**10), Unit("MiB", 2.0**20), Unit("GiB", 2.0**30)),
    "steps": (Unit("steps", 1.0), Unit("1000 steps", 1e3), Unit("million steps", 1e6)),
    "part": (Unit("%", 0.01),),
    "gbps": (Unit("GB/s", 1.0),),
    "rate": (Unit("samples/s", 1.0),),
    "ratio": (Unit("", 1.0),),
    "count": (Unit("", 1.0),),
}
"""Units of each kind of number, from the smallest."""


def unit_of(kind: str, values: Sequence[float]) -> Unit:
    """Return the largest unit of a kind in which the middle one of the values is at least 1."""
    units = UNITS[kind]
    ordered = sorted(map(abs, values))
    middle = ordered[len(ordered) // 2] if ordered else 0.0
    return next((unit for unit in reversed(units) if middle >= unit.scale), units[0])


def shown(kind: str, number: Number | None, unit: Unit) -> str:
    """Return a number of a kind in a unit, bare: the unit stands in the title of its column."""
    if number is None:
        return fmt.NONE
    if number.value is None:
        return f"{number.low:.0f}-{number.high:.0f}"
    if kind == "count":
        return f"{number.value:.0f}"
    if kind == "part":
        return fmt.percent(number.value)
    if kind == "ratio":
        return fmt.ratio(Interval(number.value, number.low, number.high)).removesuffix("x")
    return fmt.significant(number.value / unit.scale)


def spread(kind: str, number: Number | None) -> str:
    """Return the interval of a number in words, empty where there is none or it is a count."""
    if number is None or number.value is None or kind == "count":
        return ""
    interval = Interval(number.value, number.low, number.high)
    return fmt.bounds(interval) if kind == "ratio" else fmt.half_width(interval)


def _interval(interval: Interval | None) -> Number | None:
    return None if interval is None else Number(interval.center, interval.low, interval.high)


def _range(ends: tuple[int, int] | None) -> Number | None:
    if ends is None:
        return None
    low, high = ends
    return Number(float(low) if low == high else None, float(low), float(high))


def _plain(value: float | None) -> Number | None:
    return None if value is None else Number(float(value))


Of = Callable[[Cell], Interval | None]

_WITH_THROUGHPUT = {"eager": "eager", "eager_best": "best eager", "compiled": "compiled"}

_INTERVALS: tuple[tuple[str, str, str, Of, str], ...] = (
    ("eager_us", "eager", "us", lambda c: c.eager, "time of an eager step"),
    ("compiled_us", "compiled", "us", lambda c: c.compiled, "time of a compiled step"),
    ("speedup", "speedup", "ratio", lambda c: c.speedup, "eager / compiled"),
    (
        *("eager_best_us", "best eager", "us", lambda c: c.best.us if c.best else None),
        "time of a step of the fastest eager implementation",
    ),
    (
        *("speedup_vs_best", "vs best", "ratio", lambda c: c.best.speedup if c.best else None),
        "the fastest eager implementation / compiled",
    ),
    (
        *("eager_after_compile_us", "eager after compiling", "us", lambda c: c.eager_after_compile),
        "time of an eager step of an optimizer that was compiled before, the order of PyTorch's tutorial",
    ),
    (
        *("eager_before_compile_us", "eager before compiling", "us", lambda c: c.eager_before_compile),
        "time of an eager step before anything was compiled",
    ),
    (
        *("speedup_as_published", "speedup as published", "ratio", lambda c: c.as_published),
        "eager after compiling / compiled, as PyTorch's tutorial has it",
    ),
    (
        *("sequential_eager_us", "eager, in sequence", "us"),
        *(lambda c: c.sequential.eager if c.sequential else None, "mean eager step, one arm after the other"),
    ),
    (
        *("sequential_compiled_us", "compiled, in sequence", "us"),
        lambda c: c.sequential.compiled if c.sequential else None,
        "mean compiled step, one arm after the other",
    ),
    (
        *("sequential_speedup", "speedup in sequence", "ratio"),
        lambda c: c.sequential.speedup if c.sequential else None,
        "of the means of one arm after the other, as PyTorch's tutorial times them",
    ),
    ("compile_s", "compile", "s", lambda c: c.compile_s, "first call of the compiled step"),
    (
        *("compile_warm_s", "compile, warm", "s", lambda c: c.compile_warm_s),
        "first call of the compiled step, with the cache of an earlier process",
    ),
    *(
        (
            *(f"{arm}_samples_per_s", f"{words} throughput", "rate"),
            *(lambda c, arm=arm: c.samples_per_s(arm), f"samples per second of {words} training steps"),
        )
        for arm, words in _WITH_THROUGHPUT.items()
    ),
    (
        *("break_even_steps", "break-even", "steps", lambda c: c.break_even),
        "steps that earn back the first call; only where compiling is faster",
    ),
    (
        *("break_even_warm_steps", "break-even, warm", "steps", lambda c: c.break_even_warm),
        "steps that earn back the first call with the cache of an earlier process",
    ),
)

_COUNTS: tuple[tuple[str, str, Callable[[Cell], Number | None], str], ...] = (
    (
        *("recompiles", "recompiles", lambda c: _range(c.trace.recompiles)),
        "compilations of graphs that are not the first of their frame, in the steps of the trace",
    ),
    ("graphs", "graphs", lambda c: _range(c.trace.graphs), "compiled graphs with operations in the trace"),
    ("runs", "runs", lambda c: _plain(len(c.outcomes)), "runs, good or bad"),
    ("runs_used", "runs used", lambda c: _plain(c.used), "runs in the numbers"),
)


def _joined(names: Sequence[str]) -> str | None:
    return " or ".join(fmt.plain(name).replace("_", " ") for name in dict.fromkeys(names)) or None


_WORDS: tuple[tuple[str, str, Callable[[Cell], str | None], str], ...] = (
    (
        *("verdict", "verdict", lambda c: _joined([c.verdict] if c.verdict else [])),
        "of the speedup, with its interval",
    ),
    (
        *("verdict_vs_best", "verdict vs best", lambda c: _joined([c.best.verdict or ""] if c.best else [])),
        "of the speedup against the fastest eager implementation",
    ),
    (
        *("eager_best", "best eager is", lambda c: _joined(c.best.names if c.best else ())),
        "name of the fastest eager implementation",
    ),
    ("outcome", "outcome", lambda c: _joined(c.outcomes), "what became of the runs"),
    ("compiled_path", "path", lambda c: _joined(c.trace.paths), "how the compiled step really ran"),
    ("eager_path", "eager path", lambda c: _joined(c.trace.eager_paths), "implementation of the eager step"),
    (
        *("parity", "parity", lambda c: _joined(c.trace.parities)),
        "whether compiled and eager steps gave the same",
    ),
)

_OF_ARM: Mapping[str, tuple[str, str, str]] = {
    "device_us": ("GPU busy", "us", "time that a step keeps the GPU busy"),
    "host_us": ("enqueue", "us", "time to enqueue a step without waiting"),
    "cpu_us": ("CPU time", "us", "CPU time of a step, of all threads"),
    "kernels": ("kernels", "count", "kernels, copies and fills on the GPU in a step"),
    "attained": ("attained", "part", "attained fraction: roofline floor / time of a step"),
    "peak_bytes": ("peak memory", "bytes", "parameters, gradients, states and most temporary memory"),
    "reserved_bytes": ("reserved memory", "bytes", "GPU memory that torch reserves for that"),
    "gpu_utilisation": ("GPU utilisation", "part", "part of the time in which NVML sees the GPU busy"),
    "bound": ("bound", "words", "what limits a step: launch, bandwidth or compute"),
}

_OF_STEP: Mapping[str, tuple[str, str, str]] = {
    "state_bytes": ("states", "bytes", "what the eager arm's optimizer keeps"),
    "step_bytes": ("must move", "bytes", "least memory that a step must read and write"),
    "eager_bytes": ("eager moves", "bytes", "memory that the operations of the eager step read and write"),
    "last_level_cache_bytes": ("last-level cache", "bytes", "size of the device's last-level cache"),
    "bandwidth_gbps": ("bandwidth", "gbps", "of the memory, measured in the run"),
    "floor_us": ("floor", "us", "roofline floor: what a step must move / bandwidth"),
}


def _explaining(column: str) -> Callable[[Cell], Number | None]:
    return lambda cell: _plain(cell.explains(column))


def _bounds(column: str) -> Callable[[Cell], str | None]:
    return lambda cell: _joined(cell.known(column))


def _arm_contents(arm: str) -> list[Content]:
    words = {"eager_best": "best eager"}.get(arm, arm.replace("_", " "))
    contents = []
    for end in explanation.OF_ARM:
        title, kind, meaning = _OF_ARM[end]
        name = f"{arm}_{end}"
        number, named = (None, _bounds(name)) if kind == "words" else (_explaining(name), None)
        contents.append(Content(name, f"{words} {title}", kind, meaning, number, named))
    return contents


def _all() -> list[Content]:
    contents = [
        Content(name, title, kind, meaning, lambda cell, of=of: _interval(of(cell)))  # type: ignore[misc]
        for name, title, kind, of, meaning in _INTERVALS
    ]
    contents += [Content(name, title, "count", meaning, of) for name, title, of, meaning in _COUNTS]
    contents += [Content(name, title, "words", meaning, None, of) for name, title, of, meaning in _WORDS]
    for arm in vocabulary.TIMED_ARMS:
        contents += _arm_contents(arm)
    contents += [
        Content(name, title, kind, meaning, _explaining(name))
        for name, (title, kind, meaning) in _OF_STEP.items()
    ]
    return contents


CONTENTS: Mapping[str, Content] = {content.name: content for content in _all()}
"""Every content by its name."""

QUOTIENTS: Mapping[str, tuple[str, str]] = {
    "speedup": ("eager_us", "compiled_us"),
    "speedup_vs_best": ("eager_best_us", "compiled_us"),
    "speedup_as_published": ("eager_after_compile_us", "compiled_us"),
    "sequential_speedup": ("sequential_eager_us", "sequential_compiled_us"),
}
"""Contents that are the quotient of two others."""
