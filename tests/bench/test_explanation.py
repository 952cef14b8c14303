"""What explains the times of the arms: columns of each, from parts that are tested by themselves."""

import sys
import time

import pytest
import torch

from src import record
from src.bench import arms, explanation, implementations, roofline
from tests.specs import spec

CPU = torch.device("cpu")
GBPS = 100.0
CACHE = 2**20
NAMES = {column.name for column in record.COLUMNS}

ELEMENTS = 2 * 64 * 64
ADAM = {
    "last_level_cache_bytes": CACHE,
    "bandwidth_gbps": GBPS,
    "step_bytes": ELEMENTS * 4 * 7,  # parameter, gradient, two states read; parameter, two states written
    "floor_us": pytest.approx(2.29376),  # 229,376 bytes at 100,000 bytes a us
    "working_set_bytes": ELEMENTS * 4 * 4 + 2 * 4,  # and a step counter of float32 for each tensor
    "state_bytes": ELEMENTS * 4 * 2 + 2 * 4,
}
"""Of Adam with two matrices of 64 x 64 in float32, by hand."""

OF_AN_ARM = ("device_us", "kernels", "host_us", "cpu_us", "bound", "peak_bytes", "reserved_bytes")
MAKERS = {
    "eager": arms.eager,
    "compiled": arms.compiled,
    "eager_best": lambda how, *more: arms.eager(implementations.variant(how, "fused"), *more),
    "eager_after_compile": arms.eager_after_compile,
}


@pytest.fixture(autouse=True)
def machine(monkeypatch):
    """Let memory move 100 GB/s, the cache be too small for Adam, and an empty step take 1 us."""
    small = {"cache": ADAM["working_set_bytes"] - 1, "launch": 1.0}
    asked = []
    monkeypatch.setattr(explanation, "_CPU_SECONDS", 0.001)
    monkeypatch.setattr(roofline, "last_level_cache_bytes", lambda _device: small["cache"])
    monkeypatch.setattr(roofline, "bandwidth_gbps", lambda *_given: GBPS)
    monkeypatch.setattr(roofline, "launch_us", lambda how, *_given: asked.append(how) or small["launch"])
    small["asked"] = asked
    return small


def explained(us, *overrides, best=None, implementation=None):
    """Explain warm arms that take so many us."""
    how = spec("model=tiny", "device=cpu", "compile=aot_eager", "threads=1", *overrides)
    made = {name: MAKERS[name](how, CPU, time.perf_counter) for name in us}
    for arm in made.values():
        arm.take_step()
    timed = explanation.Timed(made, us, best, implementation)
    return explanation.explain(how, CPU, timed, time.perf_counter)


class TestColumns:
    def test_the_run_as_a_whole(self, machine):
        """Bytes by hand, and the floor from the bandwidth."""
        machine["cache"] = CACHE
        found = explained({"eager": 10.0, "compiled": 10.0})
        assert {name: found[name] for name in ADAM} == ADAM

    def test_every_arm_has_its_own_and_they_fit_the_row(self):
        """All four that can be timed."""
        us = dict.fromkeys(MAKERS, 10.0)
        found = explained(us, best="eager_best", implementation="fused")
        expected = {f"{name}_{what}" for name in MAKERS for what in OF_AN_ARM}
        assert set(found) == expected | set(ADAM) | {"eager_bytes"}
        record.to_table({"status": "ok"} | found)

    def test_on_a_cpu_there_is_no_device_to_wait_for(self):
        """Null, where CPU time and memory are there; the peak only where Linux tells it."""
        found = explained({"eager": 10.0, "compiled": 10.0})
        for name in ("eager", "compiled"):
            assert [found[f"{name}_{what}"] for what in ("device_us", "kernels", "host_us")] == [None] * 3
            assert found[f"{name}_cpu_us"] > 0
            peak = found[f"{name}_peak_bytes"]
            assert peak is None if sys.platform != "linux" else peak >= ADAM["working_set_bytes"]

    def test_what_is_not_known_is_null(self, monkeypatch):
        """No bandwidth because memory is short, no bytes because the optimizer has no formula."""
        monkeypatch.setattr(roofline, "bandwidth_gbps", lambda *_given: None)
        sign = ("optimizer=custom", "optimizer._target_=tests.bench.third_party.SignDescent")
        found = explained({"eager": 10.0, "compiled": 10.0}, *sign)
        names = ("bandwidth_gbps", "step_bytes", "floor_us", "compiled_bound")
        assert [found[name] for name in names] == [None] * 4
        assert found["working_set_bytes"] == ELEMENTS * 4 * 3

    def test_the_eager_step_moves_more_than_its_update_needs(self):
        """A loop over the tensors reads and writes temporary ones; fused, each number is moved once."""
        plain = explained({"eager": 10.0, "compiled": 10.0})
        fused = explained({"eager": 10.0, "compiled": 10.0}, "optimizer.fused=true")
        assert plain["eager_bytes"] > ADAM["step_bytes"]
        # Step counters, of 4 bytes for each tensor, are the only other thing that a fused step reads.
        assert ADAM["step_bytes"] <= fused["eager_bytes"] < ADAM["step_bytes"] + 100


class TestBest:
    def test_an_arm_of_its_own_has_columns_of_its_own(self, machine):
        """Its launches are those of its implementation."""
        found = explained(
            {"eager": 10.0, "compiled": 10.0, "eager_best": 9.0}, best="eager_best", implementation="fused"
        )
        assert found["eager_best_cpu_us"] != found["eager_cpu_us"]
        assert [how.optimizer.fused for how in machine["asked"]] == [None, True]

    def test_the_eager_arm_lends_it_its_columns(self):
        """It is measured once."""
        found = explained({"eager": 10.0, "compiled": 10.0}, best="eager", implementation="forloop")
        for what in OF_AN_ARM:
            assert found[f"eager_best_{what}"] == found[f"eager_{what}"]
        assert set(found) <= NAMES

    def test_even_beside_the_arm_of_the_tutorial(self):
        """Whose name begins as the eager arm's does."""
        us = {"eager": 10.0, "compiled": 10.0, "eager_after_compile": 20.0}
        found = explained(us, best="eager", implementation="forloop")
        assert found["eager_best_cpu_us"] == found["eager_cpu_us"] != found["eager_after_compile_cpu_us"]
        assert set(found) <= NAMES

    def test_unasked_there_is_none(self):
        """Its columns are missing, so null in the row."""
        found = explained({"eager": 10.0, "compiled": 10.0})
        assert not [name for name in found if name.startswith("eager_best")]


class TestBound:
    """On a CPU: half of the time is launching, or moving what is not in the cache."""

    @pytest.mark.parametrize(("launch", "expected"), [(50.0, "launch"), (49.9, None)])
    def test_launching(self, machine, launch, expected):
        """Of a step of 100 us, in which memory moves for a few."""
        machine["launch"] = launch
        assert explained({"eager": 100.0, "compiled": 100.0})["eager_bound"] == expected

    def test_a_compiled_step_launches_what_it_cannot_be_moving(self, machine):
        """Eager: 10 us, of which 1 us is launching, so it moves and computes for 9 us at most.

        A compiled step of 30 us has no more to move and to compute than that: 21 us are launching.
        One of 15 us launches for 6 us, which is less than half.
        """
        slow = explained({"eager": 10.0, "compiled": 30.0})
        quick = explained({"eager": 10.0, "compiled": 15.0})
        assert (slow["compiled_bound"], quick["compiled_bound"]) == ("launch", None)

    def test_an_eager_step_moves_what_its_operations_do(self):
        """Fused, 2.3 us of moving: half of 4.5 us, and not of 4.7 us."""
        for us, expected in ((4.5, "bandwidth"), (4.7, None)):
            found = explained({"eager": us, "compiled": us}, "optimizer.fused=true")
            assert found["eager_bound"] == expected

    def test_a_compiled_step_moves_the_least_there_is(self):
        """2.29 us: half of 4.5 us, and not of 4.7 us, whatever eager operations would move."""
        for us, expected in ((4.5, "bandwidth"), (4.7, None)):
            assert explained({"eager": us, "compiled": us})["compiled_bound"] == expected

    def test_a_second_eager_arm_moves_what_an_eager_one_does(self):
        """With backend none nothing is fused: more than half of 4.7 us."""
        found = explained({"eager": 4.7, "compiled": 4.7}, "compile=none")
        assert (found["eager_bound"], found["compiled_bound"]) == ("bandwidth", "bandwidth")

    def test_what_fits_into_the_cache_is_not_bound_by_memory(self, machine):
        """To the byte."""
        machine["cache"] = ADAM["working_set_bytes"]
        found = explained({"eager": 4.5, "compiled": 4.5})
        assert (found["eager_bound"], found["compiled_bound"]) == (None, None)

    def test_an_optimizer_that_multiplies_matrices_may_be_bound_by_them(self):
        """Muon, when it neither launches nor moves all the time."""
        found = explained({"eager": 1000.0, "compiled": 1000.0}, "optimizer=muon", "compile=none")
        assert (found["eager_bound"], found["compiled_bound"]) == ("compute", "compute")
