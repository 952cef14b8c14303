"""What a failed guard is about, in words that group: which variable, and what became of it.

Torch words a guard as an expression over its own objects, differently from version to version.
Pure: text in, text out.
"""

import re
from collections import Counter
from collections.abc import Sequence

from src.vocabulary import OTHER_CAUSE

_RULES: tuple[tuple[str, str], ...] = (
    (r"GLOBAL_STATE changed: *(\w+)", r"\1: changed"),
    (
        r"\.grad\b.*\bis (?:not )?None|___check_\w+\([^,]*\.grad\b|\.grad' to be a tensor",
        "grad: there or not",
    ),
    (r"(?:___check_type_id\(|expected type of ').*\['([A-Za-z_]\w*)'\]", r"\1: type changed"),
    (r"___check_type_id|expected type of", "type: changed"),
    (r"___check_obj_id\([^,]*\bstate\[", "state: another object"),
    (r"got deallocated|___check_obj_id", "object: another one"),
    (r"len\(.*state.*\) *(?:!=|==)|(?:: not |___dict_contains\().*\bstate\b", "state: entries added"),
    (r"\['?([A-Za-z_]\w*)'?\](?:\[\d+\])?\)?(?:\.item\(\))?\)* *(?:==|!=|\bis\b)", r"\1: value changed"),
    (r"(size|stride|dtype|requires_grad|dispatch key|rank)[^\n]*mismatch", r"tensor: \1 changed"),
    (r"not in .*__dict__|___dict_contains|hasattr|KeyError", "attribute: there or not"),
    (r"len\([^\n]*?([A-Za-z_]\w*)\) *(?:==|!=)", r"\1: length changed"),
    (r"\b([A-Za-z_]\w*) *(?:==|!=|\bis\b)", r"\1: value changed"),
)
"""Pattern of a guard and its cause; the first that is found decides."""


def guard(text: str | None) -> str:
    """Return the failed guard on one line, without the comment that quotes torch's source."""
    if text is None:
        return "unknown"
    first = text.strip().splitlines()[0]
    return " ".join(first.partition("  #")[0].split())


def cause(guard_text: str) -> str:
    """Return what a guard is about: `<variable>: <kind>`, or `other`."""
    for pattern, words in _RULES:
        found = re.search(pattern, guard_text)
        if found is not None:
            return found.expand(words)
    return OTHER_CAUSE


def summary(causes: Sequence[str]) -> str | None:
    """Return the causes with their numbers on one line, the commonest first; None without any."""
    if not causes:
        return None
    counted = ", ".join(f"{number} x {name}" for name, number in Counter(causes).most_common())
    return f"{len(causes)} recompile{'s' * (len(causes) != 1)}: {counted}"
