"""A study of Optuna: its objective, and the best run at its end.

command_line -> search space; run -> objective of each run; session -> the best of all
"""

import contextlib
import logging
import math
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from src.spec import RunSpec
from src.sweep.command_line import OPTUNA, Plan
from src.sweep.launching import LauncherDiedError, environment

RESULTS = "optimization_results.yaml"
"""What Optuna's sweeper writes beside the logs of its runs."""


def objective(row: Mapping[str, Any], spec: RunSpec) -> float | None:
    """Return the number of a run for a sweeper; None, a failed trial, where it must not be the best.

    That is a run that did not end well, whatever it had measured by then, and one whose verdict is invalid:
    a step that is fast since it was never compiled, or computes something else, is not the best.
    """
    value = row.get(spec.objective)
    if row["status"] != "ok" or row.get("verdict") == "invalid" or value is None:
        return None
    return float(value)


@contextlib.contextmanager
def studied(plan: Plan) -> Iterator[None]:
    """See a study of Optuna to its end, if the sweep is one.

    Raises:
        LauncherDiedError: the study ended before its runs had.
    """
    if not plan.sweeper.endswith(OPTUNA):
        yield
        return
    import optuna  # noqa: PLC0415  # of an extra

    optuna.logging.set_verbosity(logging.ERROR)
    # Runs that failed are told by their rows.
    logging.getLogger("hydra_plugins.hydra_optuna_sweeper").setLevel(logging.CRITICAL)
    # Hydra is to pass on the exceptions of its sweeper, instead of a traceback and an exit.
    with environment("HYDRA_FULL_ERROR", "1"):
        try:
            yield
        except ValueError as error:
            if "No trials are completed yet" not in str(error):
                raise
        except LauncherDiedError:
            raise
        except Exception as error:
            told = str(error).strip().partition("\n")[0]
            raise LauncherDiedError(
                f"{plan.sweeper.rpartition('.')[2]}: {type(error).__name__}: {told}"
            ) from error


def best(plan: Plan) -> str | None:
    """Return which run of a study was the best; None where the sweep is no study."""
    if not plan.sweeper.endswith(OPTUNA):
        return None
    try:
        found = yaml.safe_load((plan.output_dir / "logs" / plan.sweep_id / RESULTS).read_text())
    except OSError:
        return f"no best run: none has a {plan.objective} that counts"
    chosen = [f"{name}={_shown(value)}" for name, value in found.get("best_params", {}).items()]
    return f"best {plan.objective}: {_shown(found['best_value'])} with {' '.join(chosen)}"


def _shown(value: Any) -> str:
    if isinstance(value, float) and math.isfinite(value):
        return f"{value:.6g}"
    return "null" if value is None else str(value)
