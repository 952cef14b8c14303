"""Recompiles of torch 2.13 on the CPU, against counts that stepsweep had no part in."""

import csv
import re
import subprocess
import sys
import time
from functools import cache
from pathlib import Path

import pytest
import torch

from src.bench import arms, trace
from src.bench.refusal import Unsupported
from tests.specs import spec

pytestmark = pytest.mark.skipif(
    not torch.__version__.startswith("2.13."),
    reason=f"the expected counts are of torch 2.13, this is {torch.__version__}",
)

CPU = torch.device("cpu")
SMALL = ("model=tiny", "model.width=32", "device=cpu", "optimizer.lr=0.01")
DATA = Path(__file__).parents[1] / "data"

SCHEDULERS = {
    "none": ("none",),
    "ConstantLR": ("constant", "factor=0.5", "total_iters=4"),
    "LinearLR": ("linear", "total_iters=5"),
    "StepLR": ("step", "step_size=2", "gamma=0.5"),
    "MultiStepLR": ("multistep", "milestones=[2,4,6]", "gamma=0.5"),
    "ExponentialLR": ("exponential", "gamma=0.9"),
    "PolynomialLR": ("polynomial", "total_iters=20"),
    "CosineAnnealingLR": ("cosine", "T_max=20"),
    "CosineAnnealingWarmRestarts": ("cosine_restarts", "T_0=4"),
    "OneCycleLR": ("onecycle", "max_lr=0.1", "total_steps=20"),
    "OneCycleLR(cycle_momentum=False)": ("onecycle", "max_lr=0.1", "total_steps=20", "cycle_momentum=false"),
    "CyclicLR": ("cyclic", "base_lr=0.001", "max_lr=0.1", "step_size_up=4"),
    "CyclicLR(cycle_momentum=False)": (
        *("cyclic", "base_lr=0.001", "max_lr=0.1", "step_size_up=4"),
        "cycle_momentum=false",
    ),
    "LambdaLR": ("lambda", "function=src.lr_functions.exponential_decay"),
    "MultiplicativeLR": ("multiplicative", "function=src.lr_functions.constant_factor"),
    "ReduceLROnPlateau": ("plateau", "patience=0", "factor=0.5", "metric=1.0"),
    "SequentialLR": ("sequential", "milestone=4", "first.total_iters=3", "second.gamma=0.9"),
    "ChainedScheduler": ("chained", "first.total_iters=4", "second.gamma=0.9"),
}
"""Overrides of each schedule of the counts; their numbers are those of the counting program, where
it matters to a count: which values come back, and when a change ends."""

PATCHED = ("LBFGS", "SparseAdam")
"""Optimizers that torch takes out of `torch.compile` by replacing their `step`, once in a process, when
it first compiles. How many functions then lie around `step`, each with a graph break, depends on
whether one of them was made before that: graph breaks are not compared (the counts have 1 and 2 for
LBFGS without a scheduler)."""


def read(name):
    """Return the rows of a file of independent counts."""
    lines = (DATA / name).read_text().splitlines()
    return list(csv.DictReader(line for line in lines if not line.startswith("#")))


def overrides(row):
    """Return the overrides that make the cell of a row."""
    name, _, listed = row["optimizer"].partition("(")
    arguments = re.findall(r"(\w+)=([^,)]+)", listed)
    optimizer = "sgd_momentum" if name == "SGDmom" else name.lower()
    scheduler, *of_scheduler = SCHEDULERS[row["scheduler"]]
    return (
        f"compile.backend={row['backend']}",
        f"model.bias={'false' if name == 'Muon' else 'true'}",
        f"optimizer={optimizer}",
        *(
            f"optimizer.{key}={value.lower() if value in ('True', 'False') else value}"
            for key, value in arguments
        ),
        f"scheduler={scheduler}",
        *(f"scheduler.{argument}" for argument in of_scheduler),
        f"lr_type={'cpu_tensor' if row['lr'] == 'tensor' else 'float'}",
    )


def name(row):
    """Return the test id of a row."""
    return "-".join(row[key] for key in ("backend", "optimizer", "scheduler", "lr"))


def spread(rows, every):
    """Mark all rows but one in `every` as exhaustive, and name them."""
    return [
        pytest.param(row, id=name(row), marks=() if index % every == 0 else pytest.mark.exhaustive)
        for index, row in enumerate(rows)
    ]


MATRIX = read("recompiles_torch213_cpu.csv")
FLAGS = read("flags_torch213_cpu.csv")
AOT_EAGER = [row for row in MATRIX if row["backend"] == "aot_eager"]
INDUCTOR = [row for row in MATRIX if row["backend"] == "inductor"]


@cache
def compile_something():
    """Let torch take out what it never compiles, as in the process that made the counts."""
    torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))


def take(row, steps=12):
    """Trace a row's cell; return its facts, and the exception with the number of its step."""
    compile_something()
    torch._dynamo.reset()
    arm = arms.compiled(spec(*SMALL, *overrides(row)), CPU, time.perf_counter)
    recorder = trace.Recorder(inductor=row["backend"] == "inductor")
    raised = None
    try:
        recorder.take(arm.take_step, steps, time.perf_counter, arm.workload.refill)
    except Exception as error:
        raised = (type(error).__name__, arm.steps_taken)
    return recorder.trace().facts(), raised


def counted(row):
    """Return what a row says, in our names, of what it counts."""
    fallback = row["eager_fallback_from_step"].replace("never_compiled", "0")
    return {
        "graphs": int(row["graph_compiles"]),
        "recompiles_all_frames": int(row["recompiles_all"]),
        "recompile_limit_hit": row["limit_hit"] == "1",
        "eager_from_step": int(fallback) if fallback else None,
    } | ({"recompiles": int(row["graph_recompiles"])} if row.get("graph_recompiles") else {})


def compare(row):
    """Compare a cell that runs to its end with its row."""
    found, raised = take(row)
    assert raised is None
    expected = counted(row)
    if row["graph_breaks"] and not row["optimizer"].startswith(PATCHED):
        expected["graph_breaks"] = int(row["graph_breaks"])
    assert {key: found[key] for key in expected} == expected
    assert len(found["recompile_reasons"]) == len(found["recompile_causes"]) == found["recompiles"]
    assert "other" not in found["recompile_causes"]


def refuse(row):
    """See that a cell that torch refuses in a constructor is unsupported, in torch's words."""
    with pytest.raises(Unsupported) as refused:
        take(row)
    assert row["exc"].partition(": ")[2][:60] in str(refused.value)


class TestMatrix:
    @pytest.mark.parametrize("row", spread([r for r in AOT_EAGER if r["status"] == "ok"], every=6))
    def test_every_cell_agrees(self, row):
        """Graphs, recompiles with and without the wrappers, limit, fallback and graph breaks."""
        compare(row)

    @pytest.mark.parametrize("row", spread([r for r in AOT_EAGER if r["status"] == "failed"], every=4))
    def test_every_refused_cell_is_unsupported(self, row):
        """Schedulers that cycle momentum refuse optimizers without any."""
        refuse(row)

    @pytest.mark.usefixtures("cxx_compiler")
    @pytest.mark.parametrize("row", spread([r for r in INDUCTOR if r["status"] == "ok"], every=9))
    def test_every_cell_agrees_when_code_is_generated(self, row, cold_cache):
        """What a user of torch.compile gets counts the same."""
        compare(row)

    @pytest.mark.parametrize("row", spread([r for r in INDUCTOR if r["status"] == "failed"], every=1))
    def test_a_refusal_does_not_depend_on_the_backend(self, row):
        """It is the constructor's."""
        refuse(row)

    def test_the_files_are_whole(self):
        """As many cells as were counted."""
        assert (len(AOT_EAGER), len(INDUCTOR), len(FLAGS)) == (417, 86, 145)


class TestFlags:
    @pytest.mark.parametrize("row", spread([r for r in FLAGS if r["status"] == "ok"], every=5))
    def test_every_cell_agrees(self, row):
        """Optimizer arguments other than torch's defaults."""
        compare(row)

    @pytest.mark.parametrize(
        "row", spread([r for r in FLAGS if r["exc_where"].startswith("compiled step")], every=6)
    )
    def test_a_compiled_step_that_raises_keeps_its_counts(self, row):
        """It raises in the same step, with the same exception, after as many graphs."""
        found, raised = take(row)
        assert raised == (row["exc"].partition(":")[0], int(row["exc_where"].rpartition(" ")[2]))
        expected = counted(row)
        assert (found["graphs"], found["recompile_limit_hit"]) == (
            expected["graphs"],
            expected["recompile_limit_hit"],
        )

    @pytest.mark.parametrize("row", spread([r for r in FLAGS if r["exc_where"] == "eager"], every=4))
    def test_where_only_the_eager_step_raises_the_compiled_one_works(self, row):
        """`capturable` on a CPU: torch asserts it away eagerly, and forces it when it compiles."""
        found, raised = take(row)
        assert raised is None
        assert found["graphs"] == int(row["graph_compiles"])
        arm = arms.eager(spec(*SMALL, *overrides(row)), CPU, time.perf_counter)
        with pytest.raises(AssertionError, match="capturable=True"):
            arm.take_step()


class TestFreshProcess:
    """LBFGS where nothing was compiled before, as in a run of stepsweep or a script of a user.

    A scheduler takes hold of `optimizer.step` when it is made. Made before the first `torch.compile`,
    it keeps the `step` that torch has not replaced yet, and parts of that do compile; the counts come
    from a process that had compiled before, where they do not. Both are right.
    """

    @pytest.mark.parametrize(("scheduler", "compiles"), [("none", False), ("constant", True)])
    @pytest.mark.parametrize("compiled_before", [False, True])
    def test_a_scheduler_lets_parts_of_lbfgs_compile(self, scheduler, compiles, compiled_before):
        """Without one, or after another compile, nothing is."""
        overrides = (*SMALL, "optimizer=lbfgs", f"scheduler={scheduler}", "compile=aot_eager")
        code = (
            "import time, torch\n"
            "from src.bench import arms, trace\n"
            "from tests.specs import spec\n"
            f"if {compiled_before}: torch.compile(lambda x: x + 1, backend='eager')(torch.ones(2))\n"
            f"arm = arms.compiled(spec(*{overrides!r}), torch.device('cpu'), time.perf_counter)\n"
            "recorder = trace.Recorder()\n"
            "recorder.take(arm.take_step, 4, time.perf_counter)\n"
            "print('graphs', recorder.trace().facts()['graphs'])\n"
        )
        done = subprocess.run(
            [sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=DATA.parents[1]
        )
        graphs = int(done.stdout.split("graphs")[-1])
        assert (graphs > 0) == (compiles and not compiled_before)
