"""The private torch APIs return what `torch_private` says they do; a new torch may change them."""

import os
import shutil
import subprocess
import sys
from dataclasses import fields

import pytest
import torch
import torch._dynamo.utils as dynamo_utils

from src.bench import torch_private
from src.bench.torch_private import Compilation
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
}

needs_cxx = pytest.mark.skipif(
    torch_private.cxx_compiler() is None, reason="inductor finds no C++ compiler on this machine"
)


def scaled(x, how):
    """Return a sum with as many graphs as there are values of `how`, a constant to torch."""
    return x + len(how)


def broken(x):
    """Return a sum with a graph break in it."""
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def compiled(function, backend="eager", **arguments):
    """Return `function` compiled."""
    return torch.compile(function, backend=backend, **arguments)


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


class TestCounts:
    def test_graph_breaks_are_counted_by_the_first_line_of_their_reason(self):
        """One deliberate break."""
        compiled(broken)(torch.ones(3))
        breaks = torch_private.counts().graph_breaks
        assert list(breaks.values()) == [1]
        assert "graph_break()" in next(iter(breaks))
        assert len(next(iter(breaks)).splitlines()) == 1

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
    def test_cuda_graphs_of_a_cpu_function_are_skipped(self, cold_cache):
        """A mode with CUDA graphs on the CPU: torch counts that it did not make them."""
        compiled(scaled, "inductor", mode="reduce-overhead")(torch.ones(3), "a")
        assert torch_private.counts().cudagraph_skips == 1


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
        found = subprocess.run(
            [sys.executable, "-c", program],
            env=os.environ | {"CXX": "/nonexistent/c++", "PYTHONPATH": os.pathsep.join(sys.path)},
            capture_output=True,
            text=True,
            check=True,
        )
        assert found.stdout.strip() == "None"


class TestTriton:
    def test_the_answer_is_yes_or_no(self):
        """Without CUDA it is no."""
        assert torch_private.has_triton() in (True, False)
        if not torch.cuda.is_available():
            assert not torch_private.has_triton()
