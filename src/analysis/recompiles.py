"""Reasons of recompiles, made short enough for a footnote without losing variable and value."""

import re
from collections import Counter
from collections.abc import Sequence

from src.analysis import format as fmt
from src.analysis.document import NUMBER
from src.analysis.traces import Trace
from src.vocabulary import OTHER_CAUSE


def sentences(trace: Trace) -> list[str]:
    """Return what a reader is told of the recompiles: what the rows say of them, or their guards."""
    if trace.recompiles == (0, 0):
        return []
    told = [fmt.shorten(text, 240) for text in trace.summaries]
    if not told and trace.causes:
        total = len(trace.causes)
        told = [f"{n} of {total} recompiles: {fmt.shorten(text)}" for text, n in _kinds(trace.causes)[:2]]
    return told if told and OTHER_CAUSE not in trace.causes else told + explained(trace.reasons)


def main_cause(trace: Trace) -> str | None:
    """Return the commonest cause of the recompiles, None where none is known."""
    cause = _kinds(trace.causes)[0][0] if trace.causes else OTHER_CAUSE
    if cause != OTHER_CAUSE:
        return f"main cause of the recompiles: {fmt.shorten(cause)}"
    if trace.reasons:
        return f"guard failed: {_kinds([guard(text) for text in trace.reasons])[0][0]}"
    return fmt.shorten(trace.summaries[0]) if trace.summaries else None


def explained(reasons: Sequence[str], most: int = 2) -> list[str]:
    """Return a sentence for each of the `most` common reasons.

    Reasons that differ in a compared value alone are one reason: a schedule fails the same guard
    with another learning rate each time. The first value seen is kept as the example.
    """
    kinds = _kinds([guard(reason) for reason in reasons])[:most]
    return [f"guard that failed in {n} of {len(reasons)} recompiles: {text}" for text, n in kinds]


def guard(reason: str) -> str:
    """Return the guard in a reason of torch: without its number, its source line and its file."""
    line = next((line for line in map(str.strip, reason.splitlines()) if line), "no reason recorded")
    line = re.sub(r"^-?\s*\d+/\d+:\s*", "", line)
    line = re.split(r"\s+# ", line, maxsplit=1)[0]
    return fmt.shorten(line.replace("L['self']", "self"), 120)


def _kinds(texts: Sequence[str]) -> list[tuple[str, int]]:
    """Return an example and the number of each kind of text, the commonest first."""
    kinds = Counter(NUMBER.sub("#", text) for text in texts)
    examples = {NUMBER.sub("#", text): text for text in reversed(texts)}
    return [(examples[kind], count) for kind, count in kinds.most_common()]
