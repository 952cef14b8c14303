"""The GPU around the timing: what NVML tells, what it may fail to tell, and the doubts it raises."""

import os
import sys
from dataclasses import asdict, replace
from types import ModuleType, SimpleNamespace

import pytest
import torch

from src import record, vocabulary
from src.bench import gpu_state
from src.bench.gpu_state import GpuState

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)

AT_LOAD = GpuState(
    sm_clock_mhz=1980,
    memory_clock_mhz=3201,
    temperature_c=41,
    power_w=312.5,
    throttle_reasons=("SwPowerCap",),
    foreign_processes=1,
)
"""What the pretended NVML below tells."""

NOTHING = GpuState(**dict.fromkeys(asdict(AT_LOAD)))

NEW_AND_OLD = [
    ("nvmlDeviceGetTemperatureV", "nvmlDeviceGetTemperature"),
    ("nvmlDeviceGetCurrentClocksEventReasons", "nvmlDeviceGetCurrentClocksThrottleReasons"),
    ("nvmlDeviceGetComputeRunningProcesses", "nvmlDeviceGetComputeRunningProcesses_v2"),
]
"""Names of the same questions in nvidia-ml-py 13 and before."""


class NVMLError(Exception):
    """As in nvidia-ml-py: the base of what NVML's own codes raise."""


class NVMLLibraryMismatchError(Exception):
    """As in nvidia-ml-py: no NVMLError, raised where the driver lacks an unversioned function."""


def raising(error):
    """Return a function that raises, whatever it is asked."""

    def ask(*_):
        raise error

    return ask


def handle(uuid):
    """Return the handle of the one GPU that there is."""
    if uuid != "GPU-1234-abcd":
        raise NVMLError("Not Found")
    return "handle"


def processes(*pids):
    """Return a function that tells processes."""
    return lambda _gpu: [SimpleNamespace(pid=pid) for pid in pids]


@pytest.fixture
def nvml(monkeypatch):
    """Pretend pynvml and a GPU at load, with names and numbers of nvidia-ml-py 13.615; return the module."""
    module = ModuleType("pynvml")
    tells = {
        "NVMLError": NVMLError,
        "NVMLLibraryMismatchError": NVMLLibraryMismatchError,
        "NVML_CLOCK_SM": 1,
        "NVML_CLOCK_MEM": 2,
        "NVML_TEMPERATURE_GPU": 0,
        "nvmlInit": lambda: None,
        "nvmlSystemGetDriverVersion": lambda: "580.159.04",
        "nvmlDeviceGetHandleByUUID": handle,
        "nvmlDeviceGetClockInfo": lambda gpu, clock: {("handle", 1): 1980, ("handle", 2): 3201}[gpu, clock],
        "nvmlDeviceGetPowerUsage": {"handle": 312_500}.__getitem__,
        "nvmlDeviceGetTemperatureV": lambda gpu, sensor: {("handle", 0): 41}[gpu, sensor],
        "nvmlDeviceGetCurrentClocksEventReasons": {"handle": 0x4}.__getitem__,
        "nvmlDeviceGetComputeRunningProcesses": processes(os.getpid(), 4242),
    }
    for name, what in tells.items():
        setattr(module, name, what)
    monkeypatch.setitem(sys.modules, "pynvml", module)
    monkeypatch.setattr(
        torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(uuid="1234-abcd")
    )
    return module


class TestTake:
    def test_what_nvml_tells(self, nvml):
        """Of the GPU that has torch's UUID, power in W."""
        assert gpu_state.take(CUDA) == AT_LOAD

    def test_a_cpu_has_no_state(self, nvml):
        """Even where there is a GPU."""
        assert gpu_state.take(CPU) is None

    def test_without_pynvml_there_is_none(self, nvml, monkeypatch):
        """It is optional."""
        monkeypatch.setitem(sys.modules, "pynvml", None)
        assert gpu_state.take(CUDA) is None
        assert gpu_state.driver() is None

    def test_without_nvml_there_is_none(self, nvml):
        """No driver, or one that hides it."""
        nvml.nvmlInit = raising(NVMLError("NVML Shared Library Not Found"))
        assert gpu_state.take(CUDA) is None
        assert gpu_state.driver() is None

    def test_a_gpu_that_nvml_does_not_know_has_none(self, nvml, monkeypatch):
        """Such as a part of a divided GPU, whose name starts with MIG."""
        monkeypatch.setattr(torch.cuda, "get_device_properties", lambda _device: SimpleNamespace(uuid="5678"))
        assert gpu_state.take(CUDA) is None

    @pytest.mark.parametrize(
        ("function", "unknown"),
        [
            ("nvmlDeviceGetClockInfo", ("sm_clock_mhz", "memory_clock_mhz")),
            ("nvmlDeviceGetTemperatureV", ("temperature_c",)),
            ("nvmlDeviceGetPowerUsage", ("power_w",)),
            ("nvmlDeviceGetCurrentClocksEventReasons", ("throttle_reasons",)),
            ("nvmlDeviceGetComputeRunningProcesses", ("foreign_processes",)),
        ],
    )
    def test_what_it_does_not_tell_is_unknown(self, function, unknown, nvml):
        """The rest is told all the same."""
        setattr(nvml, function, raising(NVMLError("Not Supported")))
        assert gpu_state.take(CUDA) == replace(AT_LOAD, **dict.fromkeys(unknown))

    @pytest.mark.parametrize(("new", "old"), NEW_AND_OLD)
    def test_an_older_pynvml_is_asked_by_its_names(self, new, old, nvml):
        """It does not have the new ones."""
        setattr(nvml, old, getattr(nvml, new))
        delattr(nvml, new)
        assert gpu_state.take(CUDA) == AT_LOAD

    @pytest.mark.parametrize("error", [NVMLError("Function Not Found"), NVMLLibraryMismatchError()])
    @pytest.mark.parametrize(("new", "old"), NEW_AND_OLD)
    def test_an_older_driver_is_asked_by_its_names(self, new, old, error, nvml):
        """pynvml has the new ones, the driver does not."""
        setattr(nvml, old, getattr(nvml, new))
        setattr(nvml, new, raising(error))
        assert gpu_state.take(CUDA) == AT_LOAD

    def test_an_older_pynvml_knows_no_mismatch(self, nvml):
        """nvidia-ml-py 12.535 has no such exception."""
        del nvml.NVMLLibraryMismatchError
        nvml.nvmlDeviceGetPowerUsage = raising(NVMLError("Not Supported"))
        assert gpu_state.take(CUDA) == replace(AT_LOAD, power_w=None)

    def test_the_driver(self, nvml):
        """Its version, as NVML tells it."""
        assert gpu_state.driver() == "580.159.04"


class TestUtilisation:
    def test_is_a_part_of_the_time(self, nvml):
        """NVML tells percent."""
        nvml.nvmlDeviceGetUtilizationRates = lambda _gpu: SimpleNamespace(gpu=78, memory=40)
        assert gpu_state.utilisation(CUDA)() == 0.78

    def test_what_nvml_does_not_tell_is_none(self, nvml):
        """As on a part of a divided GPU; a CPU has none at all."""
        nvml.nvmlDeviceGetUtilizationRates = raising(NVMLError("Not Supported"))
        assert gpu_state.utilisation(CUDA)() is None
        assert gpu_state.utilisation(CPU) is None


class TestThrottleReasons:
    @pytest.mark.parametrize(
        ("mask", "names"),
        [
            (0x0, ()),
            (0x1, ()),  # idle
            (0x2, ("ApplicationsClocksSetting",)),
            (0x8, ("HwSlowdown",)),
            (0x10, ("SyncBoost",)),
            (0x20, ("SwThermalSlowdown",)),
            (0x40, ("HwThermalSlowdown",)),
            (0x80, ("HwPowerBrakeSlowdown",)),
            (0x100, ("DisplayClockSetting",)),
            (0x48, ("HwSlowdown", "HwThermalSlowdown")),
            (0x5, ("SwPowerCap",)),
            (0x10004, ("SwPowerCap", "0x10000")),  # one that NVML may add some day
        ],
    )
    def test_bits_have_the_names_of_nvml(self, mask, names, nvml):
        """By the table nvmlClocksEventReasons of NVIDIA's NVML reference."""
        nvml.nvmlDeviceGetCurrentClocksEventReasons = lambda _gpu: mask
        assert gpu_state.take(CUDA).throttle_reasons == names

    def test_the_names_are_those_of_the_installed_pynvml(self):
        """All of its constants, but for those that are no reason and for a second name."""
        pynvml = pytest.importorskip("pynvml")
        prefixes = ("nvmlClocksEventReason", "nvmlClocksThrottleReason")
        theirs = {
            value: name.removeprefix(prefix)
            for prefix in prefixes
            for name, value in vars(pynvml).items()
            if name.startswith(prefix) and not name.endswith(("None", "All", "UserDefinedClocks"))
        }
        assert theirs.items() <= gpu_state._REASONS.items()


class TestForeignProcesses:
    @pytest.mark.parametrize(
        ("pids", "foreign"),
        [
            ((os.getpid(),), 0),
            ((os.getpid(), -1, -2), 2),
            ((-1,), 0),  # in a container: this process, under the number that the host gave it
            ((-1, -2), 1),
            ((-1, -1), 0),  # told once for each part of a divided GPU
            ((), None),  # not even this process is shown
        ],
    )
    def test_one_of_those_shown_is_this_process(self, pids, foreign, nvml):
        """Whatever its number; negative ones stand for any others."""
        nvml.nvmlDeviceGetComputeRunningProcesses = processes(*pids)
        assert gpu_state.take(CUDA).foreign_processes == foreign


class TestColumns:
    AFTER = GpuState(
        sm_clock_mhz=1755,
        memory_clock_mhz=2619,
        temperature_c=68,
        power_w=698.25,
        throttle_reasons=("HwSlowdown", "SwPowerCap"),
        foreign_processes=3,
    )

    def test_both_states_have_columns(self):
        """Reasons of both, sorted, each once; the larger number of other processes."""
        assert gpu_state.columns(AT_LOAD, self.AFTER) == {
            "sm_clock_mhz_before": 1980,
            "sm_clock_mhz_after": 1755,
            "memory_clock_mhz_before": 3201,
            "memory_clock_mhz_after": 2619,
            "gpu_temperature_c_before": 41,
            "gpu_temperature_c_after": 68,
            "gpu_power_w_before": 312.5,
            "gpu_power_w_after": 698.25,
            "throttle_reasons": ["HwSlowdown", "SwPowerCap"],
            "foreign_gpu_processes": 3,
        }

    def test_what_one_state_lacks_the_other_tells(self):
        """A state, or a part of it."""
        told = gpu_state.columns(None, AT_LOAD)
        assert (told["sm_clock_mhz_before"], told["sm_clock_mhz_after"]) == (None, 1980)
        assert (told["throttle_reasons"], told["foreign_gpu_processes"]) == (["SwPowerCap"], 1)
        told = gpu_state.columns(AT_LOAD, NOTHING)
        assert (told["throttle_reasons"], told["foreign_gpu_processes"]) == (["SwPowerCap"], 1)

    @pytest.mark.parametrize("state", [None, NOTHING], ids=["no state", "nothing told"])
    def test_what_is_not_known_is_null(self, state):
        """Also the list of reasons, which otherwise may be empty."""
        assert set(gpu_state.columns(state, state).values()) == {None}

    def test_no_reason_is_known_to_be_none(self):
        """An empty list is no null."""
        free = replace(AT_LOAD, throttle_reasons=())
        assert gpu_state.columns(free, free)["throttle_reasons"] == []

    @pytest.mark.parametrize("state", [None, AT_LOAD], ids=["no state", "all told"])
    def test_they_fit_the_row(self, state):
        """Names and types."""
        record.to_table({"status": "ok"} | gpu_state.columns(state, state))


class TestWarnings:
    CALM = replace(AT_LOAD, throttle_reasons=(), foreign_processes=0)

    def raised(self, before, after):
        """Return the names of the doubts."""
        return [name for name, present in gpu_state.warnings(before, after).items() if present]

    def test_all_are_explained(self):
        """In the record."""
        assert gpu_state.warnings(None, None).keys() <= vocabulary.WARNINGS.keys()

    @pytest.mark.parametrize("state", [None, NOTHING, CALM], ids=["no state", "nothing told", "calm"])
    def test_nothing_to_doubt(self, state):
        """What is not known raises no doubt."""
        assert self.raised(state, state) == []
        assert self.raised(state, self.CALM) == self.raised(self.CALM, state) == []

    @pytest.mark.parametrize(
        ("reason", "doubts"),
        [
            ("ApplicationsClocksSetting", []),
            ("DisplayClockSetting", []),
            ("SwPowerCap", ["clock_throttled"]),
            ("HwSlowdown", ["clock_throttled"]),
            ("SyncBoost", ["clock_throttled"]),
            ("SwThermalSlowdown", ["clock_throttled"]),
            ("HwThermalSlowdown", ["clock_throttled"]),
            ("HwPowerBrakeSlowdown", ["clock_throttled"]),
        ],
    )
    def test_clocks_that_someone_set_are_not_throttled(self, reason, doubts):
        """All other reasons are doubts, before the timing or after it."""
        slowed = replace(self.CALM, throttle_reasons=(reason,))
        assert self.raised(slowed, self.CALM) == self.raised(self.CALM, slowed) == doubts

    @pytest.mark.parametrize(
        ("before", "after", "doubts"),
        [
            (2000, 1900, []),
            (2000, 1899, ["clocks_moved"]),
            (2000, 2100, []),
            (2000, 2101, ["clocks_moved"]),
            (None, 2000, []),
            (2000, None, []),
        ],
    )
    def test_clocks_that_moved(self, before, after, doubts):
        """By more than 5 % of what they were, up or down."""
        states = (replace(self.CALM, sm_clock_mhz=mhz) for mhz in (before, after))
        assert self.raised(*states) == doubts

    def test_another_process(self):
        """Before the timing or after it."""
        shared = replace(self.CALM, foreign_processes=1)
        assert self.raised(shared, self.CALM) == self.raised(self.CALM, shared) == ["foreign_gpu_process"]


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
class TestRealGpu:
    def test_nvml_tells_the_state(self):
        """Clocks, temperature and power of a GPU that has just worked."""
        pytest.importorskip("pynvml")
        torch.ones(2**24, device=CUDA).exp_()
        torch.cuda.synchronize()
        state = gpu_state.take(CUDA)
        assert state.sm_clock_mhz > 0
        assert state.memory_clock_mhz > 0
        assert 10 < state.temperature_c < 110
        assert state.power_w > 0
        assert state.throttle_reasons is not None
        assert gpu_state.driver()
