"""The command line: one run, or a sweep with `-m`.

command line -> check every run -> Hydra starts a job per run -> job: RunSpec -> process -> row
                                                              -> summary of the rows, exit code
"""

import os
import sys
from pathlib import Path

import hydra
from hydra.core.hydra_config import HydraConfig
from hydra.types import RunMode
from omegaconf import DictConfig

from src.paths import share_root
from src.sweep import command_line


@hydra.main(version_base="1.3", config_path=str(share_root() / "conf"), config_name="config")
def run_job(config: DictConfig) -> float | None:
    """Turn one composed configuration into one row; return the objective for the sweeper.

    None is no number: a sweeper that looks for the best takes such a run as failed.
    """
    from src.sweep import isolate, job, resume, study, worker  # noqa: PLC0415  # only where something is measured

    hydra_config = HydraConfig.get()
    multirun = hydra_config.mode == RunMode.MULTIRUN
    isolate.follow_session()
    spec = command_line.spec_of(config)
    number = hydra_config.job.num if multirun else 0
    earlier = resume.earlier(spec, number)
    if earlier is not None and earlier.good:
        return study.objective(earlier.told, spec)
    measured = job.Job(
        spec=spec,
        number=number,
        overrides=tuple(hydra_config.overrides.task),
        log=Path(hydra_config.runtime.output_dir) / "run.log",
    )
    worker.prepare()
    try:
        row = job.run(measured, earlier)
    except OSError as error:
        told = f"the row of run {measured.number} could not be written: {error}"
        print(told, file=sys.stderr)  # noqa: T201  # now: Hydra tells the first one, at the very end
        raise command_line.JobError(told) from None
    return study.objective(row, spec)


def entry() -> None:
    """Run the command line, print the summary, and exit with the sweep's code."""
    from src.sweep import session  # noqa: PLC0415

    _open_standard_streams()
    sys.exit(session.run(sys.argv[1:], run_job))


def _open_standard_streams() -> None:
    """Open what the caller has closed, lest a pipe of ours gets the number of a standard stream."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.set_inheritable(os.open(os.devnull, os.O_RDWR), True)


command_line.register()

if __name__ == "__main__":
    entry()
