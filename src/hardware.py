"""What the host has, as the system tells it: known without torch."""

import platform
from dataclasses import dataclass
from functools import cache
from pathlib import Path

_NVIDIA = Path("/proc/driver/nvidia/gpus")


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU of the host."""

    uuid: str
    """As NVIDIA writes it, such as `GPU-5d8d2a64-...`."""
    name: str
    bus: str
    """PCI address, such as `0000:1b:00.0`."""


@cache
def cpu_model() -> str:
    """Return the model of the CPU."""
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith(("model name", "Model")):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def has_nvidia_driver() -> bool:
    """Return whether the driver of NVIDIA's GPUs is loaded, even where no GPU of it can be listed."""
    return (_NVIDIA.parent / "version").exists()


def gpus() -> tuple[Gpu, ...]:
    """Return the NVIDIA GPUs of the host in the order of their PCI addresses, which is NVML's.

    From NVML where nvidia-ml-py is installed, else from the driver's files; none where neither knows.
    """
    return _of_nvml() or _of_driver(_NVIDIA)


def _of_nvml() -> tuple[Gpu, ...]:
    try:
        import pynvml  # noqa: PLC0415  # optional

        pynvml.nvmlInit()
    except Exception:  # not installed, no driver, or one older than pynvml: each has its own
        return ()
    try:
        found = []
        for index in range(pynvml.nvmlDeviceGetCount()):
            gpu = pynvml.nvmlDeviceGetHandleByIndex(index)
            uuid, name = _text(pynvml.nvmlDeviceGetUUID(gpu)), _text(pynvml.nvmlDeviceGetName(gpu))
            found.append(Gpu(uuid, name, _text(pynvml.nvmlDeviceGetPciInfo(gpu).busId)[-12:].lower()))
        return tuple(found)
    except pynvml.NVMLError:
        return ()
    finally:
        pynvml.nvmlShutdown()


def _text(found: str | bytes) -> str:
    """Return a text of NVML, which older pynvml give as bytes."""
    return found.decode() if isinstance(found, bytes) else found


def _of_driver(folder: Path) -> tuple[Gpu, ...]:
    found = []
    try:
        for gpu in sorted(folder.iterdir()):
            lines = (line.partition(":") for line in (gpu / "information").read_text().splitlines())
            facts = {key.strip(): value.strip() for key, _, value in lines}
            found.append(Gpu(facts["GPU UUID"], facts["Model"], gpu.name))
    except (OSError, KeyError):
        return ()
    return tuple(found)
