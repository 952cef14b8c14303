"""The private torch APIs return what `torch_private` says they do; a new torch may change them."""

import os
import shutil
import subprocess
import sys
from dataclasses import fields

import pytest
import torch
import torch._dynamo.utils as dynamo_utils
import torch._functorch.config as functorch_config
from functorch.compile import make_boxed_func
from torch._dynamo.backends.common import aot_autograd
from torch._guards import TracingContext
from torch._inductor.graph import GraphLowering
from torch.profiler import ProfilerActivity, profile

from src.bench import torch_private
from src.bench.torch_private import Compilation
from src.spec import LOGS
from src.sweep import caches

FIELDS = {
    "compile_id",
    "co_name",
    "graph_op_count",
    "fail_type",
    "fail_reason",
    "recompile_reason",
    "entire_frame_compile_time_s",
    "is_runtime",
    "cudagraph_skip_reason",
    "is_forward",
    "backward_cumulative_compile_time_us",
}

needs_cxx = pytest.mark.usefixtures("cxx_compiler")


def scaled(x, how):
    """Return a sum with as many graphs as there are values of `how`, a constant to torch."""
    return x + len(how)


def broken(x):
    """Return a sum with a graph break in it."""
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def branching(x):
    """Return a sum or a product, whichever the values call for."""
    x = x + 1
    if x.mean() > 0:
        x = x * 2
    return x - 1


def calling(x):
    """Return the sum of that, which another function makes."""
    return branching(x + 1).sum()


def trying(x):
    """Return a product with a graph break after which torch leaves the rest to Python."""
    x = x + 1
    x = x * 2
    try:  # noqa: SIM105  # what is tested
        torch._dynamo.graph_break()
    except ValueError:
        pass
    return x - 1


def comprehending(x):
    """Return a product with a graph break in a comprehension, which Python 3.12 has no function for."""
    x = x + 1
    return [x * 2 for _ in range(2) if torch._dynamo.graph_break() is None]


def looping(x):
    """Return a product with a graph break in a loop."""
    x = x + 1
    for _ in range(2):
        torch._dynamo.graph_break()
        x = x * 2
    return x


def compiled(function, backend="eager", **arguments):
    """Return `function` compiled."""
    return torch.compile(function, backend=backend, **arguments)


@torch._dynamo.allow_in_graph
def opaque(x):
    """Return a sum that torch's cache does not look into."""
    return x + 1


def events(function, *arguments):
    """Return the events of a call under the profiler."""
    with profile(activities=[ProfilerActivity.CPU], acc_events=True) as profiled:
        function(*arguments)
    return profiled.events()


def around(event):
    """Return the names of the events around an event, the innermost first."""
    names = []
    while (event := event.cpu_parent) is not None:
        names.append(event.name)
    return names


def python(program, **environment):
    """Run a program in a Python of its own, as it changes or reads what is global in a process."""
    return subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)} | environment,
        capture_output=True,
        text=True,
        check=True,
    )


class TestCompilationMetrics:
    def test_the_fields_exist(self):
        """None of the fields that are read has gone."""
        assert {f.name for f in fields(dynamo_utils.CompilationMetrics)} >= FIELDS

    def test_a_compilation_makes_one_record_with_all_its_fields(self):
        """What torch stores about a frame with a graph of one operation."""
        compiled(scaled)(torch.ones(3), "a")
        (record,) = dynamo_utils.get_compilation_metrics()
        assert str(record.compile_id).partition("/")[1:] == ("/", "0")
        assert record.co_name == "scaled"
        assert record.graph_op_count == 1
        assert (record.fail_type, record.fail_reason, record.recompile_reason) == (None, None, None)
        assert record.entire_frame_compile_time_s > 0
        assert record.cudagraph_skip_reason is None
        assert not record.is_runtime

    def test_only_the_newest_64_records_are_kept(self):
        """Why they must be drained every step."""
        assert dynamo_utils._compilation_metrics.maxlen == 64
        for _ in range(65):
            torch._dynamo.reset()
            compiled(scaled)(torch.ones(3), "a")
        assert len(torch_private.drain()) == 64


class TestDrain:
    def test_a_frame_keeps_its_number_and_counts_its_attempts(self):
        """Another value of a constant compiles the same frame again."""
        step = compiled(scaled)
        step(torch.ones(3), "a")
        step(torch.ones(3), "ab")
        first, second = torch_private.drain()
        assert (first.attempt, second.attempt) == (0, 1)
        assert first.frame == second.frame
        assert (first.function, first.operations, first.failure, first.guard) == ("scaled", 1, None, None)
        assert second.guard.startswith(f"{first.frame}/0: ")
        assert "'a'" in second.guard
        assert second.seconds > 0

    def test_two_functions_are_two_frames(self):
        """Frame numbers do not repeat in a process."""
        compiled(scaled)(torch.ones(3), "a")
        compiled(lambda x: x * 2)(torch.ones(3))
        first, second = torch_private.drain()
        assert first.frame != second.frame
        assert (first.attempt, second.attempt) == (0, 0)

    def test_a_frame_without_operations_says_so(self):
        """Whether torch stores 0 or nothing for it."""
        compiled(lambda x: x)(torch.ones(3))
        drained = torch_private.drain()
        assert [c.operations for c in drained] == [0] * len(drained)

    def test_forgets_what_it_returned(self):
        """The next one has what came since."""
        step = compiled(scaled)
        step(torch.ones(3), "a")
        assert len(torch_private.drain()) == 1
        step(torch.ones(3), "a")
        assert torch_private.drain() == []

    def test_the_recompile_limit_refuses_an_attempt_in_known_words(self):
        """The words that `hit_limit` looks for; the refused attempt has no function and no graph."""
        step = compiled(scaled)
        with torch._dynamo.config.patch(recompile_limit=2):
            for how in ("a", "ab", "abc", "abcd"):
                step(torch.ones(3), how)
        *taken, refused = torch_private.drain()
        assert [c.hit_limit for c in taken] == [False, False]
        assert refused.hit_limit
        assert refused.failure.startswith("Unsupported: ")
        assert (refused.function, refused.operations, refused.attempt) == (None, 0, 2)

    @needs_cxx
    def test_the_backward_of_a_graph_is_a_record_of_its_own(self, cold_cache):
        """Of the same id, without operations; it takes its time when `backward` is first called."""
        parameter = torch.ones(3, requires_grad=True)
        loss = compiled(lambda p: (p * p).sum(), "inductor")(parameter)
        (forward,) = torch_private.drain()
        loss.backward()
        (backward,) = torch_private.drain()
        assert (forward.backward, backward.backward, backward.id) == (False, True, forward.id)
        assert (forward.has_graph, backward.has_graph, backward.failure) == (True, False, None)
        assert backward.seconds > 0

    def test_torch_stops_at_eight_graphs_a_frame(self):
        """The default that decides from which value of a learning rate on a step runs eager."""
        step = compiled(scaled)
        for number in range(10):
            step(torch.ones(3), "a" * number)
        assert [c.hit_limit for c in torch_private.drain()] == [False] * 8 + [True]

    def test_a_compile_that_fails_is_a_failure_but_not_the_limit(self):
        """The error of a backend, by type and in words, on one line."""

        def backend(_graph, _inputs):
            raise NotImplementedError("no such kernel\nand more lines")

        with pytest.raises(Exception, match="no such kernel"):
            compiled(scaled, backend)(torch.ones(3), "a")
        (failed,) = torch_private.drain()
        assert failed.failure.startswith("BackendCompilerFailed: ")
        assert len(failed.failure.splitlines()) == 1
        assert not failed.has_graph
        assert not failed.hit_limit


class TestCompilation:
    @pytest.mark.parametrize(
        ("operations", "failure", "has_graph", "hit_limit"),
        [
            (28, None, True, False),
            (0, None, False, False),
            (3, "Unsupported: Skip calling `torch.compiler.disable()`d function", False, False),
            (0, "Unsupported: Dynamo recompile limit exceeded", False, True),
            (0, "FailOnRecompileLimitHit: recompile limit reached", False, True),
        ],
    )
    def test_has_a_graph_or_hit_the_limit(self, operations, failure, has_graph, hit_limit):
        """A graph has operations and did not fail; the limit is one failure of several."""
        made = Compilation("2", 0, "step", operations, failure, None, 0.1)
        assert (made.has_graph, made.hit_limit) == (has_graph, hit_limit)

    def test_its_id_is_torchs_own(self):
        """Frame and attempt as the records and the profiler write them."""
        step = compiled(scaled)
        step(torch.ones(3), "a")
        step(torch.ones(3), "ab")
        written = [str(record.compile_id) for record in dynamo_utils.get_compilation_metrics()]
        assert [c.id for c in torch_private.drain()] == written


class TestCounts:
    def test_graph_breaks_are_counted_by_the_first_line_of_their_reason(self):
        """One deliberate break."""
        compiled(broken)(torch.ones(3))
        breaks = torch_private.counts().graph_breaks
        assert list(breaks.values()) == [1]
        assert "graph_break()" in next(iter(breaks))
        assert len(next(iter(breaks)).splitlines()) == 1

    @pytest.mark.parametrize(
        ("function", "reason", "number"),
        [
            (branching, "generic_jump", 1),
            (calling, "generic_jump", 2),
            (trying, "step_unsupported", 1),
            pytest.param(
                *(comprehending, "comprehension_graph_break", 1),
                marks=pytest.mark.skipif(sys.version_info < (3, 12), reason="a function of its own"),
            ),
        ],
    )
    def test_breaks_that_torch_does_not_count_are_counted(self, function, reason, number):
        """Where one function calls another, the break of that one breaks the graph of both."""
        compiled(function)(torch.ones(3))
        assert torch_private.counts().graph_breaks == {torch_private.UNCOUNTED[reason]: number}
        assert not any(dynamo_utils.counters["graph_break"].values()) or function is calling

    def test_a_break_in_a_loop_costs_the_whole_frame(self):
        """It is no graph break: there is no graph to break."""
        compiled(looping)(torch.ones(3))
        assert torch_private.counts().graph_breaks == {}
        (only,) = torch_private.drain()
        assert only.failure == "Unsupported: Call to `torch._dynamo.graph_break()`"

    def test_nothing_compiled_is_nothing_counted(self):
        """Counters that torch never touched are zero."""
        assert torch_private.counts() == torch_private.Counts({}, 0, 0, 0)

    def test_clear_forgets_records_and_counts(self):
        """A trace starts from nothing."""
        compiled(broken)(torch.ones(3))
        torch_private.clear()
        assert torch_private.drain() == []
        assert torch_private.counts() == torch_private.Counts({}, 0, 0, 0)

    @needs_cxx
    def test_the_first_compile_misses_the_cache_and_the_next_hits_it(self, cold_cache):
        """A second compile of the same code, forgotten in memory, is found on disk."""
        seen = []
        for _ in range(2):
            torch._dynamo.reset()
            torch_private.clear()
            compiled(scaled, "inductor")(torch.ones(3), "a")
            seen.append((torch_private.counts().cache_hits, torch_private.counts().cache_misses))
        assert seen == [(0, 1), (1, 0)]

    @needs_cxx
    def test_what_torch_cannot_look_into_bypasses_the_cache(self, cold_cache):
        """Neither hit nor miss."""
        compiled(lambda x: opaque(x) * 2, "inductor")(torch.ones(3))
        counts = torch_private.counts()
        assert (counts.cache_hits, counts.cache_misses, counts.cache_bypasses) == (0, 0, 1)

    @needs_cxx
    def test_cuda_graphs_of_a_cpu_function_are_skipped(self, cold_cache):
        """A mode with CUDA graphs on the CPU: torch counts that it made none, and says not why."""
        compiled(scaled, "inductor", mode="reduce-overhead")(torch.ones(3), "a")
        assert torch_private.counts().cudagraph_skips == 1
        assert [c.cudagraph_skip for c in torch_private.drain()] == [None]


class TestAotCache:
    @pytest.mark.parametrize(("value", "expected"), [("0", "False"), ("1", "True")])
    def test_it_follows_its_environment_variable(self, value, expected):
        """The switch that stepsweep tells its users about; torch reads it when it is imported."""
        program = "from src.bench import torch_private; print(torch_private.aot_cache_is_on())"
        assert python(program, TORCHINDUCTOR_AUTOGRAD_CACHE=value).stdout.strip() == expected

    @needs_cxx
    def test_without_it_nothing_is_counted(self, cold_cache):
        """Neither hit nor miss, though inductor's own cache works on."""
        with functorch_config.patch(enable_autograd_cache=False):
            assert not torch_private.aot_cache_is_on()
            compiled(scaled, "inductor")(torch.ones(3), "a")
        counts = torch_private.counts()
        assert (counts.cache_hits, counts.cache_misses, counts.cache_bypasses) == (0, 0, 0)


class TestGeneratedCode:
    @needs_cxx
    @pytest.mark.parametrize("aot_cache", [True, False])
    def test_it_is_seen_when_compiled_and_when_found_in_a_cache(self, aot_cache, cold_cache):
        """The same source both times, from either cache."""
        seen = []
        with functorch_config.patch(enable_autograd_cache=aot_cache):
            for _ in range(2):
                torch._dynamo.reset()
                with torch_private.generated_code() as sources:
                    compiled(scaled, "inductor")(torch.ones(3), "a")
                seen.append(list(sources))
        assert torch_private.counts().cache_hits == int(aot_cache)
        assert [len(sources) for sources in seen] == [1, 1]
        assert seen[0] == seen[1]

    @needs_cxx
    def test_each_graph_has_its_own(self, cold_cache):
        """A graph break between two additions."""
        with torch_private.generated_code() as sources:
            compiled(broken, "inductor")(torch.ones(3))
        assert len(sources) == 2

    def test_the_hook_is_torchs_and_is_put_back(self):
        """Nobody listens before or after, whatever happened meanwhile."""
        assert GraphLowering.save_output_code is None

        def listen():
            with torch_private.generated_code():
                assert GraphLowering.save_output_code is not None
                raise RuntimeError("meanwhile")

        with pytest.raises(RuntimeError, match="meanwhile"):
            listen()
        assert GraphLowering.save_output_code is None


class TestKernels:
    def test_they_are_the_texts_given_to_async_compile(self):
        """A wrapper as inductor writes it: signature, kernel, name of the kernel; the rest is no kernel."""
        wrapper = (
            "async_compile = AsyncCompile()\n"
            "first = async_compile.cpp_pybinding(['float*'], r'''\nvoid kernel(float* x) {}\n''')\n"
            "two = async_compile.triton('two', '''\n@triton.jit\ndef two(): pass\n''', device='cuda')\n"
            "async_compile.wait(globals())\n"
            "def call(args):\n"
            "    note = other.triton('third', '''\nno\nkernel\n''')\n"
        )
        assert torch_private.kernels_in(wrapper) == [
            "\nvoid kernel(float* x) {}\n",
            "\n@triton.jit\ndef two(): pass\n",
        ]

    @needs_cxx
    def test_inductor_writes_them_that_way_in_cpp(self, cold_cache):
        """One fused loop for the CPU."""
        with torch_private.generated_code() as sources:
            compiled(lambda x: (x * 2 + 1).relu(), "inductor")(torch.ones(64))
        (kernel,) = torch_private.kernels_in(sources[0])
        assert 'extern "C"' in kernel
        assert "for(" in kernel

    @pytest.mark.gpu
    @pytest.mark.skipif(not torch.cuda.is_available(), reason="torch sees no CUDA device")
    @pytest.mark.filterwarnings("ignore:::torch")
    def test_inductor_writes_them_that_way_in_triton(self, cold_cache):
        """One fused kernel for the GPU."""
        with torch_private.generated_code() as sources:
            compiled(lambda x: (x * 2 + 1).relu(), "inductor")(torch.ones(64, device="cuda"))
        (kernel,) = torch_private.kernels_in(sources[0])
        assert "@triton.jit" in kernel

    @needs_cxx
    def test_modes_do_not_change_them_on_a_cpu(self, cold_cache):
        """Only the wrapper around them."""
        kernels = set()
        for mode in ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs"):
            torch._dynamo.reset()
            with torch_private.generated_code() as sources:
                compiled(lambda x: (x * 2 + 1).relu(), "inductor", mode=mode)(torch.ones(64))
            kernels.add(tuple(torch_private.kernels_in(sources[0])))
        assert len(kernels) == 1
        assert len(next(iter(kernels))) == 1


class TestMarkStatic:
    @staticmethod
    def told(*arguments):
        """Return which inputs of the graph its compiler is told to stay in their place."""
        found = []

        def compiler(graph, _inputs):
            found.append(list(TracingContext.get().fw_metadata.static_input_indices))
            return make_boxed_func(graph.forward)

        compiled(lambda x, y: (x + 1) * (y + 2), aot_autograd(fw_compiler=compiler))(*arguments)
        (indices,) = found
        return indices

    @pytest.mark.parametrize("marked", [(), (0,), (1,), (0, 1)])
    def test_the_compiler_of_the_graph_is_told(self, marked):
        """Of the tensors that were marked, and of these alone."""
        inputs = torch.ones(3), torch.ones(3)
        for index in marked:
            torch_private.mark_static(inputs[index])
        assert self.told(*inputs) == list(marked)

    def test_another_tensor_in_its_place_is_no_cause_of_a_recompile(self):
        """The mark is no guard."""
        step, marked = compiled(scaled), torch.ones(3)
        torch_private.mark_static(marked)
        step(marked, "a")
        step(torch.ones(3), "a")
        step(marked.clone(), "a")
        assert len(torch_private.drain()) == 1

    @pytest.mark.parametrize("sparse", [False, True])
    def test_the_tensor_is_what_it_was(self, sparse):
        """In its values, and in what can be done with it."""
        tensor = torch.ones(3, 3).to_sparse(1) if sparse else torch.ones(3, 3)
        torch_private.mark_static(tensor)
        assert torch.equal((tensor * 2).to_dense() if sparse else tensor * 2, torch.full((3, 3), 2.0))


class TestLog:
    PROGRAM = """
import os, sys, torch
from src.bench import torch_private
os.environ["TORCH_LOGS_OUT"] = {file!r}
torch_private.start_log({which!r})
def step(x, how):
    x = x + len(how)
    torch._dynamo.graph_break()
    return x * 2
compiled = torch.compile(step, backend={backend!r})
compiled(torch.ones(3), "a")
compiled(torch.ones(3), "ab")
"""

    @pytest.mark.parametrize(
        ("which", "there", "not_there"),
        [
            ("recompiles", "triggered by the following guard failure", "Graph break"),
            ("graph_breaks", "Graph break", "triggered by the following guard failure"),
        ],
    )
    def test_what_is_asked_for_is_in_the_file_and_on_stderr(self, which, there, not_there, tmp_path):
        """The file is the one that is named when the log starts, after torch was imported."""
        file = tmp_path / "torch.log"
        done = python(self.PROGRAM.format(file=str(file), which=[which], backend="eager"))
        for written in (file.read_text(), done.stderr):
            assert there in written
            assert not_there not in written

    @needs_cxx
    def test_generated_code_is_one_of_them(self, tmp_path, cold_cache):
        """Which is long."""
        file = tmp_path / "torch.log"
        python(self.PROGRAM.format(file=str(file), which=["output_code"], backend="inductor"))
        assert "async_compile" in file.read_text()

    def test_all_that_can_be_asked_for_exist(self, tmp_path):
        """The names that `LOGS` offers are torch's."""
        file = tmp_path / "torch.log"
        python(self.PROGRAM.format(file=str(file), which=list(LOGS), backend="eager"))
        assert "triggered by the following guard failure" in file.read_text()


class TestProfile:
    @pytest.mark.parametrize("backend", ["eager", "aot_eager"])
    def test_a_region_is_a_compilation(self, backend):
        """By the id that its record has, also when the frame was compiled again."""
        step = compiled(scaled, backend)
        step(torch.ones(3), "a")
        step(torch.ones(3), "ab")
        first, second = torch_private.drain()
        for how, compilation in (("a", first), ("ab", second)):
            names = [e.name for e in events(step, torch.ones(3), how)]
            regions = [name for name in names if name.startswith(torch_private.REGION)]
            assert regions == [torch_private.REGION + compilation.id]

    def test_an_operation_is_in_its_region(self):
        """By torch's name of it, `aten::`."""
        step = compiled(scaled, "aot_eager")
        step(torch.ones(3), "a")
        (compilation,) = torch_private.drain()
        argument = torch.ones(3)
        (addition,) = [e for e in events(step, argument, "a") if e.name == "aten::add"]
        assert torch_private.REGION + compilation.id in around(addition)

    def test_a_region_holds_what_its_frame_calls(self):
        """Also what runs eager between two graphs, and the frame that follows the break."""
        step = compiled(broken)
        step(torch.ones(3))
        before, after = (torch_private.REGION + c.id for c in torch_private.drain())
        (product,) = [e for e in events(step, torch.ones(3)) if e.name == "aten::mul"]
        assert around(product) == [after, before]

    def test_the_guards_are_looked_up_outside_of_it(self):
        """In a range of their own, which holds no region."""
        step = compiled(scaled)
        step(torch.ones(3), "a")
        seen = events(step, torch.ones(3), "a")
        assert [e.name for e in seen].count(torch_private.GUARDS) == 1
        assert not [e for e in seen if torch_private.GUARDS in around(e) and torch_private.REGION in e.name]

    @needs_cxx
    def test_inductors_calls_are_ranges_in_the_region(self, cold_cache):
        """What prepares the inputs, and the graph."""
        step = compiled(scaled, "inductor")
        step(torch.ones(3), "a")
        (compilation,) = torch_private.drain()
        seen = events(step, torch.ones(3), "a")
        for start in torch_private.INDUCTOR_CALL:
            (call,) = [e for e in seen if e.name.startswith(start)]
            assert torch_private.REGION + compilation.id in around(call)

    def test_an_eager_step_is_a_range(self):
        """Its operations are in it, those of a learning rate's scheduler are not."""
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        optimizer = torch.optim.SGD([parameter], lr=0.1)
        (update,) = [e for e in events(optimizer.step) if e.name == "aten::add_"]
        assert f"{torch_private.OPTIMIZER_STEP}SGD.step" in around(update)


class TestCacheFolders:
    @needs_cxx
    def test_a_compiled_graph_is_stored_in_these_folders(self, cold_cache):
        """They are made by a compile, and without them the next one is cold again."""
        compiled(scaled, "inductor")(torch.ones(3), "a")
        assert set(caches.GRAPH_CACHE_FOLDERS) <= set(os.listdir(cold_cache))
        for name in caches.GRAPH_CACHE_FOLDERS:
            shutil.rmtree(cold_cache / name)
        torch._dynamo.reset()
        torch_private.clear()
        compiled(scaled, "inductor")(torch.ones(3), "a")
        assert torch_private.counts().cache_misses == 1


class TestCxxCompiler:
    @needs_cxx
    def test_it_can_be_run(self):
        """What is returned is a program that states its version."""
        found = subprocess.run(
            [torch_private.cxx_compiler(), "--version"], capture_output=True, text=True, check=True
        )
        assert found.stdout

    def test_there_is_none_where_cxx_names_none(self):
        """In a process of its own: torch reads CXX when it is imported."""
        program = "from src.bench import torch_private; print(torch_private.cxx_compiler())"
        assert python(program, CXX="/nonexistent/c++").stdout.strip() == "None"


class TestTriton:
    def test_the_answer_is_yes_or_no(self):
        """Without CUDA it is no."""
        assert torch_private.has_triton() in (True, False)
        if not torch.cuda.is_available():
            assert not torch_private.has_triton()


class TestEachCall:
    def seen(self, function):
        """Return the calls of a function."""
        found = []
        with torch_private.EachCall(found.append):
            function()
        return found

    def test_a_call_has_the_names_of_its_schema(self):
        """What was given, also by keyword, and what came of it."""
        a, b = torch.ones(2), torch.ones(2)
        (call,) = self.seen(lambda: torch.add(a, b, alpha=2))
        assert (call.name, list(call.arguments)) == ("aten::add", ["self", "other", "alpha"])
        assert call.arguments["other"].value is b
        assert call.result.tolist() == [3.0, 3.0]

    def test_what_it_writes_is_marked(self):
        """In place, in a list, and into `out`."""
        a, b, out = (torch.ones(2) for _ in range(3))
        in_place, in_lists, into_out = self.seen(
            lambda: (a.add_(b), torch._foreach_mul_([a, b], [b, a]), torch.mul(a, b, out=out))
        )
        for call, target in ((in_place, "self"), (in_lists, "self"), (into_out, "out")):
            assert [name for name, argument in call.arguments.items() if argument.written] == [target]
        assert [name for name, argument in into_out.arguments.items() if argument.out] == ["out"]

    @pytest.mark.parametrize("optimizer", ["SGD", "Adam", "AdamW", "Adagrad"])
    def test_a_fused_step_is_one_call_that_claims_to_write_its_gradients(self, optimizer):
        """Without a scale it does not."""
        parameter = torch.nn.Parameter(torch.ones(2))
        parameter.grad = torch.full((2,), 4.0)
        step = getattr(torch.optim, optimizer)([parameter], lr=0.1, fused=True).step
        (call,) = (call for call in self.seen(step) if call.name.startswith("aten::_fused_"))
        assert call.arguments["grads"].written
        assert call.arguments.get("grad_scale") is None or call.arguments["grad_scale"].value is None
        assert parameter.grad.tolist() == [4.0, 4.0]

    def test_what_an_operation_calls_within_is_not_seen(self):
        """A composite one is seen as what it is made of; in-place views are left out."""
        a = torch.ones(2, 2)
        assert [call.name for call in self.seen(lambda: torch.addmm(a, a, a).t_())] == ["aten::addmm"]
        assert [call.name for call in self.seen(lambda: torch.square(a))] == ["aten::pow"]
