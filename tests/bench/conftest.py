"""Every test starts with a torch that has compiled nothing, and leaves its settings alone."""

import gc
import os
import shutil
import warnings
from pathlib import Path

import pytest
import torch
from filelock import FileLock

from src.bench import torch_private
from src.sweep import caches
from tests.needed import missing

with warnings.catch_warnings():
    warnings.simplefilter("ignore")  # torch's own modules use what torch deprecates
    import torch._inductor.compile_fx


@pytest.fixture(autouse=True)
def fresh_torch():
    """Forget what earlier tests compiled and counted; put the thread count back afterwards.

    What torch and its compiler keep for good, some hundred thousand objects, is taken out of sight of
    the garbage collector, which a run calls ten times: looking through them took more than half of the
    time of all tests here.
    """
    threads = torch.get_num_threads()
    torch._dynamo.reset()
    torch_private.clear()
    gc.collect()
    gc.freeze()
    yield
    torch.set_num_threads(threads)
    torch._dynamo.reset()


@pytest.fixture(scope="session")
def cxx_compiler():
    """Return the compiler that inductor takes; without one the test skips (in CI it fails)."""
    return torch_private.cxx_compiler() or missing("inductor finds no C++ compiler: apt-get install g++")


@pytest.fixture(scope="session")
def machine_cache(tmp_path_factory):
    """Return one inductor cache for the session: what it learns about the compiler is kept.

    That takes eight seconds of a CPU: the first process learns it, the others copy it, as runs do.
    """
    here, inside = tmp_path_factory.getbasetemp(), "PYTEST_XDIST_WORKER" in os.environ
    seed = (here.parent if inside else here) / "toolchain"
    with FileLock(f"{seed}.lock"):
        if not seed.exists():
            with pytest.MonkeyPatch.context() as patch:
                patch.setenv("TORCHINDUCTOR_CACHE_DIR", str(seed))
                torch.compile(lambda x: x * 2 + 1)(torch.ones(64))
            torch._dynamo.reset()
    return Path(shutil.copytree(seed, here / "inductor"))


@pytest.fixture
def cold_cache(machine_cache, monkeypatch):
    """Point inductor to a cache without compiled graphs, and return its folder."""
    for name in caches.GRAPH_CACHE_FOLDERS:
        shutil.rmtree(machine_cache / name, ignore_errors=True)
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(machine_cache))
    monkeypatch.setenv("TRITON_CACHE_DIR", str(machine_cache / "triton"))
    return machine_cache
