"""The C library's heap: whether memory that torch frees on a CPU stays with the process.

glibc keeps a freed block or gives it back to the system by where in the heap it lies and by what was freed
before (man 3 mallopt, M_MMAP_THRESHOLD and M_TRIM_THRESHOLD). What was given back costs a page fault for
every 4 KiB when it is taken again. An eager step takes and frees temporary memory all the time, so the same
step takes 15 or 30 ms (Adam, for-loop, ten tensors of 1024 x 1024, one thread of an AMD EPYC), for whole
processes or from one block to the next.
"""

import ctypes
from functools import cache
from typing import Any

_TRIM_THRESHOLD, _MMAP_MAX = -1, -4
"""Parameters of mallopt (malloc.h)."""

_NEVER = 2**31 - 1
"""Free bytes at the end of the heap beyond which they are given back."""


@cache
def _libc() -> Any | None:
    """Return the C library if it is glibc, the only one that has these functions."""
    library = ctypes.CDLL(None)
    return library if hasattr(library, "mallopt") and hasattr(library, "malloc_trim") else None


def keep() -> bool:
    """Keep freed memory from now on, and return whether the C library can be told so.

    No block gets a mapping of its own, which is unmapped when it is freed, and the end of the heap is not
    given back.
    """
    libc = _libc()
    if libc is None:
        return False
    return bool(libc.mallopt(_MMAP_MAX, 0)) and bool(libc.mallopt(_TRIM_THRESHOLD, _NEVER))


def give_back() -> bool:
    """Give free memory back to the system once, and return whether the C library can be told so."""
    libc = _libc()
    if libc is None:
        return False
    libc.malloc_trim(0)
    return True
