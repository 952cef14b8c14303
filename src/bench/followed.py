"""Steps that are followed to be compared: what precedes each one, and what is noted of it."""

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

from src.bench.workload import Workload

Shake = Callable[[Workload], None]
"""Changes the gradients between the backward pass and the update."""


@dataclass
class Followed:
    """The objects of an arm, or of a reference, and what its steps left."""

    workload: Workload
    renews: bool = False
    """Whether each step finds its gradients in other memory than the one before."""
    rates: list[tuple[float, ...]] = field(default_factory=list)
    """Learning rate of every group, in each step."""
    losses: list[float] = field(default_factory=list)
    """Of each training step."""
    scales: list[float] = field(default_factory=list)
    """Scale of the gradient scaler before the first step and after each one; empty without a scaler."""

    def before_step(self) -> None:
        """Prepare the gradients, and note the learning rates."""
        if self.renews:
            self.workload.renew_gradients()
        self.workload.refill()
        self.rates.append(self.workload.learning_rates())
        if not self.scales:
            self._note_scale()

    def after_step(self, loss: Any) -> None:
        """Note the loss, if there is one, and the scale."""
        if self.workload.training is not None:
            self.losses.append(float(loss.detach()))
        self._note_scale()

    def _note_scale(self) -> None:
        training = self.workload.training
        if training is not None and training.scaler is not None:
            self.scales.append(training.scaler.get_scale())

    def skipped(self) -> list[bool]:
        """Return of each step whether the gradient scaler left out the optimizer's, and lowered its scale."""
        if not self.scales:
            return [False] * len(self.rates)
        return [after < before for before, after in zip(self.scales, self.scales[1:], strict=False)]

    def take(self, step: Callable[[], Any], steps: int) -> None:
        """Take so many steps of these objects."""
        for _ in range(steps):
            self.before_step()
            self.after_step(step())

    def retrace(self, skipped: Sequence[bool], shake: Shake | None = None) -> None:
        """Take the eager steps of another arm in pieces: without the optimizer's where that was skipped."""
        training = self.workload.training
        assert training is not None  # noqa: S101  # only training steps have pieces
        pieces = training.pieces()
        for left_out in skipped:
            self.before_step()
            loss = pieces.loss(pieces.forward())
            pieces.backward(loss)
            if shake is not None:
                shake(self.workload)
            (self.workload.step_scheduler if left_out else pieces.update)()
            pieces.clear()
            self.after_step(loss)


def random_states(device: torch.device) -> list[Any]:
    """Return the states of the generators that a step on `device` may draw from, to be compared."""
    found = [random.getstate(), torch.get_rng_state().tolist()]
    if device.type == "cuda":
        found.append(torch.cuda.get_rng_state(device).tolist())
    if "numpy" in sys.modules:
        name, keys, *rest = sys.modules["numpy"].random.get_state()
        found.append([name, keys.tolist(), *rest])
    return found
