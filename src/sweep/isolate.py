"""A fresh process for each call, forked from a server that has torch loaded already.

A compiled benchmark cannot share a process: recompile limits, caches and compile times leak from
one run to the next. Importing torch and its compiler takes seconds; a fork of a process that did
takes milliseconds. CUDA cannot be used after a fork once it was touched, so the server must not
touch it: with `PYTORCH_NVML_BASED_CUDA_CHECK=1` torch asks the driver's NVML instead.

The child leads a session of its own. Ctrl-C in the terminal does not reach it; the parent ends the
whole session, compiler processes included, and the child ends itself when its parent is gone.
"""

import contextlib
import ctypes
import faulthandler
import importlib
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from multiprocessing import forkserver, resource_tracker
from multiprocessing.connection import Connection, wait
from multiprocessing.context import ForkServerProcess
from pathlib import Path
from typing import Any

from src.sweep.limits import Watch

PRELOAD = [
    "torch",
    "torch._dynamo",
    "torch._inductor.compile_fx",
    "src.bench.child",
    # A child runs the main module again under another name; what that imports is loaded here once.
    "src.sweep.command_line",
]

_LONGEST_WAIT = 3600.0
"""One wait in s; the system call takes no more than some weeks."""

_RETURNED = "returned"
_RAISED = "raised"
_MESSAGE = "message"


@dataclass(frozen=True, slots=True)
class Ended:
    """How a child ended."""

    how: str
    """returned, raised, timed_out, too_large or crashed."""
    reason: str | None
    """In words; None when it returned."""
    error: str | None = None
    """Traceback of an exception."""
    exception: str | None = None
    """The exception's class, with its module."""


def call(
    target: str,
    payload: Any,
    *,
    environment: Mapping[str, str],
    log: Path,
    watch: Watch,
    on_message: Callable[[str, Any], None],
    cpus: Sequence[int] | None = None,
) -> Ended:
    """Call `target(payload, report)` in a fresh process and wait for its end.

    Args:
        target: `module:function`, imported in the child.
        payload: picklable argument.
        environment: variables set in the child before the target's module is imported anew.
        log: file that receives the child's output.
        watch: the child is killed when it is over a limit of this.
        on_message: receives what the target passes to `report(kind, value)`, as it comes.
        cpus: CPUs that the child and what it starts may use; None: those of this process.

    An exception in this process while it waits, `KeyboardInterrupt` included, kills the child.
    """
    os.environ["PYTORCH_NVML_BASED_CUDA_CHECK"] = "1"  # before the server starts; see above
    _start_quiet_resource_tracker()
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload([*PRELOAD, *_as_of_joblib()])
    _start_server()
    here, there = context.Pipe(duplex=False)
    setting = _Setting(dict(environment), str(log), None if cpus is None else tuple(cpus))
    child = context.Process(target=_child, args=(there, target, payload, setting), daemon=False)
    try:
        try:
            child.start()  # waits until the server has loaded torch
        except (EOFError, OSError) as error:
            told = (
                "the server that loads torch ended, see its output" if isinstance(error, EOFError) else error
            )
            return Ended("crashed", f"the run's process could not be started: {told}")
        there.close()
        if child.pid is not None:
            _under_way.add(child.pid)
        return _attend(child, here, watch, on_message)
    finally:
        _kill(child)
        here.close()


SESSION = "STEPSWEEP_SESSION"
"""Environment variable with the number of the process that runs the sweep, and then the variables of
`_THREADS` that its user has set, with commas."""

_THREADS = ("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "NUMEXPR_NUM_THREADS")


def open_session() -> None:
    """Tell the processes of a launcher which process runs the sweep, and share its tracker with them."""
    _start_quiet_resource_tracker()
    os.environ[SESSION] = ",".join([str(os.getpid()), *(name for name in _THREADS if name in os.environ)])


@cache
def follow_session() -> None:
    """End this process and its run when the process that runs the sweep ends, if that has started it.

    joblib's workers would go on.
    """
    session = int(os.environ.get(SESSION, "0").partition(",")[0])
    if os.getppid() != session:
        return

    def watch() -> None:
        while os.getppid() == session:
            time.sleep(1)
        end_all()
        os._exit(1)

    threading.Thread(target=watch, name="follow-session", daemon=True).start()


def _as_of_joblib() -> list[str]:
    """Return what the server must load in a worker of joblib, and give torch its threads back there.

    The worker names a start method of its own, which its children must know. It also has variables that
    divide the CPUs by the number of workers, for work that is done at once; our runs take turns to time.
    """
    if multiprocessing.get_start_method(allow_none=True) != "loky":
        return []
    for name in set(_THREADS).difference(os.environ.get(SESSION, "").split(",")):
        os.environ.pop(name, None)
    return ["joblib.externals.loky"]


def end_all() -> None:
    """Kill every child that this process has, with all that they have started, and wait for none."""
    for pid in list(_under_way):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)


_under_way: set[int] = set()
"""Children of this process that have been started and not yet ended."""


def _start_quiet_resource_tracker() -> None:
    """Start Python's tracker of semaphores without its words on those of killed children.

    It removes what they leave behind, which is what it is for; that it did is no news to the user.
    """
    with _environment(PYTHONWARNINGS="ignore:resource_tracker"):
        resource_tracker.ensure_running()


def _start_server() -> None:
    """Start the fork server, unless it runs: with our `src` first, and deaf to Ctrl-C.

    It is started with `python -c`, which would import a `src`, or a `random`, that lies in the
    current directory. It ignores SIGINT, but only once it has loaded torch: Ctrl-C before that
    would end it with a traceback on the terminal.
    """
    root = str(Path(__file__).resolve().parents[2])
    path = os.pathsep.join(filter(None, (root, os.environ.get("PYTHONPATH"))))
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        with _environment(PYTHONPATH=path, PYTHONSAFEPATH="1"):
            forkserver.ensure_running()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


@contextlib.contextmanager
def _environment(**variables: str) -> Iterator[None]:
    """Set environment variables for the processes that are started meanwhile."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                del os.environ[name]
            else:
                os.environ[name] = value


def _attend(
    child: ForkServerProcess,
    messages: Connection,
    watch: Watch,
    on_message: Callable[[str, Any], None],
) -> Ended:
    while True:
        broken = watch.broken(child.pid)
        if broken is not None:
            return Ended(broken.how, broken.reason)
        ready = wait([messages, child.sentinel], min(watch.next_look(), _LONGEST_WAIT))
        if messages in ready:
            try:
                kind, value = messages.recv()
            except (EOFError, OSError):  # the latter when it died amid a message
                child.join()
                return Ended("crashed", _exit_reason(child.exitcode))
            if kind == _RETURNED:
                return Ended("returned", None)
            if kind == _RAISED:
                name, reason, error = value
                return Ended("raised", reason, error, name)
            on_message(*value)
        elif ready and not messages.poll():
            child.join()
            return Ended("crashed", _exit_reason(child.exitcode))


def _exit_reason(code: int | None) -> str:
    if code is not None and code < 0:
        name = signal.Signals(-code).name if -code in set(signal.Signals) else f"signal {-code}"
        hint = ", perhaps for want of memory" if name == "SIGKILL" else ""
        return f"the run's process was killed by {name}{hint}"
    return f"the run's process exited with code {code} before it had finished"


def _kill(child: ForkServerProcess) -> None:
    """Kill what is left of the child's session, and the child."""
    if child.pid is None:
        return
    # There is no such group when all of it has ended, or before the child leads it.
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    if child.is_alive():
        child.kill()
    child.join()
    _under_way.discard(child.pid)


@dataclass(frozen=True, slots=True)
class _Setting:
    """What surrounds a child's target."""

    environment: dict[str, str]
    log: str
    cpus: tuple[int, ...] | None


def _child(messages: Connection, target: str, payload: Any, setting: _Setting) -> None:
    os.setsid()
    if setting.cpus is not None:
        os.sched_setaffinity(0, setting.cpus)
    _end_with_parent()
    _be_first_to_go()
    _redirect_output(setting.log)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # blocked in the server
    os.environ.update(setting.environment)
    try:
        module, _, function = target.partition(":")
        getattr(importlib.import_module(module), function)(
            payload, lambda kind, value: messages.send((_MESSAGE, (kind, value)))
        )
    except Exception as error:  # becomes the row of this run
        traceback.print_exc()
        reason = f"{type(error).__name__}: {_first_line(error)}"
        kind = f"{type(error).__module__}.{type(error).__qualname__}"
        messages.send((_RAISED, (kind, reason, traceback.format_exc())))
    else:
        messages.send((_RETURNED, None))
    messages.close()
    sys.stdout.flush()
    sys.stderr.flush()
    # Without interpreter shutdown: nothing of the run is needed any more, and CUDA takes its time.
    os._exit(0)


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else "no message"


def _redirect_output(log: str) -> None:
    file = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(file, 1)
    os.dup2(file, 2)
    os.close(file)
    faulthandler.enable()


def _be_first_to_go() -> None:
    """Let a kernel that is out of memory end this process before the sweep or the server.

    A compiler that it starts is as easy to find (proc(5), oom_score_adj).
    """
    with contextlib.suppress(OSError):  # not Linux
        Path("/proc/self/oom_score_adj").write_text("500")


_PR_SET_PDEATHSIG = 1  # <sys/prctl.h>


def _end_with_parent() -> None:
    """Kill this session when the parent is gone, however it went.

    A thread waits for that. It cannot run while other code holds the interpreter, such as a driver that
    hangs, so Linux is asked as well to end this process when the server does. The server ends when nobody
    has the other end of its pipe, of which each child is given a copy, to ask for children of its own.
    """
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        server: Any = forkserver._forkserver
        if server._forkserver_alive_fd is not None:
            os.close(server._forkserver_alive_fd)
            server._forkserver_alive_fd = server._forkserver_address = None
    parent = multiprocessing.parent_process()
    if parent is None:
        return

    def watch() -> None:
        wait([parent.sentinel])
        os.killpg(0, signal.SIGKILL)

    threading.Thread(target=watch, name="end-with-parent", daemon=True).start()
