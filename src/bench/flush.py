"""Emptying the caches, as the forward and backward pass between two optimizer steps do."""

from functools import cache

import torch

from src.bench import roofline

_TIMES_THE_CACHE = 4
"""Size of the buffer that is written, in last-level caches: replacement is not strictly by age."""

_UNKNOWN_CACHE_BYTES = 64 * 2**20


class Flush:
    """Replaces what is in the device's caches by a buffer of its own."""

    def __init__(self, device: torch.device) -> None:
        """Make the buffer."""
        cache = roofline.last_level_cache_bytes(device) or _UNKNOWN_CACHE_BYTES
        self._buffer = torch.zeros(_TIMES_THE_CACHE * cache // 4, dtype=torch.float32, device=device)

    def __call__(self) -> None:
        """Read and write the buffer."""
        self._buffer.add_(1.0)


@cache
def of(device: torch.device) -> Flush:
    """Return the one flush of a device: its buffer may be large."""
    return Flush(device)
