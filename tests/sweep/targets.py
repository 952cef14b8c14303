"""What the tests of isolation run in a child."""

import ctypes
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

FOREVER = 600  # seconds; longer than any test waits


def returns(payload, report):
    report("pid", os.getpid())
    report("payload", payload)


def raises(payload, report):
    report("fact", 1)
    raise ValueError(payload)


def raises_without_words(_payload, _report):
    raise LookupError


def exits(payload, report):
    report("fact", 1)
    sys.exit(payload)


def interrupts_itself(_payload, _report):
    raise KeyboardInterrupt


def kills_itself(payload, report):
    report("fact", 1)
    os.kill(os.getpid(), payload)
    time.sleep(FOREVER)


def reads_null(_payload, report):
    report("fact", 1)
    ctypes.string_at(0)


def counts_then_dies(payload, report):
    for number in range(payload):
        report("number", number)
    os.kill(os.getpid(), signal.SIGKILL)


def starts_a_grandchild(payload, report):
    """Start `sleep`, tell its pid, and end as `payload` says."""
    grandchild = subprocess.Popen(["sleep", str(FOREVER)])
    report("pid", os.getpid())
    report("grandchild", grandchild.pid)
    if payload == "hang":
        time.sleep(FOREVER)
    if payload == "raise":
        raise ValueError(payload)


def talks(_payload, _report):
    print("to stdout")  # noqa: T201
    print("to stderr", file=sys.stderr)  # noqa: T201
    subprocess.run(["echo", "from a grandchild"], check=True)


def talks_and_dies(_payload, _report):
    print("last words", flush=True)  # noqa: T201
    os.kill(os.getpid(), signal.SIGKILL)


def tells_environment(payload, report):
    report("environment", os.environ.get(payload))


def tells_session(_payload, report):
    report("session", (os.getpid(), os.getsid(0), os.getpgid(0)))
    report("blocked", signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, []))
    report("daemon", multiprocessing.current_process().daemon)


def tells_modules(_payload, report):
    report("torch", "torch" in sys.modules)
    report("cuda", sys.modules["torch"].cuda.is_initialized())


def sends_much(payload, report):
    report("bytes", bytes(payload))
    report("after", True)


def dies_amid_much(payload, report):
    """Be killed while a message is half sent: the pipe is full long before its end."""
    subprocess.Popen(["sh", "-c", f"sleep 1; kill -9 {os.getpid()}"])
    report("before", 1)
    while True:
        report("bytes", bytes(payload))


def sends_what_cannot_be_pickled(_payload, report):
    report("function", lambda: None)


def waits(payload, report):
    """Leave the pid in a file, then wait."""
    report("pid", os.getpid())
    Path(payload).write_text(str(os.getpid()))
    time.sleep(FOREVER)


def ignores_signals(_payload, report):
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    report("pid", os.getpid())
    time.sleep(FOREVER)


def takes_memory(payload, report):
    """Take that many bytes, and keep them."""
    report("pid", os.getpid())
    kept = bytearray(payload)
    time.sleep(FOREVER)
    del kept


def tells_file(payload, report):
    report("text", Path(payload).read_text())


def holds_the_interpreter(payload, _report):
    """Leave the pid in a file, then sleep in C without letting another thread run."""
    Path(payload).write_text(str(os.getpid()))
    ctypes.PyDLL(None).sleep(FOREVER)
