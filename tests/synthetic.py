"""Many plausible rows, made by the thousand: for what must hold, and be fast, at 100,000 rows.

The rows are numbers that somebody might have measured and that nobody did. The same arguments give the
same rows, and a longer table begins with a shorter one. Everything is made by the column: 100,000 rows take
a few seconds.
"""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from src import record, store, vocabulary

CHUNK = 1000
"""Rows of a sweep, which share a seed of the numbers."""

MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
OPTIMIZERS = ("adam", "adamw", "sgd", "rmsprop", "nadam", "adagrad", "radam", "adamax", "rprop", "lbfgs")
SCHEDULERS = ("none", "linear", "cosine", "onecycle", "step", "exponential", "polynomial", "plateau")
LEARNING_RATES = ((False, None), (True, "cpu"), (True, "cuda"))
MODELS = (  # name, width, depth
    *(("tiny", 32, 2), ("small", 256, 4), ("tutorial", 1024, 10)),
    *(("medium", 3072, 10), ("large", 7328, 10), ("deep", 512, 200)),
)
TORCHES = ("2.11.0+cu130", "2.12.0+cu130", "2.13.0+cu130")
DTYPES = ("float32", "bfloat16")
GRADS = ("fresh", "static")
THREADS = (16, 8)

_AXES = (MODES, OPTIMIZERS, SCHEDULERS, LEARNING_RATES, MODELS, TORCHES, DTYPES, GRADS, THREADS)
CELLS = int(np.prod([len(values) for values in _AXES]))
"""How many cells there are at most: 138,240."""

_GUARD = "1/{}: self.param_groups[0]['lr'] == {:.6f}  # for group in self.param_groups:  # adam.py:238"
_BANDWIDTH = 4250.0  # GB/s
_CACHE = 62_914_560
_TEXTS, _FLOATS, _INTS = pa.list_(pa.string()), pa.list_(pa.float64()), pa.list_(pa.int64())
_START = int(datetime(2025, 1, 1, tzinfo=UTC).timestamp())


def rows(
    n: int,
    *,
    seeds: int = 5,
    factor: float = 1.0,
    torches: Sequence[str] = TORCHES,
    experiment: str | None = None,
) -> pa.Table:
    """Return `n` rows with every column of the schema.

    Args:
        n: number of rows; there are `CELLS * seeds` at most, fewer with fewer versions of torch.
        seeds: rows that repeat a cell, one after the other; they differ in the seed alone.
        factor: every compiled time is multiplied by it, as a new version that is slower would do.
        torches: versions of torch to choose from.
        experiment: preset that all rows belong to.
    """
    most = CELLS // len(TORCHES) * len(torches) * seeds
    if n > most:
        raise ValueError(f"n must be at most {most}: got {n}")
    made = [
        _chunk(
            first,
            min(CHUNK, n - first),
            seeds=seeds,
            factor=factor,
            torches=tuple(torches),
            experiment=experiment,
        )
        for first in range(0, n, CHUNK)
    ]
    return pa.concat_tables(made) if made else record.schema().empty_table()


def write(folder: Path, table: pa.Table, rows_per_file: int = CHUNK) -> list[Path]:
    """Write rows under `folder/runs`, at most `rows_per_file` in a file, and return the files.

    A file with one row is written as a run writes it; the others as tools write such files, with
    dictionaries and statistics. A sweep begins a new file.
    """
    files = []
    for start in range(0, len(table), CHUNK):
        sweep = table.slice(start, CHUNK)
        target = store.sweep_dir(folder, sweep.column("sweep_id")[0].as_py())
        target.mkdir(parents=True, exist_ok=True)
        for first in range(0, len(sweep), rows_per_file):
            part = sweep.slice(first, rows_per_file)
            files.append(target / f"{part.column('run_key')[0].as_py()}.parquet")
            pq.write_table(part, files[-1], **(store.LEAN if rows_per_file == 1 else {}))
    return files


@dataclass(frozen=True, slots=True)
class _Made:
    """What is decided of each row of a chunk before its columns are."""

    count: int
    random: np.random.Generator
    at: dict[str, np.ndarray]  # index of the value on each axis
    parameters: np.ndarray
    status: np.ndarray  # of text
    ok: np.ndarray
    placed: np.ndarray  # whether the run got as far as to say where it ran
    recompiles: np.ndarray
    limit: np.ndarray  # whether torch's recompile limit was reached
    valid: np.ndarray


def _chunk(
    first: int, count: int, *, seeds: int, factor: float, torches: tuple[str, ...], experiment: str | None
) -> pa.Table:
    number = np.arange(first, first + count)
    cell, seed = number // seeds, number % seeds
    sizes = [len(torches) if values is TORCHES else len(values) for values in _AXES]
    names = ("mode", "optimizer", "scheduler", "lr", "model", "torch", "dtype", "grads", "threads")
    at, rest = {}, cell
    for name, size in zip(names, sizes, strict=True):
        at[name], rest = rest % size, rest // size
    # The length of the chunk must not change its rows: all of it is drawn, and what is not asked for cut.
    random = np.random.default_rng([first, seeds])
    made = _decide(count, random, at)
    columns: dict[str, Any] = {}
    columns |= _identity(made, first, seed, experiment)
    columns |= _axes(made, torches, seed)
    columns |= _times(made, factor, cell)
    columns |= _outcome(made, columns)
    columns |= _trace(made, cell)
    columns |= _machine(made, torches)
    columns["config"] = _configs(columns, seed, experiment)
    arrays = [_array(columns.get(c.name), c.type, count) for c in record.COLUMNS]
    return pa.Table.from_arrays(arrays, schema=record.schema())


def _array(values: Any, kind: pa.DataType, count: int) -> pa.Array:
    if values is None:
        return pa.nulls(count, kind)
    return values if isinstance(values, pa.Array) else pa.array(values, kind, from_pandas=True)


def _decide(count: int, random: np.random.Generator, at: dict[str, np.ndarray]) -> _Made:
    widths, depths = (np.array([model[i] for model in MODELS])[at["model"]] for i in (1, 2))
    luck = random.random(CHUNK)[:count]
    status = np.full(count, "ok", dtype=object)
    status[luck < 0.02] = "failed"
    status[luck < 0.008] = "timed_out"
    status[luck < 0.004] = "crashed"
    lbfgs_captured = (at["optimizer"] == OPTIMIZERS.index("lbfgs")) & (at["mode"] == 1)
    status[lbfgs_captured] = "unsupported"
    ok = status == "ok"
    varies = at["scheduler"] > 0
    recompiles = np.where(varies & (at["lr"] == 0), 1 + at["scheduler"], 0)
    limit = recompiles >= 8
    return _Made(
        count=count,
        random=random,
        at=at,
        parameters=widths.astype(np.int64) ** 2 * depths,
        status=status,
        ok=ok,
        placed=luck >= 0.004,
        recompiles=recompiles,
        limit=limit,
        valid=ok & ~limit,
    )


def _identity(made: _Made, first: int, seed: np.ndarray, experiment: str | None) -> dict[str, Any]:
    job = np.arange(made.count)
    sweep = f"20250101-{first // CHUNK:06d}"
    return {
        "schema_version": np.full(made.count, record.SCHEMA_VERSION),
        "sweep_id": _same(sweep, made.count),
        "run_key": [f"{first + i:012x}" for i in range(made.count)],
        "job": job,
        "experiment": _same(experiment, made.count) if experiment else None,
        "started_at": pa.array((_START + 20 * (first + job)) * 1_000_000, pa.timestamp("us", tz="UTC")),
        "wall_s": 9 + 10 * made.random.random(CHUNK)[: made.count],
        "overrides": _lists(
            [f"seed={s}" for s in seed.tolist()], np.ones(made.count, dtype=np.int64), _TEXTS
        ),
        "stepsweep_version": _same("0.1.0", made.count),
        "stepsweep_commit": _same("f696db3ea57ada4578b2bc076bc2318b9e06e1a6", made.count),
    }


def _axes(made: _Made, torches: tuple[str, ...], seed: np.ndarray) -> dict[str, Any]:
    at, count = made.at, made.count
    tensor = [kind for kind, _ in LEARNING_RATES]
    device = [device for _, device in LEARNING_RATES]
    scheduler_args = ["{}"] + [json.dumps({"total_iters": 5, "start_factor": 0.1 * i}) for i in range(1, 8)]
    none = pa.nulls(count, pa.string())
    placed = pa.array(made.placed)
    return {
        **{
            name: _pick([m[i] for m in MODELS], at["model"])
            for i, name in enumerate(("model", "width", "depth"))
        },
        "bias": np.zeros(count, dtype=bool),
        "dtype": _pick(DTYPES, at["dtype"]),
        "second_dtype": none,
        "param_groups": _same("one", count),
        "frozen_layers": np.zeros(count, dtype=np.int64),
        "layers_without_grad": np.zeros(count, dtype=np.int64),
        "parameters": made.parameters,
        "tensors": _pick([m[2] for m in MODELS], at["model"]),
        "optimizer": _pick(OPTIMIZERS, at["optimizer"]),
        "optimizer_args": _pick([_arguments(name) for name in OPTIMIZERS], at["optimizer"]),
        "scheduler": _pick(SCHEDULERS, at["scheduler"]),
        "scheduler_args": _pick(scheduler_args, at["scheduler"]),
        "lr_as_tensor": _pick(tensor, at["lr"]),
        "lr_device": _pick(device, at["lr"]),
        "compile_backend": _same("inductor", count),
        "compile_mode": _pick(MODES, at["mode"]),
        "compile_fullgraph": np.zeros(count, dtype=bool),
        "compile_cache": _same("cold", count),
        "device": _where(placed, _same("cuda", count)),
        "threads": _where(placed, _pick(THREADS, at["threads"])),
        "grads": _pick(GRADS, at["grads"]),
        "flush_cache": np.zeros(count, dtype=bool),
        "seed": seed,
        "measure": _same("default", count),
        "torch_version": _where(placed, _pick(torches, at["torch"])),
    }


def _arguments(optimizer: str) -> str:
    arguments = {
        "lr": 0.01,
        "weight_decay": 0.0,
        "maximize": False,
        "capturable": False,
        "differentiable": False,
    }
    more = (
        {"betas": [0.9, 0.999], "eps": 1e-08, "amsgrad": False} if "adam" in optimizer else {"momentum": 0.9}
    )
    return json.dumps(arguments | more)


def _times(made: _Made, factor: float, cell: np.ndarray) -> dict[str, Any]:
    """Return times, their explanation and compile seconds; null where the run has none."""
    at, count, timed = made.at, made.count, made.ok
    states = np.array([2, 2, 1, 1, 2, 1, 2, 2, 2, 4])[at["optimizer"]]
    moved = made.parameters * 4 * (3 + 2 * states) // (1 + at["dtype"])
    floor = moved / (_BANDWIDTH * 1e3)
    # What belongs to a cell, alike for all its rows: a hash of its number as a part of one.
    own = (cell * 2_654_435_761 % 4096) / 4096
    slow = np.array([1.0, 1.03, 1.07])[at["torch"]]
    eager = (220 + 20 * at["optimizer"] + 3.1 * floor) * (1 + 0.1 * own) * np.where(at["lr"] > 0, 2.5, 1.0)
    compiled = (
        (130 + 30 * at["mode"] + (1.04 + 0.2 * (at["mode"] % 2)) * floor) * (1 + 0.2 * own) * slow * factor
    )
    best = (80 + 1.3 * floor) * (1 + 0.05 * own)
    luck = np.exp(made.random.normal(0, 0.004, (6, CHUNK))[:, :count])
    shared = np.exp(made.random.normal(0, 0.05, CHUNK)[:count])
    arms = {
        "eager": eager * luck[0] * shared,
        "compiled": compiled * luck[1] * shared,
        "eager_best": best * luck[2] * shared,
        "eager_after_compile": eager * 1.9 * luck[3] * shared,
        "eager_before_compile": eager * 1.01 * luck[4] * shared,
    }
    columns: dict[str, Any] = {}
    # Few experiments ask for the methods of publications, which take time.
    tutorial = timed & (at["model"] == 2)
    for name, us in arms.items():
        columns |= _interval(f"{name}_us", us, 0.006, tutorial if name == "eager_after_compile" else timed)
    for name in vocabulary.TIMED_ARMS:
        known = tutorial if name == "eager_after_compile" else timed
        columns |= _arm(made, name, arms[name], floor=floor, moved=moved, timed=known)
    for name, arm in (("speedup", "eager"), ("speedup_vs_best", "eager_best")):
        columns |= _interval(name, arms[arm] / arms["compiled"], 0.008, timed)
        columns[f"process_{name}"] = _lists(
            np.asarray(columns[name])[timed], timed.astype(np.int64), _FLOATS, null=~timed
        )
    rounds = np.where(timed, 24, 0)
    columns |= {
        "eager_best": _where(pa.array(timed), _same("fused", count)),
        "eager_trials": _where(
            pa.array(timed), _same('{"forloop": 1172.2, "foreach": 341.5, "fused": 79.4}', count)
        ),
        "sequential_eager_us": _null(arms["eager"] * 1.02, tutorial),
        "sequential_compiled_us": _null(arms["compiled"] * 1.01, tutorial),
        "sequential_speedup": _null(arms["eager"] / arms["compiled"] * 1.01 * luck[5], tutorial),
        "min_effect": _null(np.full(count, 0.01), timed),
        "processes": _where(pa.array(timed), pa.array(np.ones(count, dtype=np.int64))),
        "process_spread": _null(np.full(count, 0.01), timed),
        "shared_spread": _null(np.full(count, 0.001), timed),
        "process_rounds": _lists(rounds[timed], timed.astype(np.int64), _INTS, null=~timed),
        "timed_from_step": _ints(np.full(count, 530), timed),
        "rounds": _ints(rounds, timed),
        "foreign_cpus": _null(0.001 * luck[0], timed),
        "timing_s": _null(1.3 * luck[1], timed),
        "compile_s": _null((4 + 6 * at["mode"] + 8 * own) * luck[2] * shared, made.ok),
        "compile_warm_s": _null(1.9 * luck[3] * shared, made.ok),
        "compile_torch_s": _null((3.9 + 6 * at["mode"]) * luck[4], made.ok),
        "recompile_torch_s": _null(0.8 * made.recompiles, made.ok),
        "working_set_bytes": _ints(made.parameters * 4 * (2 + states), timed),
        "state_bytes": _ints(made.parameters * 4 * states, timed),
        "step_bytes": _ints(moved, timed),
        "eager_bytes": _ints(moved * 3, timed),
        "bandwidth_gbps": _null(np.full(count, _BANDWIDTH) * luck[5], timed),
        "floor_us": _null(floor, timed),
        "last_level_cache_bytes": _ints(np.full(count, _CACHE), timed),
    }
    return columns


def _arm(
    made: _Made, name: str, us: np.ndarray, *, floor: np.ndarray, moved: np.ndarray, timed: np.ndarray
) -> dict[str, Any]:
    lengths = np.where(timed, 24, 0)
    blocks = np.repeat(us, lengths) * np.exp(made.random.normal(0, 0.01, 24 * CHUNK)[: lengths.sum()])
    busy = np.minimum(us, floor * 1.2 + 20)
    return {
        f"{name}_mean_us": _null(us * 1.01, timed),
        f"{name}_process_us": _lists(us[timed], timed.astype(np.int64), _FLOATS, null=~timed),
        f"{name}_block_us": _lists(blocks, lengths, _FLOATS, null=~timed),
        f"{name}_steps_per_block": _ints(np.maximum(1, 20_000 / us), timed),
        f"{name}_device_us": _null(busy, timed),
        f"{name}_kernels": _ints(2 + made.parameters % 7, timed),
        f"{name}_host_us": _null(us - busy + 15, timed),
        f"{name}_cpu_us": _null(us * 1.3, timed),
        f"{name}_bound": _where(pa.array(timed), _pick(["launch", "bandwidth"], (busy * 2 > us).astype(int))),
        f"{name}_attained": _null(floor / us, timed),
        f"{name}_peak_bytes": _ints(moved * 2, timed),
    }


def _outcome(made: _Made, columns: dict[str, Any]) -> dict[str, Any]:
    count = made.count
    low, high = (np.asarray(columns[f"speedup_{end}"]) for end in ("low", "high"))
    verdict = np.where(low > 1.01, "faster", np.where(high < 1 / 1.01, "slower", "no_difference")).astype(
        object
    )
    verdict[made.limit] = "invalid"
    verdict[~made.ok] = None
    words = {
        "failed": "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB",
        "timed_out": "over limits.run_seconds=1800",
        "crashed": "the process ended by signal 11 (SIGSEGV)",
        "unsupported": "LBFGS evaluates a closure: CUDA graphs cannot replay it",
    }
    cached = made.ok & (np.asarray(columns["parameters"]) * 16 < _CACHE)
    noisy = made.ok & (made.random.random(CHUNK)[:count] < 0.1)
    names = np.array(["in_cache", "noisy", "fell_back_to_eager"])
    flags = np.stack([cached, noisy, made.limit & made.ok], axis=1)
    stage = {"failed": "workload", "timed_out": "timing", "crashed": "trace", "unsupported": "build"}
    return {
        "status": made.status,
        "reason": [words.get(s) for s in made.status],
        "stage": [stage.get(s) for s in made.status],
        "error": [
            None if s in ("ok", "unsupported") else "Traceback (most recent call last):\n" * 20
            for s in made.status
        ],
        "verdict": verdict,
        "verdict_reason": _where(
            pa.array(made.limit & made.ok),
            _same("steps ran eager: torch's recompile limit was reached", count),
        ),
        "hint": _where(
            pa.array((made.recompiles > 0) & made.ok),
            _same("set optimizer.lr_as_tensor=true: it is then an input", count),
        ),
        "warnings": _lists(names[np.nonzero(flags)[1]], flags.sum(axis=1), _TEXTS, null=~made.ok),
    }


def _trace(made: _Made, cell: np.ndarray) -> dict[str, Any]:
    count, traced = made.count, made.ok
    n = np.where(traced, made.recompiles, 0)
    reasons = [_GUARD.format(k + 1, 0.01 / (k + 2)) for total in n.tolist() for k in range(total)]
    cause = "lr: value changed"
    summary = [None] + [f"{k} recompiles: {k} x {cause}" for k in range(1, 20)]
    steps = np.full(count, 12)
    return {
        "compiled_path": _where(
            pa.array(traced), _pick(["compiled", "eager_fallback"], made.limit.astype(int))
        ),
        "eager_path": _where(
            pa.array(traced), _pick(["foreach", "forloop"], (made.at["lr"] > 0).astype(int))
        ),
        "eager_ops": _ints(np.zeros(count), traced),
        "trace_steps": _ints(steps, traced),
        "graphs": _ints(made.recompiles + 1, traced),
        "graph_operations": _lists(
            np.full(n.sum() + traced.sum(), 69), np.where(traced, n + 1, 0), _INTS, null=~traced
        ),
        "recompiles": _ints(made.recompiles, traced),
        "recompile_reasons": _lists(reasons, n, _TEXTS, null=~traced),
        "recompile_causes": _lists([cause] * len(reasons), n, _TEXTS, null=~traced),
        "recompile_summary": _pick(summary, n),
        "recompiles_all_frames": _ints(made.recompiles, traced),
        "recompiles_warm_up": _ints(np.zeros(count), traced),
        "recompiles_timing": _ints(np.zeros(count), traced),
        "recompile_limit_hit": _where(pa.array(traced), pa.array(made.limit)),
        "eager_from_step": _ints(np.full(count, 8), traced & made.limit),
        "eager_trace_steps": _ints(np.where(made.limit, 4, 0), traced),
        "graph_breaks": _ints(np.full(count, 2), traced),
        "graph_break_reasons": _lists(
            ["Call to `torch._dynamo.graph_break()`"] * traced.sum(), traced.astype(int), _TEXTS, null=~traced
        ),
        "failed_frames": _ints(np.zeros(count), traced),
        "failed_frame_reasons": _lists([], np.zeros(count, dtype=np.int64), _TEXTS, null=~traced),
        "kernels": _ints(np.full(count, 2), traced),
        # Two modes of four give the same kernels.
        "code_hash": [
            f"{h:012x}" if is_ok else None
            for h, is_ok in zip((cell // 2 * 40_503).tolist(), traced, strict=True)
        ],
        "cudagraph_skips": _ints(np.zeros(count), traced),
        "cache_hits": _ints(np.zeros(count), traced),
        "cache_misses": _ints(np.ones(count), traced),
        "cache_bypasses": _ints(np.zeros(count), traced),
        "aot_cache": _where(pa.array(traced), _same("on", count)),
        "cache_bytes": _ints(np.full(count, 5_221_636), traced),
        "lr_trajectory": _lists(
            np.full(12 * traced.sum(), 0.01), np.where(traced, 12, 0), _FLOATS, null=~traced
        ),
        "lr_equal": _where(pa.array(traced), pa.array(np.ones(count, dtype=bool))),
        "eager_capturable": _where(pa.array(traced), pa.array(np.zeros(count, dtype=bool))),
        "eager_step_device": _where(pa.array(traced), _same("cpu", count)),
        "compiled_capturable": _where(pa.array(traced), pa.array(np.ones(count, dtype=bool))),
        "compiled_step_device": _where(pa.array(traced), _same("cuda", count)),
        "parity": _where(pa.array(traced), _same("passed", count)),
        "parity_error": _null(np.full(count, 1.44e-6), traced),
        "parity_max_abs": _null(np.full(count, 2.68e-7), traced),
        "parity_tolerance": _null(np.full(count, 1e-4), traced),
    }


def _machine(made: _Made, torches: tuple[str, ...]) -> dict[str, Any]:
    count, placed = made.count, made.placed
    texts = {
        "hostname": "lab1",
        "platform": "Linux-6.18.44-x86_64-with-glibc2.39",
        "cpu": "Intel(R) Xeon(R) Processor",
        "python_version": "3.12.3",
        "triton_version": "3.6.0",
        "gpu": "NVIDIA H200",
        "gpu_uuid": "85fd3b18-def4-ade6-7c04-c45fa13751b7",
        "gpu_capability": "9.0",
        "gpu_driver": "580.159.04",
        "cuda_version": "13.0",
        "torch_environment": '{"CUDA_HOME": "/usr/local/cuda", "CXX": "/usr/bin/g++"}',
    }
    numbers = {
        "cpu_count": 16,
        "host_cpu_count": 16,
        "memory_bytes": 135_148_564_480,
        "gpu_memory_bytes": 150_109_880_320,
        "sm_clock_mhz_before": 1980,
        "sm_clock_mhz_after": 1980,
        "gpu_temperature_c_before": 38,
        "gpu_temperature_c_after": 40,
        "foreign_gpu_processes": 0,
    }
    return {
        **{name: _where(pa.array(placed), _same(text, count)) for name, text in texts.items()},
        **{name: _ints(np.full(count, number), placed) for name, number in numbers.items()},
        "load_average": _null(made.random.random(CHUNK)[:count], placed),
        "throttle_reasons": _lists([], np.zeros(count, dtype=np.int64), _TEXTS, null=~placed),
    }


def _configs(columns: dict[str, Any], seed: np.ndarray, experiment: str | None) -> list[str]:
    """Return configurations of the length that real ones have."""
    preset = {"name": experiment, "title": experiment and f"About {experiment}", "published": []}
    widths = ("min_effect", "target_relative_width", "process_spread", "shared_spread")
    measure: dict[str, Any] = dict.fromkeys(widths, 0.01)
    measure |= {"name": "default", "timed": True, "parity": True, "arms": ["eager", "compiled", "eager_best"]}
    measure |= {"grads": "fresh", "explain": True, "warm_compile": True, "min_rounds": 20, "max_seconds": 3.0}
    rest = json.dumps({"measure": measure, "limits": {"run_seconds": 1800.0}, "experiment": preset})[1:]
    names = (
        "model",
        "optimizer",
        "optimizer_args",
        "scheduler",
        "scheduler_args",
        "compile_mode",
        "sweep_id",
    )
    parts: Iterator[tuple[str, ...]] = zip(*(columns[name].to_pylist() for name in names), strict=True)
    return [
        f'{{"model":{{"name":"{model}"}},"optimizer":{{"name":"{optimizer}","args":{arguments}}},'
        f'"scheduler":{{"name":"{scheduler}","args":{more}}},"compile":{{"mode":"{mode}"}},"seed":{number},'
        f'"sweep_id":"{sweep}","output_dir":"/data/outputs/{"x" * 400}",{rest}'
        for (model, optimizer, arguments, scheduler, more, mode, sweep), number in zip(
            parts, seed, strict=True
        )
    ]


def _interval(name: str, center: np.ndarray, margin: float, known: np.ndarray) -> dict[str, Any]:
    return {
        name: _null(center, known),
        f"{name}_low": _null(center * (1 - margin), known),
        f"{name}_high": _null(center * (1 + margin), known),
    }


def _null(values: np.ndarray, known: np.ndarray) -> np.ndarray:
    return np.where(known, values, np.nan)


def _ints(values: np.ndarray, known: np.ndarray) -> pa.Array:
    return pa.array(values.astype(np.int64), mask=~known)


def _same(text: str | None, count: int) -> pa.Array:
    return pa.repeat(pa.scalar(text, pa.string()), count)


def _pick(choices: Sequence[Any], index: np.ndarray) -> pa.Array:
    return pa.array(list(choices)).take(pa.array(index))


def _where(known: pa.Array, values: pa.Array) -> pa.Array:
    return pc.if_else(known, values, pa.scalar(None, values.type))


def _lists(values: Any, lengths: np.ndarray, kind: pa.DataType, null: np.ndarray | None = None) -> pa.Array:
    offsets = np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32)
    mask = None if null is None else pa.array(null)
    items = pa.array(values, kind.value_type)
    return pa.ListArray.from_arrays(pa.array(offsets), items, mask=mask)
