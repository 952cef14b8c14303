"""What a job sees to first in the process that its launcher gave it."""

import contextlib
import multiprocessing
import os
import signal

import psutil

_SET_BY_JOBLIB = (
    *("OMP_NUM_THREADS", "MKL_NUM_THREADS", "OPENBLAS_NUM_THREADS", "BLIS_NUM_THREADS"),
    *("VECLIB_MAXIMUM_THREADS", "NUMBA_NUM_THREADS", "NUMEXPR_NUM_THREADS", "ENABLE_IPC"),
)
"""Variables of a worker (`MAX_NUM_THREADS_VARS`, `TBB_ENABLE_IPC_VAR` of joblib/_parallel_backends.py)."""


def prepare() -> None:
    """Make runs possible, and their end an orderly one, in a launcher's process."""
    if multiprocessing.get_start_method(allow_none=True) == "loky":
        _in_joblib()
    if os.environ.get("SUBMITIT_EXECUTOR") == "slurm":
        # As Ctrl-C, so that a run that `scancel` ends leaves its row; submitit has SIGTERM ignored.
        signal.signal(signal.SIGTERM, signal.default_int_handler)


def _in_joblib() -> None:
    """Undo what joblib has made different from a process of the user's own.

    The processes that we start are told the start method of this one, and know Python's alone. And a
    worker gets its share of the CPUs as threads, while runs take turns in being timed, on all of them.
    """
    multiprocessing.set_start_method("forkserver", force=True)
    with contextlib.suppress(psutil.Error):  # the parent is gone: so is, soon, this process
        given = psutil.Process(os.getppid()).environ()
        for name in _SET_BY_JOBLIB:
            if name not in given:
                os.environ.pop(name, None)
