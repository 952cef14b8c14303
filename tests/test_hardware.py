"""What the host has, as files of the system tell it."""

import platform

from src import hardware
from src.hardware import Gpu


def information(folder, bus, model, uuid):
    """Write a driver's file as NVIDIA's does (README of the Linux driver, /proc/driver/nvidia/gpus)."""
    (folder / bus).mkdir(parents=True)
    (folder / bus / "information").write_text(
        f"Model: \t\t {model}\nIRQ:   \t\t 0\nGPU UUID: \t {uuid}\nVideo BIOS: \t 96.00.61.00.01\n"
        f"Bus Type: \t PCIe\nBus Location: \t {bus}\nDevice Minor: \t 0\n"
    )


class TestGpus:
    def test_are_listed_in_the_order_of_their_addresses(self, tmp_path):
        information(tmp_path, "0000:9a:00.0", "NVIDIA H200", "GPU-b")
        information(tmp_path, "0000:1b:00.0", "NVIDIA H200", "GPU-a")
        assert hardware._of_driver(tmp_path) == (
            Gpu("GPU-a", "NVIDIA H200", "0000:1b:00.0"),
            Gpu("GPU-b", "NVIDIA H200", "0000:9a:00.0"),
        )

    def test_there_are_none_without_a_driver_or_in_files_of_another_form(self, tmp_path):
        assert hardware._of_driver(tmp_path / "nothing") == ()
        (tmp_path / "0000:1b:00.0").mkdir()
        (tmp_path / "0000:1b:00.0" / "information").write_text("Model: x\n")
        assert hardware._of_driver(tmp_path) == ()


def test_the_cpu_has_a_name():
    assert hardware.cpu_model()
    assert hardware.cpu_model() != platform.system()
