"""A machine that exists only as a clock: blocks of known cost, without waiting."""

import random
from collections.abc import Callable


class FakeMachine:
    """A clock in s that only blocks move forward, and a log of the blocks."""

    def __init__(self, noise: float = 0.0, seed: int = 0) -> None:
        self.time = 0.0
        self.log: list[tuple[str, int]] = []
        """Arm and steps of every block, in their order."""
        self._noise = noise
        self._random = random.Random(seed)  # noqa: S311  # noise, no secret

    def now(self) -> float:
        """Return the time in s."""
        return self.time

    def arm(
        self,
        name: str,
        cost: float,
        overhead: float = 0.0,
        drift: Callable[[float], float] = lambda _: 1.0,
    ) -> Callable[[int], float]:
        """Return a block whose step costs `cost` s, times `drift` of the time at its start."""

        def block(steps: int) -> float:
            noise = 1 + self._noise * self._random.gauss(0, 1)
            seconds = (overhead + steps * cost) * drift(self.time) * max(noise, 0.01)
            self.log.append((name, steps))
            self.time += seconds
            return seconds

        return block
