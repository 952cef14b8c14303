"""What a job sees to first in the process that its launcher gave it."""

import contextlib
import multiprocessing
import os
import signal
import sys
from typing import Any

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
        signal.signal(signal.SIGTERM, _leave)


def _in_joblib() -> None:
    """Undo what joblib has made different from a process of the user's own.

    The processes that we start are told the start method of this one, and know Python's alone. And a
    worker gets its share of the CPUs as threads, while a run is to have as many as by itself.
    """
    multiprocessing.set_start_method("forkserver", force=True)
    with contextlib.suppress(psutil.Error):  # the parent is gone: so is, soon, this process
        given = psutil.Process(os.getppid()).environ()
        for name in _SET_BY_JOBLIB:
            if name not in given:
                os.environ.pop(name, None)


def _leave(_signal: int, _frame: Any) -> None:
    """End a job of SLURM without a row or a result: whether it is over or begins again is SLURM's to say.

    `scancel`, preemption and the time limit send SIGTERM to all processes of a job. submitit has this one
    go on, which would tell of a run that crashed, and perhaps once more of the same run in its next life.
    """
    sys.exit(128 + signal.SIGTERM)
