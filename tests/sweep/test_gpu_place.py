"""Where a run goes on a host with several GPUs."""

import os
from dataclasses import replace
from pathlib import Path

import pytest

from src import hardware, lease
from src.hardware import Gpu
from src.sweep import gpu_place
from src.sweep.gpu_place import Place, placed
from tests.specs import spec as spec_of

A, B = Gpu("GPU-aaa", "NVIDIA H200", "0000:1b:00.0"), Gpu("GPU-bbb", "NVIDIA H200", "0000:9a:00.0")


@pytest.fixture(autouse=True)
def host(tmp_path, monkeypatch):
    """Two GPUs, and files of a system with four cores of two threads: both GPUs near the first six CPUs."""
    monkeypatch.setenv(lease.FOLDER, str(tmp_path / "leases"))
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    monkeypatch.setattr(hardware, "gpus", lambda: (A, B))
    monkeypatch.setattr(gpu_place, "_SYS", tmp_path)
    monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: set(range(8)))
    for gpu in (A, B):
        write(tmp_path / "bus/pci/devices" / gpu.bus / "local_cpulist", "0-2,4-6\n")
    for cpu in range(8):
        siblings = f"{cpu % 4},{cpu % 4 + 4}\n"
        write(tmp_path / f"devices/system/cpu/cpu{cpu}/topology/thread_siblings_list", siblings)
    return tmp_path


def write(file: Path, text):
    file.parent.mkdir(parents=True)
    file.write_text(text)


def run_on(*overrides):
    return placed(spec_of("model=tiny", "device=cuda", *overrides))


class TestGpu:
    def test_runs_go_where_the_fewest_are(self):
        """Two side by side on two GPUs, the third beside the first; who ends makes room."""
        with run_on() as first, run_on() as second, run_on() as third:
            chosen = [place.environment["CUDA_VISIBLE_DEVICES"] for place in (first, second, third)]
            assert chosen == ["GPU-aaa", "GPU-bbb", "GPU-aaa"]
        with run_on(), run_on() as second:
            assert second.environment == {"CUDA_VISIBLE_DEVICES": "GPU-bbb"}

    @pytest.mark.parametrize(
        ("visible", "chosen"),
        [
            ("1,0", "GPU-bbb"),
            ("GPU-b,GPU-a", "GPU-bbb"),
            ("1", None),
            ("", None),
            ("MIG-1,MIG-2", None),
            ("7", None),
        ],
    )
    def test_of_those_that_the_user_leaves_visible(self, monkeypatch, visible, chosen):
        """One alone needs no choice, and what is not known is left to CUDA."""
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
        with run_on() as place:
            assert place.environment.get("CUDA_VISIBLE_DEVICES") == chosen

    def test_a_cpu_run_needs_none(self):
        with placed(spec_of("model=tiny", "device=cpu")) as place:
            assert place == Place()

    def test_nor_is_there_one_without_a_place_for_leases(self, tmp_path, monkeypatch):
        (tmp_path / "file").write_text("")
        monkeypatch.setenv(lease.FOLDER, str(tmp_path / "file" / "below"))
        with run_on() as place:
            assert place == Place()


class TestCpus:
    def test_gpus_of_one_node_have_cores_of_their_own(self):
        """Of three near cores one each, with both of its threads; none is split between two."""
        with run_on() as first, run_on() as second:
            assert (first.near_cpus, second.near_cpus) == ((0, 4), (1, 5))

    def test_only_those_that_the_process_may_use(self, monkeypatch):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {1, 2, 5, 6, 7})
        with run_on() as first, run_on() as second:
            assert (first.near_cpus, second.near_cpus) == ((1, 5), (2, 6))

    @pytest.mark.parametrize("overrides", [("measure.pin=false",), ("cpus=[0,1]",)])
    def test_none_where_the_user_says_otherwise(self, overrides):
        """What `cpus` names is the user's choice."""
        with run_on(*overrides) as place:
            assert place.near_cpus is None
            assert place.environment

    def test_one_gpu_keeps_to_all_that_are_near_on_request(self, monkeypatch):
        monkeypatch.setattr(hardware, "gpus", lambda: (A,))
        with run_on("measure.pin=true") as place:
            assert place.near_cpus == (0, 1, 2, 4, 5, 6)
        with run_on() as place:
            assert place == Place()

    def test_none_where_the_system_does_not_tell(self, tmp_path, monkeypatch):
        monkeypatch.setattr(gpu_place, "_SYS", tmp_path / "nothing")
        with run_on() as place:
            assert place.near_cpus is None

    def test_none_where_there_are_fewer_cores_than_gpus(self, monkeypatch):
        monkeypatch.setattr(os, "sched_getaffinity", lambda _pid: {0, 4})
        with run_on() as place:
            assert place.near_cpus is None


def test_pinning_is_part_of_the_run_key_where_it_is_asked_for():
    """Runs of before, which knew nothing of it, keep their key."""
    plain, asked = spec_of("model=tiny"), spec_of("model=tiny", "measure.pin=true")
    assert plain.run_key() != asked.run_key()
    assert plain.run_key() == replace(plain, measure=replace(plain.measure, pin=False)).run_key()
