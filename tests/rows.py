"""Valid rows for tests: one plausible run, and what differs from it."""

import json
from datetime import UTC, datetime, timedelta
from typing import Any

from src import record

START = datetime(2025, 3, 1, 12, 0, 0, tzinfo=UTC)


def row(**changes: Any) -> dict[str, Any]:
    """Return a whole row of a run that ended well, with `changes`."""
    job = changes.get("job", 0)
    made: dict[str, Any] = dict.fromkeys(column.name for column in record.COLUMNS)
    made |= {
        "schema_version": record.SCHEMA_VERSION,
        "sweep_id": "first",
        "run_key": f"{job:012x}",
        "job": job,
        "started_at": START + timedelta(seconds=10 * job),
        "wall_s": 9.5,
        "overrides": [],
        "config": config(),
        "stepsweep_version": "0.1.0",
        "model": "mlp",
        "width": 1024,
        "depth": 10,
        "bias": False,
        "dtype": "float32",
        "param_groups": "one",
        "frozen_layers": 0,
        "layers_without_grad": 0,
        "parameters": 10_485_760,
        "tensors": 10,
        "optimizer": "adam",
        "optimizer_args": json.dumps({"lr": 0.01, "foreach": None}),
        "scheduler": "none",
        "scheduler_args": "{}",
        "lr_as_tensor": False,
        "compile_backend": "inductor",
        "compile_mode": "default",
        "compile_fullgraph": False,
        "compile_cache": "cold",
        "device": "cuda",
        "threads": 8,
        "grads": "fresh",
        "flush_cache": False,
        "seed": 0,
        "measure": "default",
        "status": "ok",
        "verdict": "faster",
        "warnings": [],
        "min_effect": 0.01,
        "rounds": 20,
        "timing_s": 3.0,
        "trace_steps": 12,
        "graphs": 1,
        "recompiles": 0,
        "recompile_reasons": [],
        "compile_s": 3.61,
        "hostname": "lab1",
        "cpu": "Xeon 8480",
        "gpu": "NVIDIA H200",
        "torch_version": "2.13.0",
        "cuda_version": "13.0",
    }
    made |= times(eager=240.0, compiled=120.0)
    return made | changes


def of_model(name: str, parameters: int, **changes: Any) -> dict[str, Any]:
    """Return a row of a published model, which has no width, depth or bias."""
    null = dict.fromkeys(("width", "depth", "bias", "frozen_layers", "layers_without_grad"))
    facts = {"model": name, "model_args": json.dumps({"shapes": name}), "parameters": parameters}
    return row(**(null | facts | changes))


def times(eager: float, compiled: float, margin: float = 0.01) -> dict[str, Any]:
    """Return the columns of both arms and of the speedup, with intervals of +-`margin`."""
    values = {"eager_us": eager, "compiled_us": compiled, "speedup": eager / compiled}
    ends = {f"{n}_low": v * (1 - margin) for n, v in values.items()}
    return values | ends | {f"{n}_high": v * (1 + margin) for n, v in values.items()}


def best(name: str, us: float, compiled: float = 120.0, margin: float = 0.005) -> dict[str, Any]:
    """Return the columns of the best eager implementation, with intervals of +-`margin`."""
    values = {"eager_best_us": us, "speedup_vs_best": us / compiled}
    ends = {f"{n}_low": v * (1 - margin) for n, v in values.items()}
    highs = {f"{n}_high": v * (1 + margin) for n, v in values.items()}
    return {"eager_best": name} | values | ends | highs


def explained(arm: str, us: float, **facts: Any) -> dict[str, Any]:
    """Return the columns that explain an arm which takes `us` a step, with a floor of 66.0 us.

    The floor is that of Adam in float32 (28 bytes an element: parameter, gradient and two states are
    read, all but the gradient written) for 10,485,760 parameters at 4450 GB/s.
    """
    step = {"step_bytes": 28 * 10_485_760, "bandwidth_gbps": 4450.0, "floor_us": 28 * 10_485_760 / 4450e3}
    own = {"attained": step["floor_us"] / us} | facts
    return step | {f"{arm}_{end}": value for end, value in own.items()}


def traced(**changes: Any) -> dict[str, Any]:
    """Return a row of a run that was traced and not timed."""
    nothing = ("verdict", "rounds", "timing_s", "min_effect")
    made = row(measure="trace", compiled_path="compiled", eager_path="foreach", parity="passed")
    made |= dict.fromkeys((*times(1, 1), *nothing))
    return made | changes


def bad(status: str, reason: str, **changes: Any) -> dict[str, Any]:
    """Return a row of a run that was not measured."""
    nothing = ("verdict", "recompiles", "recompile_reasons", "compile_s", "trace_steps", "graphs", "warnings")
    made = row(status=status, reason=reason)
    made |= dict.fromkeys((*times(1, 1), *nothing))
    return made | changes


def config(experiment: dict[str, Any] | None = None) -> str:
    """Return a whole configuration as JSON, as far as the analysis reads it."""
    preset = experiment or {"name": None, "title": None, "published": []}
    return json.dumps({"seed": 0, "experiment": preset})
