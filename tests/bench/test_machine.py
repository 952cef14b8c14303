"""The machine: which device, what cannot run on it, and what the row says about it."""

import json
import os
import platform
import subprocess
import sys
import time
from collections import namedtuple
from pathlib import Path
from types import SimpleNamespace

import psutil
import pytest
import torch

from src import record
from src.bench import machine
from src.bench.refusal import Excluded, Unsupported
from tests.specs import spec

CPU, CUDA = torch.device("cpu"), torch.device("cuda", 0)
GIB = 2**30
ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture
def gpu(monkeypatch):
    """Pretend there is a modern GPU with 8 of 16 GiB free; return what it says of itself."""
    properties = SimpleNamespace(
        name="Pretended GPU", uuid="1234-abcd", major=9, minor=0, total_memory=16 * GIB
    )
    answers = {
        "is_available": lambda: True,
        "get_device_capability": lambda _device: (properties.major, properties.minor),
        "get_device_name": lambda _device: properties.name,
        "get_device_properties": lambda _device: properties,
        "mem_get_info": lambda _device: (8 * GIB, 16 * GIB),
    }
    for name, answer in answers.items():
        monkeypatch.setattr(torch.cuda, name, answer)
    monkeypatch.setattr(machine.torch_private, "has_triton", lambda: True)
    return properties


@pytest.fixture
def no_gpu(monkeypatch):
    """Pretend there is no GPU."""
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)


@pytest.fixture
def no_cxx(monkeypatch):
    """Pretend there is no C++ compiler."""
    monkeypatch.setattr(machine.torch_private, "cxx_compiler", lambda: None)


@pytest.fixture
def one_gib(monkeypatch):
    """Pretend that 1 GiB of memory is available."""
    monkeypatch.setattr(machine.psutil, "virtual_memory", lambda: SimpleNamespace(available=GIB))


class TestResolveDevice:
    @pytest.mark.parametrize("asked", ["auto", "cpu"])
    def test_without_a_gpu_it_is_the_cpu(self, asked, no_gpu):
        """Left to us or asked for."""
        assert machine.resolve_device(asked) == CPU

    @pytest.mark.parametrize(("asked", "expected"), [("auto", CUDA), ("cuda", CUDA), ("cpu", CPU)])
    def test_with_a_gpu(self, asked, expected, gpu):
        """`auto` takes it, and always the first one that is visible."""
        assert machine.resolve_device(asked) == expected

    @pytest.mark.parametrize(("version", "build"), [(None, "no CUDA"), ("13.0", "CUDA 13.0")])
    def test_a_gpu_that_is_not_there_is_unsupported(self, version, build, no_gpu, monkeypatch):
        """The reason tells a CPU build of torch from a missing driver."""
        monkeypatch.setattr(torch.version, "cuda", version)
        with pytest.raises(Unsupported, match=rf"^device=cuda: .* \(torch was built for {build}\)$"):
            machine.resolve_device("cuda")


class TestCheckCanRun:
    def test_a_small_model_can(self, monkeypatch):
        """Nothing to object, with a compiler."""
        monkeypatch.setattr(machine.torch_private, "cxx_compiler", lambda: "g++")
        machine.check_can_run(spec("model=tiny"), CPU)

    def test_a_cuda_lr_needs_cuda_parameters(self):
        """`device=auto` may turn out to be the CPU only here."""
        with pytest.raises(Unsupported, match=r"^lr_type=cuda_tensor: the parameters are on the CPU$"):
            machine.check_can_run(spec("lr_type=cuda_tensor"), CPU)


class TestKnownExclusion:
    CAPTURABLE = "the eager step takes capturable parameters on an accelerator alone"

    def test_nothing_is_known_against_a_default_run(self):
        """Nor against `capturable` where there is a GPU."""
        assert machine.known_exclusion(spec("model=tiny"), CPU) is None
        assert machine.known_exclusion(spec("optimizer.capturable=true"), CUDA) is None

    def test_what_cannot_work_is_unsupported(self):
        """With the reason of the list."""
        with pytest.raises(Unsupported, match=f"^{self.CAPTURABLE}$"):
            machine.known_exclusion(spec("optimizer.capturable=true"), CPU)

    def test_what_is_not_worth_a_run_is_excluded(self, monkeypatch):
        """The list says which of the two."""
        known = SimpleNamespace(status="excluded", reason="it takes a week")
        monkeypatch.setattr(machine.exclusions, "find", lambda *_: known)
        with pytest.raises(Excluded, match=r"^it takes a week$"):
            machine.known_exclusion(spec("model=tiny"), CPU)

    def test_it_is_tried_all_the_same_when_asked(self):
        """The reason stays known."""
        how = spec("optimizer.capturable=true", "retest_exclusions=true")
        assert machine.known_exclusion(how, CPU) == self.CAPTURABLE

    def test_a_rule_of_the_user_is_told_as_such(self):
        """Also where known exclusions are tried again: it is a wish, not a fact."""
        how = spec("optimizer=sgd", "exclude=[{optimizer: sgd, device: cpu}]", "retest_exclusions=true")
        with pytest.raises(Excluded, match=r"^exclude: \{optimizer: sgd, device: cpu\}$"):
            machine.known_exclusion(how, CPU)


class TestCapability:
    def test_an_old_gpu_is_unsupported(self, gpu):
        """Its name and capability are told."""
        gpu.name, gpu.major, gpu.minor = "Tesla P100", 6, 1
        expected = r"^torch.compile needs CUDA capability 7\.0 or newer: Tesla P100 has 6\.1$"
        with pytest.raises(Unsupported, match=expected):
            machine.check_can_run(spec("model=tiny"), CUDA)

    @pytest.mark.parametrize("choice", ["aot_eager", "none"])
    def test_it_can_run_what_generates_no_code(self, gpu, choice):
        """Triton is not needed there."""
        gpu.major = 6
        machine.check_can_run(spec("model=tiny", f"compile={choice}"), CUDA)

    def test_the_oldest_that_works(self, gpu):
        """7.0 is enough."""
        gpu.major, gpu.minor = 7, 0
        machine.check_can_run(spec("model=tiny"), CUDA)

    def test_no_triton_is_unsupported(self, gpu, monkeypatch):
        """Inductor has no other way to a GPU."""
        monkeypatch.setattr(machine.torch_private, "has_triton", lambda: False)
        with pytest.raises(Unsupported, match="needs a working Triton"):
            machine.check_can_run(spec("model=tiny"), CUDA)


class TestCompiler:
    @pytest.mark.parametrize(
        ("device", "overrides"), [(CPU, ()), (CUDA, ("lr_type=cpu_tensor",))], ids=["cpu", "cpu lr tensor"]
    )
    def test_without_one_inductor_cannot_run_on_the_cpu(self, device, overrides, gpu, no_cxx):
        """Nor can it compute with a learning rate there; the reason says what to do."""
        with pytest.raises(Unsupported, match=r"C\+\+ compiler .* \(set CXX or install g\+\+\)"):
            machine.check_can_run(spec("model=tiny", *overrides), device)

    @pytest.mark.parametrize(
        ("device", "overrides"),
        [
            (CPU, ("compile=aot_eager",)),
            (CPU, ("compile=none",)),
            (CUDA, ()),
            (CUDA, ("lr_type=cuda_tensor",)),
        ],
        ids=["aot_eager", "none", "cuda", "cuda lr tensor"],
    )
    def test_what_compiles_no_cxx_needs_none(self, device, overrides, gpu, no_cxx):
        """Everything on the GPU, or no code at all."""
        machine.check_can_run(spec("model=tiny", *overrides), device)


class TestMemory:
    """32 x 4096 x 4096 parameters and gradients of two arms are 8 GiB (`test_footprint` has the formula)."""

    OVERRIDES = ("model=large", "optimizer=sgd", "measure=trace", "compile=aot_eager")

    def test_on_a_cpu_that_of_the_host_counts(self, one_gib):
        """An eighth fits, the whole does not."""
        machine.check_can_run(spec(*self.OVERRIDES, "model.depth=4"), CPU)
        with pytest.raises(Unsupported, match=r"need .* \(8\.0 GiB\), .* \(1\.0 GiB\) are available"):
            machine.check_can_run(spec(*self.OVERRIDES), CPU)

    def test_on_a_gpu_its_free_memory_counts(self, gpu, one_gib):
        """8 GiB needed and free on the GPU; with one layer more they are not."""
        machine.check_can_run(spec(*self.OVERRIDES), CUDA)
        with pytest.raises(Unsupported, match=r"need .* \(8\.2 GiB\), .* \(8\.0 GiB\) are available"):
            machine.check_can_run(spec(*self.OVERRIDES, "model.depth=33"), CUDA)


LINUX_ONLY = pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="this system pins nothing")

PINNED_FORK = """
import os, pathlib, subprocess, sys
import torch
from src.bench import machine

ours = machine._own_cpus()[-1]
if pid := os.fork():  # a run is a fork of a process that has loaded torch
    sys.exit(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]))
machine.pin([ours])
torch.set_num_threads(2)
torch.ones(2**20).exp_()
tasks = [(task / "status").read_text() for task in pathlib.Path("/proc/self/task").iterdir()]
print(ours)
print(*(line.split()[1] for task in tasks for line in task.splitlines() if "Cpus_allowed_list" in line))
sys.stdout.flush()
subprocess.run([sys.executable, "-c", "import os; print(*os.sched_getaffinity(0))"], check=True)
os._exit(0)
"""


@LINUX_ONLY
class TestPin:
    @pytest.mark.skipif(len(machine._own_cpus()) < 2, reason="there is one CPU: no thread could be elsewhere")
    def test_threads_and_processes_that_start_later_stay_there(self):
        """Those of torch's pool, in a fork of a process that has torch loaded, and a process of its own."""
        command = [sys.executable, "-c", PINNED_FORK]
        # OpenMP's own settings, if there are any, are read before the pin and would overrule it.
        environment = {k: v for k, v in os.environ.items() if not k.startswith(("OMP_", "GOMP_", "KMP_"))}
        printed = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, check=True, timeout=300
        ).stdout
        cpu, threads, process = printed.splitlines()
        assert len(threads.split()) >= 2  # the main thread and the pool's
        assert set(threads.split()) == {cpu}
        assert process == cpu

    def test_none_pins_nothing(self, monkeypatch):
        """It is not even tried."""
        monkeypatch.setattr(os, "sched_setaffinity", lambda *_: pytest.fail("pinned"))
        machine.pin(None)

    @pytest.mark.parametrize(
        ("asked", "allowed", "told"),
        [
            ([9], {0, 1}, r"cpus=\[9\]: this process may use CPUs 0, 1"),
            ([0, 4], {0, 1, 2, 3, 8}, r"cpus=\[0, 4\]: this process may use CPUs 0-3, 8"),
        ],
    )
    def test_a_cpu_that_is_not_ours_is_unsupported(self, asked, allowed, told, monkeypatch):
        """In a container, and on a shared machine, the system would refuse it or drop it in silence."""
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: allowed)
        with pytest.raises(Unsupported, match=f"^{told}$"):
            machine.pin(asked)

    def test_a_system_that_cannot_is_unsupported(self, monkeypatch):
        """Such as macOS."""
        monkeypatch.delattr(os, "sched_setaffinity")
        monkeypatch.setattr(platform, "system", lambda: "Darwin")
        with pytest.raises(Unsupported, match=r"^cpus=\[0\]: Darwin pins no process to CPUs$"):
            machine.pin([0])


@pytest.fixture
def cpufreq(tmp_path, monkeypatch):
    """Return a function that pretends governors and drivers of CPUs; this process may use CPUs 0 and 1."""

    def pretend(attribute, *values):
        for cpu, value in enumerate(values):
            folder = tmp_path / f"cpu{cpu}" / "cpufreq"
            folder.mkdir(parents=True, exist_ok=True)
            (folder / attribute).write_text(f"{value}\n")

    monkeypatch.setattr(machine, "_CPU_FOLDER", tmp_path)
    monkeypatch.setattr(machine, "_own_cpus", lambda: [0, 1])
    return pretend


class TestGovernor:
    @pytest.mark.parametrize(
        ("governors", "told"),
        [
            ((), None),  # as in a virtual machine
            (("performance", "performance"), "performance"),
            (("performance", "powersave"), "performance, powersave"),
            (("schedutil", "schedutil", "powersave"), "schedutil"),  # a CPU that is not ours is not told
        ],
    )
    def test_it_is_told_once_or_all_that_differ(self, governors, told, cpufreq):
        """Of the CPUs that the run may use."""
        cpufreq("scaling_governor", *governors)
        assert machine.facts(spec(), CPU)["cpu_governor"] == told

    @pytest.mark.parametrize(
        ("governor", "drivers", "saves"),
        [
            (None, (), False),
            ("performance", ("acpi-cpufreq",), False),
            ("schedutil", ("acpi-cpufreq",), False),
            ("powersave", ("acpi-cpufreq",), True),
            ("ondemand", ("acpi-cpufreq",), True),
            ("conservative", ("acpi-cpufreq",), True),
            ("userspace", ("acpi-cpufreq",), True),
            ("performance, powersave", ("acpi-cpufreq",), True),
            ("powersave", ("intel_pstate",), False),  # active mode: its powersave follows the load
            ("powersave", ("amd-pstate-epp",), False),
            ("powersave", ("intel_cpufreq",), True),  # the same drivers in passive mode
            ("powersave", ("amd-pstate",), True),
            ("powersave", ("intel_pstate", "acpi-cpufreq"), True),
            ("powersave", (), True),
        ],
    )
    def test_which_save_power(self, governor, drivers, saves, cpufreq):
        """By the kernel's pages on cpufreq, intel_pstate and amd-pstate."""
        cpufreq("scaling_driver", *drivers)
        assert machine.governor_saves_power(governor) is saves


class TestLoadAverage:
    def test_it_is_that_of_one_minute(self, monkeypatch):
        """The first of the three."""
        monkeypatch.setattr(os, "getloadavg", lambda: (1.5, 0.5, 0.25))
        assert machine.facts(spec(), CPU)["load_average"] == 1.5

    def test_a_system_may_have_none(self, monkeypatch):
        """It is no reason to end a run."""

        def unobtainable():
            raise OSError("Load averages are unobtainable")

        monkeypatch.setattr(os, "getloadavg", unobtainable)
        assert machine.facts(spec(), CPU)["load_average"] is None
        monkeypatch.delattr(os, "getloadavg")
        assert machine.facts(spec(), CPU)["load_average"] is None


class TestForeignLoad:
    """CPU seconds that the host was busy and this process was not, over the seconds that passed."""

    @pytest.mark.parametrize(
        ("host", "own", "expected"),
        [
            ({"user": 8.0}, 8.0, 0.0),  # this process alone
            ({"user": 12.0}, 8.0, 1.0),  # one CPU more
            ({"system": 2.0, "irq": 1.0, "steal": 1.0}, 0.0, 1.0),  # whatever keeps a CPU busy
            ({"idle": 100.0, "iowait": 50.0}, 0.0, 0.0),  # waiting is not busy
            ({"user": 4.0, "guest": 4.0}, 0.0, 1.0),  # Linux has a guest's time in user as well
            ({"user": 1.0}, 1.5, 0.0),  # clocks of different resolution give no negative load
        ],
    )
    def test_what_others_used(self, host, own, expected, monkeypatch):
        """In 4 s, against hand-made counters of the kernel."""
        names = ("user", "nice", "system", "idle", "iowait", "irq", "softirq", "steal", "guest", "guest_nice")
        counters = namedtuple("counters", names)
        start = counters(*[1000.0] * 10)
        end = counters(*[1000.0 + host.get(name, 0.0) for name in names])
        clocks = {"process_time": [5.0, 5.0 + own], "monotonic": [7.0, 11.0]}
        fake_time = SimpleNamespace(**{name: iter(values).__next__ for name, values in clocks.items()})
        monkeypatch.setattr(machine, "time", fake_time)
        monkeypatch.setattr(machine.psutil, "cpu_times", iter([start, end]).__next__)
        assert machine.ForeignLoad().busy_cpus() == pytest.approx(expected)


class TestFacts:
    @pytest.mark.parametrize("device", [CPU, CUDA], ids=str)
    def test_all_are_columns_of_the_row(self, device, gpu):
        """Names and types fit the schema."""
        record.to_table({"status": "ok"} | machine.facts(spec(), device))

    def test_what_must_agree_between_rows_is_known(self, gpu):
        """Host, CPU, GPU and torch; CUDA's version as far as torch was built for it."""
        facts = machine.facts(spec(), CUDA)
        assert [n for n in record.MACHINE_FACTS if facts[n] is None and n != "cuda_version"] == []

    def test_a_cpu_run_has_no_gpu(self, gpu):
        """Even where there is one."""
        assert not [name for name in machine.facts(spec(), CPU) if name.startswith("gpu")]

    def test_the_gpu_as_torch_tells_it(self, gpu):
        """Name, UUID, capability and memory; the driver's version as far as NVML is there."""
        facts = machine.facts(spec(), CUDA)
        del facts["gpu_driver"]
        assert {name: value for name, value in facts.items() if name.startswith("gpu")} == {
            "gpu": "Pretended GPU",
            "gpu_uuid": "1234-abcd",
            "gpu_capability": "9.0",
            "gpu_memory_bytes": 16 * GIB,
        }

    def test_the_host_as_the_system_tells_it(self):
        """Versions, CPUs and memory."""
        facts = machine.facts(spec(), CPU)
        assert facts["python_version"] == platform.python_version()
        assert facts["torch_version"] == str(torch.__version__)
        assert facts["cpu_count"] == len(os.sched_getaffinity(0))
        assert facts["memory_bytes"] == psutil.virtual_memory().total
        assert facts["threads"] == torch.get_num_threads()
        assert facts["host_cpu_count"] == machine.host_cpus() >= facts["cpu_count"]

    def test_the_compiler_is_told_where_it_is_used(self, gpu):
        """By a run that compiles C++, not by one that does not."""
        assert machine.facts(spec("compile=aot_eager"), CPU)["cxx_compiler"] is None
        assert machine.facts(spec(), CUDA)["cxx_compiler"] is None
        if machine.torch_private.cxx_compiler() is not None:
            assert machine.facts(spec(), CPU)["cxx_compiler"]

    def test_the_environment_that_steers_torch(self, monkeypatch):
        """What the user set, not what stepsweep sets itself, and nothing else."""
        for name in list(os.environ):
            if name.startswith(machine._STEERING):
                monkeypatch.delenv(name)
        monkeypatch.setenv("TORCHINDUCTOR_MAX_AUTOTUNE", "1")
        monkeypatch.setenv("OMP_NUM_THREADS", "2")
        monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", "/somewhere")
        monkeypatch.setenv("TORCH_LOGS_OUT", "/somewhere/torch.log")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
        found = json.loads(machine.facts(spec(), CPU)["torch_environment"])
        assert found == {"OMP_NUM_THREADS": "2", "TORCHINDUCTOR_MAX_AUTOTUNE": "1"}


class _Workers:
    """Processes that use CPU time as told between one look and the next, on a clock that sleeping moves."""

    def __init__(self, *used):
        self.time, self.busy, self.used = 100.0, 5.0, list(used)

    def busy_seconds(self):
        """Return the CPU time so far."""
        return self.busy

    def now(self):
        """Return the time in s."""
        return self.time

    def sleep(self, seconds):
        """Let time go by, and work be done."""
        self.time += seconds
        self.busy += self.used.pop(0) if self.used else 0.0

    def waited(self, seconds):
        """Wait for them."""
        return machine.wait_for_own_processes(seconds, self.busy_seconds, self.now, self.sleep)


class TestWaitForOwnProcesses:
    def test_where_all_are_idle_one_look_is_enough(self):
        """A quarter of a second."""
        assert _Workers().waited(15.0) == 0.25

    def test_it_goes_on_until_they_are_idle(self):
        """One CPU for 0.75 s; what is below a tenth of a CPU is idle."""
        assert _Workers(0.25, 0.25, 0.25, 0.02).waited(15.0) == 1.0

    def test_but_not_for_ever(self):
        """Two seconds were given."""
        assert _Workers(*[0.25] * 100).waited(2.0) == 2.0

    def test_a_process_of_ones_own_that_works_is_seen(self):
        """A child that spins has CPU time, one that sleeps gets no more of it."""
        with subprocess.Popen([sys.executable, "-c", "while True: pass"]) as spinning:
            try:
                before = machine._descendants_busy_seconds()
                deadline = time.monotonic() + 60
                while machine._descendants_busy_seconds() < before + 0.1 and time.monotonic() < deadline:
                    time.sleep(0.05)
                assert machine._descendants_busy_seconds() >= before + 0.1
            finally:
                spinning.kill()
