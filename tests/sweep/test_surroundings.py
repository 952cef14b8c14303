"""Facts that rows of one sweep must share, found without torch."""

import subprocess
import sys

import pytest

from src import hardware
from src.hardware import Gpu
from src.sweep import surroundings

H200 = Gpu("GPU-1", "NVIDIA H200", "0000:1b:00.0")


@pytest.fixture
def here(monkeypatch):
    """Stand in for a machine."""

    def here(*, torch="2.13.0", cuda=None, commit="abc", cpu="EPYC", gpus=(), driver=False):
        surroundings._here.cache_clear()
        monkeypatch.setattr(surroundings, "_of_torch", lambda: {"__version__": torch, "cuda": cuda})
        monkeypatch.setattr(surroundings.provenance, "stepsweep_commit", lambda: commit)
        monkeypatch.setattr(hardware, "cpu_model", lambda: cpu)
        monkeypatch.setattr(hardware, "gpus", lambda: gpus)
        monkeypatch.setattr(hardware, "has_nvidia_driver", lambda: driver)

    yield here
    surroundings._here.cache_clear()


def measured(**changes):
    facts = {"torch_version": "2.13.0", "cuda_version": None, "stepsweep_commit": "abc", "cpu": "EPYC"}
    return facts | {"gpu": None} | changes


class TestChanges:
    def test_none_where_all_is_as_it_was(self, here):
        here()
        assert surroundings.changes([measured(), measured()], machine=True) == []

    @pytest.mark.parametrize(
        ("row", "told"),
        [
            ({"torch_version": "2.12.0"}, "torch_version was 2.12.0, now is 2.13.0"),
            ({"stepsweep_commit": "abc+dirty"}, "stepsweep_commit was abc+dirty, now is abc"),
            ({"cpu": "Xeon"}, "cpu was Xeon, now is EPYC"),
            ({"gpu": "NVIDIA A100"}, "gpu was NVIDIA A100, now is none"),
        ],
    )
    def test_each_is_told_in_words(self, here, row, told):
        here()
        assert surroundings.changes([measured(), measured(**row)], machine=True) == [told]

    def test_a_gpu_among_several_is_the_same(self, here):
        here(gpus=(Gpu("GPU-0", "NVIDIA A100", "0000:01:00.0"), H200), driver=True)
        assert surroundings.changes([measured(gpu="NVIDIA H200")], machine=True) == []

    def test_a_driver_that_lists_nothing_tells_nothing(self, here):
        here(driver=True)
        assert surroundings.changes([measured(gpu="NVIDIA H200")], machine=True) == []

    def test_what_is_not_known_here_is_not_compared(self, here):
        here(commit=None)
        assert surroundings.changes([measured()], machine=True) == []

    def test_the_machine_counts_only_where_the_runs_will_be_on_it(self, here):
        """A launcher may send them elsewhere; the versions go with them."""
        here(torch="2.14.0")
        rows = [measured(cpu="Xeon", gpu="NVIDIA A100")]
        assert surroundings.changes(rows, machine=False) == ["torch_version was 2.13.0, now is 2.14.0"]


def test_versions_are_torchs_own_and_torch_is_not_loaded():
    """The same texts that a run, which loads torch, puts into its row."""
    code = (
        "import sys; from src.sweep import surroundings as s; found = s._of_torch();"
        "absent = 'torch' not in sys.modules; import torch;"
        "print(absent, found['__version__'] == torch.__version__, found['cuda'] == torch.version.cuda)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "True True True\n"
