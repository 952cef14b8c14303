"""GPU utilisation while one arm is repeated, with a clock and a GPU of the test's own."""

import threading
import time

import pytest
import torch

from src.bench import utilisation

CPU = torch.device("cpu")


class TestOf:
    def test_a_cpu_has_none(self):
        """And no step is taken for it."""
        taken = []
        assert utilisation.of(lambda: taken.append(1), CPU) is None
        assert not taken

    def test_a_gpu_that_says_nothing_has_none(self):
        """NVML does not tell, for instance of a part of a divided GPU."""
        assert utilisation.of(lambda: None, CPU, sample=lambda: None) is None

    def test_is_the_mean_of_what_settled(self, monkeypatch):
        """Samples of the beginning still have in them what was before the step."""
        monkeypatch.setattr(utilisation, "EVERY", 0.001)
        seconds = [0.0]

        def step():
            seconds[0] += 0.05
            time.sleep(0.002)

        def sample():
            return 0.9 if seconds[0] >= utilisation.UNSETTLED else 0.1

        assert abs(utilisation.of(step, CPU, sample, lambda: seconds[0]) - 0.9) < 1e-9

    def test_no_thread_is_left_when_a_step_raises(self):
        """The run ends with its own error."""

        def step():
            raise RuntimeError("out of luck")

        before = threading.active_count()
        with pytest.raises(RuntimeError, match="out of luck"):
            utilisation.of(step, CPU, lambda: 0.5)
        assert threading.active_count() == before
