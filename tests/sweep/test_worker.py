"""What a job sees to in the process that a launcher gave it, in a process of its own each."""

import subprocess
import sys
from pathlib import Path

from tests.needed import needed_module

ROOT = Path(__file__).parents[2]


def run(code, **environment):
    import os

    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=os.environ | environment, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


KILLED_ITSELF = """
import os, signal
from src.sweep import worker
worker.prepare()
try:
    os.kill(os.getpid(), signal.SIGTERM)
except Exception:
    print("as an error of the run")
finally:
    print("cleaned up")
"""


class TestSlurm:
    def test_sigterm_ends_a_job_in_order_and_without_an_error_of_its_run(self):
        """What is under way is cleaned up; whoever catches exceptions writes no row."""
        assert run(KILLED_ITSELF, SUBMITIT_EXECUTOR="slurm") == (143, "cleaned up\n", "")

    def test_elsewhere_nothing_changes(self):
        """The signal kills, as it does."""
        assert run(KILLED_ITSELF, SUBMITIT_EXECUTOR="local")[:2] == (-15, "")


class TestJoblib:
    def test_the_threads_of_a_worker_are_those_of_its_parent(self):
        """joblib sets one variable for each library of its own accord; what the user set stays."""
        needed_module("joblib")
        code = (
            "from joblib import Parallel, delayed\n"
            "def told():\n"
            "    import multiprocessing, os\n"
            "    from src.sweep import worker\n"
            "    names = ('OMP_NUM_THREADS', 'MKL_NUM_THREADS')\n"
            "    before = [os.environ.get(n) is None for n in names]\n"
            "    worker.prepare()\n"
            "    return before, [os.environ.get(n) for n in names], multiprocessing.get_start_method()\n"
            "print(Parallel(n_jobs=2, backend='loky')(delayed(told)() for _ in range(1))[0])\n"
        )
        code_of_user = "import os; os.environ.pop('OMP_NUM_THREADS', None)\n" + code
        assert run(code_of_user, MKL_NUM_THREADS="3") == (
            0,
            "([False, False], [None, '3'], 'forkserver')\n",
            "",
        )
