"""For which part of the time a GPU is busy while a step is repeated, as NVML sees it.

NVML's figure is a mean over the last sixth of a second to a second (nvml.h, nvmlUtilization_t): it says
nothing of a timed block, which is far shorter and alternates with those of other arms. So each arm is
repeated by itself, after the timing, which a thread that samples would disturb.
"""

import threading
import time
from collections.abc import Callable
from statistics import fmean
from typing import Any

import torch

from src.bench import gpu_state

SECONDS = 2.5
"""For which a step is repeated."""

UNSETTLED = 1.25
"""Seconds at the beginning whose samples still have what was before in them."""

EVERY = 0.1
"""Seconds between two samples."""


def of(
    step: Callable[[], Any],
    device: torch.device,
    sample: Callable[[], float | None] | None = None,
    now: Callable[[], float] = time.monotonic,
) -> float | None:
    """Return the part of the time in which the GPU was busy; None on a CPU or where NVML does not say.

    Args:
        step: a step that is warm.
        device: where it runs.
        sample: returns the part of the last moments in which the GPU was busy; NVML's by default.
        now: clock in s.
    """
    if sample is None:
        sample = gpu_state.utilisation(device)
    if sample is None or sample() is None:
        return None
    sampler = _Sampler(sample, now)
    start = now()
    sampler.start()
    try:
        while now() - start < SECONDS:
            step()
            if device.type == "cuda":
                # Not after every step, which would keep the host from running ahead; nor never, or a host
                # that runs ahead would go on for as long again.
                sampler.wait_if_ahead(device)
    finally:
        sampler.stop()
    return fmean(sampler.samples) if sampler.samples else None


class _Sampler:
    """A thread that samples until it is told to stop."""

    def __init__(self, sample: Callable[[], float | None], now: Callable[[], float]) -> None:
        self.samples: list[float] = []
        self._sample = sample
        self._now = now
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._steps = 0

    def start(self) -> None:
        self._begun = self._now()
        self._thread.start()

    def wait_if_ahead(self, device: torch.device) -> None:
        self._steps += 1
        if self._steps % 50 == 0:
            torch.cuda.synchronize(device)

    def stop(self) -> None:
        self._done.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._done.wait(EVERY):
            if self._now() - self._begun < UNSETTLED:
                continue
            busy = self._sample()
            if busy is not None:
                self.samples.append(busy)
