"""What the C library does with memory that is freed."""

import ctypes
import subprocess
import sys

import pytest

from src.bench import heap

glibc = pytest.mark.skipif(not hasattr(ctypes.CDLL(None), "mallopt"), reason="the C library is not glibc")

FAULTS = """
import ctypes, resource, sys
sys.path.insert(0, ".")
from src.bench import heap
if sys.argv[1] == "keep":
    assert heap.keep()
libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t]
libc.free.argtypes = [ctypes.c_void_p]

def taken_and_freed():
    place = libc.malloc(64 * 2**20)
    ctypes.memset(place, 1, 64 * 2**20)
    libc.free(place)

taken_and_freed()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
for _ in range(5):
    taken_and_freed()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
"""Prints the page faults of taking and freeing 64 MiB five times, after once: they are 16,384 pages."""


def faults(how):
    """Return what that prints."""
    done = subprocess.run(
        [sys.executable, "-c", FAULTS, how], capture_output=True, text=True, check=True, timeout=60
    )
    return int(done.stdout)


@glibc
class TestKeep:
    def test_memory_that_was_freed_is_taken_again_without_a_fault(self):
        """Five times 64 MiB cost fewer faults than one page in sixteen would be."""
        assert faults("keep") < 1024

    def test_left_alone_each_time_costs_a_fault_a_page(self):
        """A block of 64 MiB is beyond any threshold of glibc: it is unmapped when it is freed."""
        assert faults("leave") >= 5 * 64 * 2**20 / 65536  # pages of 64 KiB at most


class TestElsewhere:
    def test_another_c_library_is_left_alone(self, monkeypatch):
        """And says so."""
        monkeypatch.setattr(heap, "_libc", lambda: None)
        assert (heap.keep(), heap.give_back()) == (False, False)
