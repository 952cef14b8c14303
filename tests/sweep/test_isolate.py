"""Isolation, with real processes: whatever a child does, the parent learns how it ended."""

import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import psutil
import pytest

from src.spec import LimitsSpec
from src.sweep import isolate
from src.sweep.limits import Watch

ROOT = Path(__file__).parents[2]
GENEROUS = 120.0
"""Seconds that no child here needs, however busy the machine."""


class Heard(list):
    """The messages of a child, as pairs."""

    def take(self, kind, value):
        self.append((kind, value))

    def __call__(self, kind):
        return [value for k, value in self if k == kind]


@pytest.fixture
def heard():
    return Heard()


@pytest.fixture
def log(tmp_path):
    return tmp_path / "run.log"


@pytest.fixture
def call(log, heard):
    """Return a call of a target by its name."""

    def call(target, payload=None, *, environment=None, seconds=GENEROUS, on_message=heard.take, watch=None):
        return isolate.call(
            f"tests.sweep.targets:{target}",
            payload,
            environment=environment or {},
            log=log,
            watch=watch or Watch(LimitsSpec(seconds, None, None, None)),
            on_message=on_message,
        )

    return call


def gone(pid, patience=GENEROUS):
    """Wait until a process has ended; a zombie has."""
    deadline = time.monotonic() + patience
    while time.monotonic() < deadline:
        try:
            if psutil.Process(pid).status() == psutil.STATUS_ZOMBIE:
                return True
        except psutil.NoSuchProcess:
            return True
        time.sleep(0.05)
    return False


def read_pid(file):
    """Wait until a process has left its pid in a file."""
    deadline = time.monotonic() + GENEROUS
    while time.monotonic() < deadline:
        if file.exists() and (text := file.read_text()):
            return int(text)
        time.sleep(0.05)
    raise AssertionError(f"{file} did not appear")


class TestReturned:
    def test_the_payload_arrives_and_the_messages_return(self, call, heard):
        """Plain data goes there, plain data comes back."""
        ended = call("returns", {"a": [1, 2.5, None, "ü"]})
        assert ended == isolate.Ended("returned", None)
        assert heard("payload") == [{"a": [1, 2.5, None, "ü"]}]

    def test_every_call_has_a_process_of_its_own(self, call, heard):
        """Nothing is carried from one run to the next."""
        call("returns")
        call("returns")
        first, second = heard("pid")
        assert len({first, second, os.getpid()}) == 3
        assert gone(first)
        assert gone(second)

    def test_torch_is_loaded_and_cuda_untouched(self, call, heard):
        """The child is forked from a server that has imported torch and nothing more."""
        call("tells_modules")
        assert heard == [("torch", True), ("cuda", False)]

    def test_the_child_leads_a_session_of_its_own(self, call, heard):
        """Ctrl-C in the terminal does not reach it, a signal sent to it does."""
        call("tells_session")
        (ids,) = heard("session")
        assert len(set(ids)) == 1
        assert ids[1] != os.getsid(0)
        assert heard("blocked") == [False]

    def test_the_child_may_have_children(self, call, heard):
        """A daemonic process may not start others, and inductor does."""
        call("tells_session")
        assert heard("daemon") == [False]


class TestRaised:
    def test_reason_traceback_and_class_are_told(self, call, heard):
        """The row of a failed run says what a terminal would have said."""
        ended = call("raises", "first line\nsecond line")
        assert ended.how == "raised"
        assert ended.reason == "ValueError: first line"
        assert ended.exception == "builtins.ValueError"
        assert ended.error.startswith("Traceback (most recent call last)")
        assert "in raises" in ended.error
        assert ended.error.endswith("ValueError: first line\nsecond line\n")
        assert heard("fact") == [1]

    def test_an_exception_without_words(self, call):
        """Its class is the reason."""
        assert call("raises_without_words").reason == "LookupError: no message"

    def test_the_traceback_is_in_the_log_too(self, call, log):
        """The log alone tells what happened."""
        call("raises", "words")
        assert "ValueError: words" in log.read_text()

    def test_a_message_that_cannot_be_pickled(self, call):
        """The child's mistake is the child's exception, not a hang."""
        ended = call("sends_what_cannot_be_pickled")
        assert ended.how == "raised"
        assert "pickle" in ended.reason

    def test_a_target_that_is_not_there(self, log, heard):
        """A module that cannot be imported is told like any exception."""
        ended = isolate.call(
            "tests.sweep.nowhere:nothing",
            None,
            environment={},
            log=log,
            watch=Watch(LimitsSpec(GENEROUS, None, None, None)),
            on_message=heard.take,
        )
        assert ended.exception == "builtins.ModuleNotFoundError"


class TestCrashed:
    @pytest.mark.parametrize("code", [0, 7])
    def test_an_exit_before_the_end(self, call, heard, code):
        """`sys.exit(0)` in the middle of a run is no success."""
        ended = call("exits", code)
        assert ended.how == "crashed"
        assert ended.reason == f"the run's process exited with code {code} before it had finished"
        assert heard("fact") == [1]

    def test_killed(self, call, heard):
        """As the kernel does when memory runs out."""
        ended = call("kills_itself", signal.SIGKILL)
        assert ended.how == "crashed"
        assert ended.reason == "the run's process was killed by SIGKILL, perhaps for want of memory"
        assert heard("fact") == [1]

    @pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGABRT, signal.SIGRTMIN + 3])
    def test_other_signals_have_their_names(self, call, number):
        """The signal is named; those without a name by number."""
        ended = call("kills_itself", number)
        name = number.name if isinstance(number, signal.Signals) else f"signal {number}"
        assert ended.reason == f"the run's process was killed by {name}"

    def test_a_segmentation_fault_leaves_its_stack_in_the_log(self, call, log):
        """Where in Python it happened is in the log."""
        ended = call("reads_null")
        assert ended.reason == "the run's process was killed by SIGSEGV"
        assert "Fatal Python error: Segmentation fault" in log.read_text()
        assert "in reads_null" in log.read_text()

    def test_an_interrupt_inside_the_child(self, call, log):
        """A KeyboardInterrupt of the child is not one of the parent."""
        assert call("interrupts_itself").how == "crashed"
        assert "KeyboardInterrupt" in log.read_text()

    def test_messages_before_death_arrive_in_order(self, call, heard):
        """What was reported before a later death is kept, all of it."""
        ended = call("counts_then_dies", 2000)
        assert ended.how == "crashed"
        assert heard("number") == list(range(2000))

    def test_death_amid_a_message(self, call, heard):
        """Half a message is no message, and no exception in the parent."""

        def take(kind, value):
            if kind == "before":
                heard.take(kind, value)

        ended = call("dies_amid_much", 20_000_000, on_message=take)
        assert ended.reason == "the run's process was killed by SIGKILL, perhaps for want of memory"
        assert heard("before") == [1]

    def test_a_log_that_cannot_be_written(self, tmp_path, heard, capfd):
        """Without a log there is no run, but an end."""
        ended = isolate.call(
            "tests.sweep.targets:returns",
            None,
            environment={},
            log=tmp_path / "missing" / "run.log",
            watch=Watch(LimitsSpec(GENEROUS, None, None, None)),
            on_message=heard.take,
        )
        capfd.readouterr()
        assert ended.how == "crashed"
        assert heard == []


class TestTimedOut:
    def test_the_reason_has_the_limit_and_its_key(self, call):
        """Who reads the row knows what to raise."""
        ended = call("ignores_signals", seconds=0.5)
        assert ended.how == "timed_out"
        assert ended.reason == "over the time limit of 0.5 s (limits.run_seconds)"

    def test_what_earlier_calls_took_counts(self, call, heard):
        """One watch sees all processes of a run: of two minutes half a second is left."""
        clock = iter([0.0])
        start = time.monotonic()
        watch = Watch(
            LimitsSpec(120.0, None, None, None), lambda: next(clock, time.monotonic() - start + 119.5)
        )
        ended = call("ignores_signals", watch=watch)
        assert ended.how == "timed_out"
        assert ended.reason == "over the time limit of 120 s (limits.run_seconds)"
        assert all(gone(pid) for pid in heard("pid"))

    def test_too_much_memory_is_an_end_with_a_reason(self, call, heard):
        """Half a GiB more than what a process that does nothing has."""
        watch = Watch(LimitsSpec(GENEROUS, None, None, 1.0))
        ended = call("takes_memory", 3 * 2**29, watch=watch)
        assert ended.how == "too_large"
        assert ended.reason.startswith("over the memory limit of 1 GiB: ")
        assert ended.reason.endswith(" GiB with the processes it had started (limits.memory_gib)")
        assert all(gone(pid) for pid in heard("pid"))

    def test_little_memory_is_none_of_its_business(self, call):
        """What a run that does nothing has is far below a GiB."""
        assert call("returns", watch=Watch(LimitsSpec(GENEROUS, None, None, 1.0))).how == "returned"

    def test_grandchildren_are_killed_as_well(self, call, heard):
        """Compiler processes do not outlive their run."""
        ended = call("starts_a_grandchild", "hang", seconds=6)
        assert ended.how == "timed_out"
        (child,), (grandchild,) = heard("pid"), heard("grandchild")
        assert gone(child)
        assert gone(grandchild)


class TestGrandchildren:
    @pytest.mark.parametrize(("payload", "how"), [("return", "returned"), ("raise", "raised")])
    def test_are_killed_however_the_run_ends(self, call, heard, payload, how):
        """Nothing of a run is left when its call returns."""
        assert call("starts_a_grandchild", payload).how == how
        (grandchild,) = heard("grandchild")
        assert gone(grandchild)


class TestOutput:
    def test_goes_to_the_log_and_not_to_the_terminal(self, call, log, capfd):
        """Also that of compilers and other programs that the run starts."""
        call("talks")
        assert sorted(log.read_text().splitlines()) == ["from a grandchild", "to stderr", "to stdout"]
        assert capfd.readouterr() == ("", "")

    def test_a_crash_is_silent_on_the_terminal(self, call, log, capfd):
        """The parent tells it in one line; the child says nothing beside."""
        call("talks_and_dies")
        call("raises", "words")
        call("exits", 7)
        assert log.read_text().startswith("last words\nTraceback")
        assert capfd.readouterr() == ("", "")


class TestEnvironment:
    def test_is_set_in_the_child_only(self, call, heard):
        """One run's cache folder is not the next one's."""
        call("tells_environment", "STEPSWEEP_TEST", environment={"STEPSWEEP_TEST": "on"})
        call("tells_environment", "STEPSWEEP_TEST")
        assert heard("environment") == ["on", None]
        assert "STEPSWEEP_TEST" not in os.environ


class TestMessages:
    def test_a_large_message_arrives(self, call, heard):
        """Ten megabytes, many times what a pipe holds."""
        assert call("sends_much", 10_000_000).how == "returned"
        assert [len(value) for value in heard("bytes")] == [10_000_000]
        assert heard("after") == [True]

    def test_a_payload_that_cannot_be_pickled(self, call):
        """A plain error at once, and the next call works."""
        with pytest.raises(Exception, match="pickle"):
            call("returns", lambda: None)
        assert call("returns").how == "returned"


class TestInterruptedParent:
    @pytest.mark.parametrize("exception", [KeyboardInterrupt, RuntimeError])
    def test_the_child_and_its_children_are_killed(self, call, heard, exception):
        """Ctrl-C leaves no process behind, nor does a mistake in the parent."""

        def interrupt(kind, value):
            heard.take(kind, value)
            if kind == "grandchild":
                raise exception

        with pytest.raises(exception):
            call("starts_a_grandchild", "hang", on_message=interrupt)
        (child,), (grandchild,) = heard("pid"), heard("grandchild")
        assert gone(child)
        assert gone(grandchild)

    def test_ctrl_c_while_the_server_loads_torch(self, tmp_path):
        """The first seconds of a sweep: no traceback of the server, no process left."""
        marker, more = tmp_path / "loading", tmp_path / "preload"
        more.mkdir()
        (more / "slow_preload.py").write_text(
            "import os, pathlib, time\n"
            f"pathlib.Path({str(marker)!r}).write_text(str(os.getpid()))\n"
            "time.sleep(3)\n"
        )
        parent = start_parent(
            tmp_path,
            """
            isolate.PRELOAD = ["slow_preload"]
            try:
                isolate.call("tests.sweep.targets:returns", None, environment={}, log=log, watch=watch,
                             on_message=print)
            except KeyboardInterrupt:
                print("interrupted")
            """,
            PYTHONPATH=f"{more}:{ROOT}",
        )
        server = read_pid(marker)
        os.killpg(parent.pid, signal.SIGINT)
        out, err = parent.communicate(timeout=GENEROUS)
        assert (out, err, parent.returncode) == ("interrupted\n", "", 0)
        assert gone(server)


class TestDeadParent:
    def test_the_child_ends_with_it(self, tmp_path):
        """A parent that is killed without a chance to clean up leaves no run behind."""
        note = tmp_path / "pid"
        parent = start_parent(
            tmp_path,
            f"""
            isolate.call("tests.sweep.targets:waits", {str(note)!r}, environment={{}}, log=log, watch=watch,
                         on_message=lambda *_: None)
            """,
        )
        child = read_pid(note)
        processes = [child, *[p.pid for p in psutil.Process(parent.pid).children(recursive=True)]]
        assert len(processes) > 1
        parent.kill()
        parent.communicate(timeout=GENEROUS)
        assert all(gone(pid) for pid in processes)

    def test_a_child_that_holds_the_interpreter_ends_too(self, tmp_path):
        """Its own thread cannot see that the parent is gone; the kernel can."""
        note = tmp_path / "pid"
        parent = start_parent(
            tmp_path,
            f"""
            isolate.call("tests.sweep.targets:holds_the_interpreter", {str(note)!r}, environment={{}},
                         log=log, watch=watch, on_message=lambda *_: None)
            """,
        )
        child = read_pid(note)
        parent.kill()
        parent.communicate(timeout=GENEROUS)
        assert gone(child)


class TestOutOfMemory:
    def test_the_kernel_finds_the_run_before_the_sweep(self, call, heard):
        """Of a host that is out of memory the run is ended, not what keeps the rows."""
        call("tells_file", "/proc/self/oom_score_adj")
        own = int(Path("/proc/self/oom_score_adj").read_text())
        assert int(heard("text")[0]) == max(own, 500)


class TestEndAll:
    def test_the_child_under_way_is_killed_with_what_it_has_started(self, call, heard):
        """And none is left to be killed afterwards."""

        def end(kind, value):
            heard.take(kind, value)
            if kind == "grandchild":
                isolate.end_all()

        assert call("starts_a_grandchild", "hang", on_message=end).how == "crashed"
        assert all(gone(pid) for pid in (*heard("pid"), *heard("grandchild")))
        assert isolate._under_way == set()


class TestServer:
    def test_a_server_that_cannot_start_is_told(self, tmp_path):
        """A broken torch is an ending like others, not an exception out of multiprocessing."""
        more = tmp_path / "preload"
        more.mkdir()
        (more / "broken_preload.py").write_text("raise OSError('libtorch.so: cannot open shared object')\n")
        parent = start_parent(
            tmp_path,
            """
            isolate.PRELOAD = ["broken_preload"]
            ended = isolate.call("tests.sweep.targets:returns", None, environment={}, log=log,
                                 watch=watch, on_message=print)
            print(ended.how, ended.reason)
            """,
            PYTHONPATH=f"{more}:{ROOT}",
        )
        out, err = parent.communicate(timeout=GENEROUS)
        assert out.startswith("crashed the run's process could not be started: ")
        assert "libtorch.so: cannot open shared object" in err
        assert parent.returncode == 0

    def test_the_parent_does_not_load_torch(self, tmp_path):
        """Only the server and the runs do."""
        parent = start_parent(
            tmp_path,
            """
            ended = isolate.call("tests.sweep.targets:tells_modules", None, environment={}, log=log,
                                 watch=watch, on_message=print)
            print(ended.how, "torch" in sys.modules)
            """,
        )
        out, err = parent.communicate(timeout=GENEROUS)
        assert out.splitlines() == ["torch True", "cuda False", "returned False"]
        assert err == ""


def start_parent(folder, body, **environment):
    """Start a Python process of its own session that runs `body` as its main module."""
    script = folder / "parent.py"
    lines = [
        "import sys",
        "from pathlib import Path",
        "from src.spec import LimitsSpec",
        "from src.sweep import isolate",
        "from src.sweep.limits import Watch",
        "watch = Watch(LimitsSpec(600, None, None, None))",
        f"log = Path({str(folder / 'run.log')!r})",
        "if __name__ == '__main__':",
        textwrap.indent(textwrap.dedent(body).strip(), "    "),
    ]
    script.write_text("\n".join(lines) + "\n")
    return subprocess.Popen(
        [sys.executable, str(script)],
        env=os.environ | {"PYTHONPATH": str(ROOT)} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
