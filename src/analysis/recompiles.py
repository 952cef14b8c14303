"""Reasons of recompiles, made short enough for a footnote without losing variable and value."""

import re
from collections import Counter
from collections.abc import Sequence

from src.analysis import format as fmt

_NUMBER = re.compile(r"(?<![\w.])-?\d+(?:\.\d+)?(?:e[+-]?\d+)?(?![\w.\]])", re.IGNORECASE)


def explained(reasons: Sequence[str], most: int = 2) -> list[str]:
    """Return a sentence for each of the `most` common reasons.

    Reasons that differ in a compared value alone are one reason: a schedule fails the same guard
    with another learning rate each time. The first value seen is kept as the example.
    """
    guards = [guard(reason) for reason in reasons]
    kinds = Counter(_NUMBER.sub("#", text) for text in guards)
    sentences = []
    for kind, count in kinds.most_common(most):
        example = next(text for text in guards if _NUMBER.sub("#", text) == kind)
        sentences.append(f"guard that failed in {count} of {len(guards)} recompiles: {example}")
    return sentences


def guard(reason: str) -> str:
    """Return the guard in a reason of torch: without its number, its source line and its file."""
    line = next((line for line in map(str.strip, reason.splitlines()) if line), "no reason recorded")
    line = re.sub(r"^-?\s*\d+/\d+:\s*", "", line)
    line = re.split(r"\s+# ", line, maxsplit=1)[0]
    return fmt.shorten(line.replace("L['self']", "self"), 120)
