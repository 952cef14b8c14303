"""Recompiles of torch 2.13 on the CPU, against counts that stepsweep had no part in."""

import csv
import itertools
import time
from functools import cache
from pathlib import Path

import pytest
import torch

from src.bench import arms, torch_private, trace
from src.bench.machine import Unsupported
from tests.specs import spec

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason=f"the expected counts are of torch 2.13, this is {torch.__version__}",
)

OPTIMIZERS = {
    "Adam": ("optimizer=adam",),
    "AdamW": ("optimizer=adamw",),
    "SGD": ("optimizer=sgd",),
    "SGD momentum": ("optimizer=sgd", "optimizer.momentum=0.9"),
}
LR = {"float": ("lr_as_tensor=false",), "tensor": ("lr_as_tensor=true",)}
IMPLEMENTATION = {"for-loop": ("optimizer.foreach=false",), "foreach": ("optimizer.foreach=true",)}

LINEAR = {
    ("Adam", "float"): {"for-loop": 1, "foreach": 5},
    ("Adam", "tensor"): {"for-loop": 0, "foreach": None},
    ("AdamW", "float"): {"for-loop": 1, "foreach": 5},
    ("AdamW", "tensor"): {"for-loop": 0, "foreach": None},
    ("SGD", "float"): {"for-loop": 5, "foreach": 5},
    ("SGD", "tensor"): {"for-loop": 0, "foreach": 0},
    ("SGD momentum", "float"): {"for-loop": 5, "foreach": 5},
    ("SGD momentum", "tensor"): {"for-loop": 1, "foreach": 1},
}
"""Recompiles in 12 steps while LinearLR changes the learning rate five times; None: torch refuses.

A float is pinned to its value until torch has seen it change; from then on only where it is used
as `alpha` or as the scalar of a multi-tensor kernel.
"""

WITHOUT_SCHEDULER = {"Adam": 0, "AdamW": 0, "SGD": 0, "SGD momentum": 1}
"""Momentum makes its buffer in the first step and compiles again in the second."""


def expected(optimizer, scheduler, lr, implementation):
    """Return the recompiles of a cell, None where torch refuses the arguments."""
    with_linear = LINEAR[optimizer, lr][implementation]
    if scheduler == "linear" or with_linear is None:
        return with_linear
    return WITHOUT_SCHEDULER[optimizer]


CELLS = list(itertools.product(OPTIMIZERS, ("none", "linear"), LR, IMPLEMENTATION))
TAKEN = [c for c in CELLS if expected(*c) is not None]
REFUSED = [c for c in CELLS if expected(*c) is None]


def overrides(optimizer, scheduler, lr, implementation):
    """Return the overrides of a cell."""
    return (*OPTIMIZERS[optimizer], f"scheduler={scheduler}", *LR[lr], *IMPLEMENTATION[implementation])


@cache
def facts(backend, changes, steps=12):
    """Return the facts of a trace; once a process, as several tests ask for the same."""
    torch._dynamo.reset()
    small = ("model=tiny", "model.width=32", "model.bias=true", "device=cpu")
    arm = arms.compiled(
        spec(f"compile.backend={backend}", *small, *changes), torch.device("cpu"), time.perf_counter
    )
    return trace.take(arm.take_step, steps, time.perf_counter).facts()


class TestMatrix:
    @pytest.mark.parametrize("cell", TAKEN, ids="-".join)
    def test_recompiles_of_a_cell(self, cell):
        """As many as were counted without stepsweep, with a reason each, no step eager."""
        found = facts("aot_eager", overrides(*cell))
        assert found["recompiles"] == expected(*cell)
        assert found["graphs"] == expected(*cell) + 1
        assert len(found["recompile_reasons"]) == expected(*cell)
        assert found["recompile_limit_hit"] is False

    @pytest.mark.parametrize("cell", REFUSED, ids="-".join)
    def test_a_refused_cell_is_unsupported(self, cell):
        """Multi-tensor Adam takes no tensor as learning rate on the CPU: torch says so, we pass it on."""
        with pytest.raises(Unsupported, match=r"lr as a Tensor is not supported for capturable=False"):
            facts("aot_eager", overrides(*cell))

    def test_the_matrix_is_whole(self):
        """Four optimizers, two schedulers, two kinds of learning rate, two implementations."""
        assert (len(TAKEN), len(REFUSED)) == (28, 4)


class TestFiveSteps:
    @pytest.mark.parametrize(
        ("implementation", "lr", "recompiles"),
        [("foreach", "float", 4), ("for-loop", "float", 1), ("for-loop", "tensor", 0)],
    )
    def test_adam_in_the_five_calls_of_the_tutorial(self, implementation, lr, recompiles):
        """PyTorch's scheduler recipe shows four recompiles in five calls, and none with a tensor."""
        found = facts("aot_eager", overrides("Adam", "linear", lr, implementation), steps=5)
        assert found["recompiles"] == recompiles


def counted_elsewhere():
    """Return the rows of the file of independent counts."""
    lines = (Path(__file__).parents[1] / "data" / "recompiles_torch213_cpu.csv").read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def name(row):
    """Return the test id of a row."""
    return "-".join(row[key] for key in ("backend", "optimizer", "arguments", "scheduler", "lr") if row[key])


class TestIndependentCounts:
    @pytest.mark.parametrize("row", [r for r in counted_elsewhere() if r["backend"] == "aot_eager"], ids=name)
    def test_every_row_agrees(self, row):
        """Graphs, recompiles with and without the wrappers, limit and graph breaks."""
        self.check(row)

    @pytest.mark.skipif(torch_private.cxx_compiler() is None, reason="inductor finds no C++ compiler")
    @pytest.mark.parametrize("row", [r for r in counted_elsewhere() if r["backend"] == "inductor"], ids=name)
    def test_every_row_agrees_when_code_is_generated(self, row, cold_cache):
        """What a user of torch.compile gets counts the same."""
        self.check(row)

    def check(self, row):
        """Trace the row's cell and compare what both counted."""
        arguments = tuple(f"optimizer.{argument}" for argument in row["arguments"].split())
        cell = (f"optimizer={row['optimizer']}", *arguments, f"scheduler={row['scheduler']}", *LR[row["lr"]])
        found = facts(row["backend"], cell)
        ours = {
            "graph_compiles": found["graphs"],
            "graph_recompiles": found["recompiles"],
            "recompiles_all": found["recompiles_all_frames"],
            "limit_hit": int(found["recompile_limit_hit"]),
            "graph_breaks": found["graph_breaks"],
        }
        theirs = {key: int(row[key]) for key in ours if row[key]}
        assert theirs == {key: ours[key] for key in theirs}


@pytest.mark.skipif(torch_private.cxx_compiler() is None, reason="inductor finds no C++ compiler")
class TestInductor:
    @pytest.mark.parametrize(
        "cell",
        [
            ("Adam", "linear", "float", "for-loop"),
            ("Adam", "linear", "tensor", "for-loop"),
            ("SGD", "linear", "float", "for-loop"),
            ("SGD momentum", "linear", "tensor", "foreach"),
        ],
        ids="-".join,
    )
    def test_generating_code_does_not_change_the_count(self, cell, cold_cache):
        """The counts of aot_eager hold for what a user of torch.compile gets."""
        assert facts("inductor", overrides(*cell))["recompiles"] == expected(*cell)
