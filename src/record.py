"""The row: one flat, versioned, documented Arrow schema.

Every column states its unit and meaning once, here. A value that does not exist is null. Opinions
that need more than one row (break-even steps, geomeans) are derived by `analysis`, not stored.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from src.vocabulary import BOUNDS, COMPILED_PATHS, EAGER_PATHS, PARITIES, STATUSES, VERDICTS, WARNINGS

SCHEMA_VERSION = 4


class RecordError(ValueError):
    """A row does not fit the schema."""


@dataclass(frozen=True, slots=True)
class Column:
    """One column: name, Arrow type, unit (empty when it has none) and meaning."""

    name: str
    type: pa.DataType
    unit: str
    meaning: str


_TEXT, _INT, _FLOAT, _BOOL = pa.string(), pa.int64(), pa.float64(), pa.bool_()
_TEXTS, _FLOATS, _INTS = pa.list_(pa.string()), pa.list_(pa.float64()), pa.list_(pa.int64())
_TIME = pa.timestamp("us", tz="UTC")

_IDENTITY = (
    Column("schema_version", _INT, "", "version of this schema"),
    Column("sweep_id", _TEXT, "", "sweep the run belongs to"),
    Column("run_key", _TEXT, "", "hash of what is measured; equal for equal configurations"),
    Column("job", _INT, "", "number of the run in its sweep, from 0"),
    Column("experiment", _TEXT, "", "preset in experiments/, null without one"),
    Column("started_at", _TIME, "", "start of the run"),
    Column("wall_s", _FLOAT, "s", "whole run: process, compile, timing"),
    Column("process_s", _FLOAT, "s", "part of wall_s from the first stage of each process to its end"),
    Column("overrides", _TEXTS, "", "command line overrides of the run"),
    Column("config", _TEXT, "", "whole configuration as JSON"),
    Column("stepsweep_version", _TEXT, "", "version of stepsweep"),
    Column("stepsweep_commit", _TEXT, "", "git commit of stepsweep, +dirty if edited; null outside git"),
)

_AXES = (
    Column("model", _TEXT, "", "choice of model"),
    Column(
        "model_args",
        _TEXT,
        "",
        "table of shapes, or class and arguments, of the model as JSON; null for a stack of square layers",
    ),
    Column("width", _INT, "", "model.width; null unless the model is a stack, like the next two"),
    Column("depth", _INT, "", "model.depth"),
    Column("bias", _BOOL, "", "model.bias"),
    Column("dtype", _TEXT, "", "dtype of parameters and gradients"),
    Column("second_dtype", _TEXT, "", "dtype of every second layer; null: the same as the others"),
    Column("param_groups", _TEXT, "", "how the parameters are divided into groups of the optimizer"),
    Column("frozen_layers", _INT, "", "layers whose parameters ask for no gradient; null unless a stack"),
    Column(
        "layers_without_grad", _INT, "", "layers whose parameters have no gradient, though they ask for one"
    ),
    Column("workload", _TEXT, "", "what a step is: optimizer_step, or train_step from forward to zero_grad"),
    Column("batch_size", _INT, "", "samples in a batch; null without training, like the five that follow"),
    Column("amp", _TEXT, "", "automatic mixed precision: none, bf16, or fp16 with a gradient scaler"),
    Column("channels_last", _BOOL, "", "memory format channels_last of model and images"),
    Column("image_size", _INT, "", "height and width of images, where the model takes images"),
    Column("sequence_length", _INT, "", "tokens of a sample, where the model takes tokens"),
    Column("set_to_none", _BOOL, "", "set_to_none of zero_grad"),
    Column("parameters", _INT, "", "number of parameter elements"),
    Column("tensors", _INT, "", "number of parameter tensors"),
    Column("optimizer", _TEXT, "", "choice of optimizer"),
    Column("optimizer_args", _TEXT, "", "arguments of the optimizer as JSON; null ones are torch's choice"),
    Column("scheduler", _TEXT, "", "choice of learning rate scheduler"),
    Column("scheduler_args", _TEXT, "", "arguments of the scheduler as JSON"),
    Column("lr_as_tensor", _BOOL, "", "learning rate held in a 0-d tensor"),
    Column("lr_device", _TEXT, "", "device of the learning rate tensor; null for a float"),
    Column("compile_backend", _TEXT, "", "backend of torch.compile; none compiles nothing"),
    Column("compile_mode", _TEXT, "", "mode of torch.compile"),
    Column(
        "compile_target",
        _TEXT,
        "",
        "what is compiled: model, optimizer, model_and_optimizer, or the whole step",
    ),
    Column("compile_fullgraph", _BOOL, "", "fullgraph of torch.compile"),
    Column("compile_dynamic", _BOOL, "", "dynamic of torch.compile; null is torch's choice"),
    Column("compile_cache", _TEXT, "", "cold or warm on-disk compile cache, as asked for"),
    Column("device", _TEXT, "", "device of the parameters: cpu or cuda"),
    Column("threads", _INT, "", "CPU threads of torch"),
    Column("pinned_cpus", _TEXT, "", "CPUs that the run was pinned to; null: not pinned"),
    Column(
        "baseline",
        _TEXT,
        "",
        "implementation that the eager arm alone was to run; null: as the optimizer's arguments have it",
    ),
    Column("grads", _TEXT, "", "static: torch knows that gradients stay in place; fresh: it does not"),
    Column("flush_cache", _BOOL, "", "whether caches were emptied before every timed step"),
    Column(
        "keep_memory",
        _BOOL,
        "",
        "true where the process keeps memory that is freed on a CPU; null: as the C library does it",
    ),
    Column("seed", _INT, "", "seed of parameters and gradients"),
    Column("measure", _TEXT, "", "choice of measure"),
)

_TRAINING = (
    Column("input_shape", _INTS, "", "shape of the batch that the model gets; null without training"),
)

_OUTCOME = (
    Column("status", _TEXT, "", "one of " + ", ".join(STATUSES)),
    Column("reason", _TEXT, "", "why the status is not ok, in words"),
    Column("stage", _TEXT, "", "stage in which the run ended when not ok"),
    Column("error", _TEXT, "", "traceback or end of the run's output, when not ok"),
    Column("attempts", _INT, "", "times that the run was started, by retry and resume as well"),
    Column("earlier_ends", _TEXTS, "", "status and reason of each of those before the last"),
    Column("verdict", _TEXT, "", "one of " + ", ".join(VERDICTS) + "; null unless timed"),
    Column("verdict_reason", _TEXT, "", "why the verdict is invalid"),
    Column("hint", _TEXT, "", "what a reader can do about it, where the cause is known"),
    Column("exclusion", _TEXT, "", "known reason why the combination cannot work, also when tried again"),
    Column("warnings", _TEXTS, "", "named doubts about the numbers"),
    Column("gate", _TEXT, "", "passed or failed; null without gate.min_speedup or a number"),
    Column("gate_min_speedup", _FLOAT, "", "gate.min_speedup"),
)


def _interval(name: str, unit: str, meaning: str) -> tuple[Column, ...]:
    return (
        Column(name, _FLOAT, unit, meaning),
        Column(f"{name}_low", _FLOAT, unit, f"lower end of the 95 % interval of {name}"),
        Column(f"{name}_high", _FLOAT, unit, f"upper end of the 95 % interval of {name}"),
    )


_WHAT_IS_TIMED = {
    "eager": "an eager step",
    "compiled": "a compiled step",
    "eager_best": "a step of the fastest eager implementation",
    "eager_after_compile": "an eager step of an optimizer that was compiled before",
}


def _arm(name: str, what: str) -> tuple[Column, ...]:
    return (
        *_interval(
            f"{name}_us", "us", f"time of {what}: median over the rounds, geometric mean over processes"
        ),
        *_interval(f"{name}_samples_per_s", "samples/s", f"batch_size / {name}_us; null without training"),
        Column(f"{name}_mean_us", _FLOAT, "us", f"mean time of {what} over all rounds"),
        Column(f"{name}_process_us", _FLOATS, "us", f"median time of {what} in each process"),
        Column(f"{name}_block_us", _FLOATS, "us", f"time of {what} in each round's block, of all processes"),
        Column(f"{name}_steps_per_block", _INT, "", f"steps in a block of {what}, in the first process"),
    )


def _speedup(name: str, baseline: str) -> tuple[Column, ...]:
    what = f"{baseline} time / compiled time"
    return (
        *_interval(name, "", f"{what}: median over the rounds, geometric mean over processes"),
        Column(f"process_{name}", _FLOATS, "", f"median over the rounds of {what}, in each process"),
    )


_TIMES = (
    *(column for name, what in _WHAT_IS_TIMED.items() for column in _arm(name, what)),
    *_speedup("speedup", "eager"),
    *_speedup("speedup_vs_best", "eager_best"),
    Column("eager_best", _TEXT, "", "fastest eager implementation: one of " + ", ".join(EAGER_PATHS)),
    Column(
        "eager_trials", _TEXT, "", "time in us of a step of each eager implementation, tried briefly, JSON"
    ),
    *_interval("eager_before_compile_us", "us", "time of an eager step before anything was compiled"),
    Column("sequential_eager_us", _FLOAT, "us", "mean of Timer.blocked_autorange of the eager step"),
    Column("sequential_compiled_us", _FLOAT, "us", "the same of the compiled step, timed after it"),
    Column("sequential_speedup", _FLOAT, "", "their ratio, as PyTorch's tutorial measures it"),
    Column("min_effect", _FLOAT, "", "a speedup closer to 1 than this is no difference"),
    Column("processes", _INT, "", "fresh processes that were timed"),
    Column(
        "process_spread",
        _FLOAT,
        "",
        "standard deviation of the speedup over processes that the interval of one process assumes",
    ),
    Column(
        "shared_spread",
        _FLOAT,
        "",
        "standard deviation of the speedup that all processes share, which every interval assumes",
    ),
    Column("process_rounds", _INTS, "", "timed rounds of each process"),
    Column("timed_from_step", _INT, "", "fewest optimizer steps that an arm took before it was timed"),
    Column("rounds", _INT, "", "timed rounds of all processes; each times every arm for one block"),
    Column("foreign_cpus", _FLOAT, "cpus", "CPUs busy with other processes during the timing, on average"),
    Column("timing_s", _FLOAT, "s", "time spent on the rounds, calibration included"),
    Column("lease_wait_s", _FLOAT, "s", "time the run waited for its device; null without a lease"),
    Column("timed_from", pa.list_(_TIME), "", "when the run began to have its device alone, each time"),
    Column("timed_until", pa.list_(_TIME), "", "when it gave it back"),
    Column("near_cpus", _INTS, "", "CPUs near its GPU that the run was kept on; null: not kept"),
)


def _why(name: str, what: str) -> tuple[Column, ...]:
    return (
        Column(f"{name}_device_us", _FLOAT, "us", f"time that {what} keeps the GPU busy; null on a CPU"),
        Column(f"{name}_kernels", _INT, "", f"kernels, copies and fills on the GPU in {what}"),
        Column(f"{name}_host_us", _FLOAT, "us", f"time to enqueue {what} without waiting; null on a CPU"),
        Column(f"{name}_cpu_us", _FLOAT, "us", f"CPU time of {what}, of all threads"),
        Column(f"{name}_bound", _TEXT, "", f"what limits {what}: one of " + ", ".join(BOUNDS)),
        Column(f"{name}_attained", _FLOAT, "", f"attained fraction: floor_us / {name}_us"),
        Column(
            f"{name}_peak_bytes",
            _INT,
            "bytes",
            f"parameters, gradients, states and most temporary memory of {what}; with a model its buffers "
            "and the batch",
        ),
        Column(
            f"{name}_reserved_bytes",
            _INT,
            "bytes",
            f"GPU memory that torch reserves for that: {name}_peak_bytes with what lies idle; null on a CPU",
        ),
        Column(
            f"{name}_gpu_utilisation",
            _FLOAT,
            "",
            f"part of the time in which NVML saw the GPU busy while repeating {what}; null without training",
        ),
    )


_EXPLANATION = (
    *(column for name, what in _WHAT_IS_TIMED.items() for column in _why(name, what)),
    Column(
        "working_set_bytes",
        _INT,
        "bytes",
        "parameters, gradients and states of the eager arm; null with training, like step_bytes, "
        "eager_bytes, bandwidth_gbps and floor_us, which are those of an optimizer's step",
    ),
    Column("state_bytes", _INT, "bytes", "tensors that the eager arm's optimizer keeps"),
    Column("step_bytes", _INT, "bytes", "least memory that the update must read and write, by its formula"),
    Column("eager_bytes", _INT, "bytes", "memory that the eager step's operations read and write, counted"),
    Column("bandwidth_gbps", _FLOAT, "GB/s", "bandwidth of memory, read and written, measured in the run"),
    Column("floor_us", _FLOAT, "us", "roofline floor: step_bytes / bandwidth_gbps"),
    Column("last_level_cache_bytes", _INT, "bytes", "size of the device's last-level cache"),
)

_COMPILE = (
    Column(
        "compiled_path", _TEXT, "", "how the compiled arm really ran: one of " + ", ".join(COMPILED_PATHS)
    ),
    Column("eager_path", _TEXT, "", "implementation that the eager arm ran: " + ", ".join(EAGER_PATHS)),
    Column("eager_ops", _INT, "", "operations of a compiled step that ran outside its graphs"),
    Column("trace_steps", _INT, "", "steps of the trace"),
    Column("graphs", _INT, "", "compiled graphs with operations in the trace; 0: nothing was compiled"),
    Column("graph_operations", _INTS, "", "operations of each of those graphs"),
    Column("recompiles", _INT, "", "those of the graphs that are not the first of their frame"),
    Column("recompile_reasons", _TEXTS, "", "guard that failed, for each of those recompiles"),
    Column("recompile_causes", _TEXTS, "", "what each of those guards is about, in words that group"),
    Column("recompile_summary", _TEXT, "", "the recompiles and their causes on one line"),
    Column("recompiles_all_frames", _INT, "", "recompiles of all frames, also without operations"),
    Column("recompiles_warm_up", _INT, "", "recompiles after the trace, before the timing if there is one"),
    Column("recompiles_timing", _INT, "", "compilations while the arms were timed"),
    Column("recompile_limit_hit", _BOOL, "", "torch's recompile limit was reached: steps ran eager"),
    Column("eager_from_step", _INT, "", "first step of the trace, from 0, that ran no compiled graph"),
    Column("eager_trace_steps", _INT, "", "steps of the trace that ran no compiled graph"),
    Column("graph_breaks", _INT, "", "graph breaks in the trace"),
    Column("graph_break_reasons", _TEXTS, "", "first line of the reason of each graph break"),
    Column("failed_frames", _INT, "", "frames that torch could not compile in the trace"),
    Column("failed_frame_reasons", _TEXTS, "", "first line of the reason of each of those"),
    Column("kernels", _INT, "", "kernels that inductor generated in the trace; null with another backend"),
    Column("code_hash", _TEXT, "", "hash of their code: equal where two runs got the same kernels"),
    Column("cudagraph_skips", _INT, "", "CUDA graphs that torch skipped in the trace"),
    Column("cudagraph_skip_reasons", _TEXTS, "", "why, where torch says so"),
    Column("compile_s", _FLOAT, "s", "first step of the compiled arm, wall time"),
    Column("compile_warm_s", _FLOAT, "s", "the same in a second process, which finds the first one's cache"),
    Column("compile_torch_s", _FLOAT, "s", "compile time of the first call by torch's own count"),
    Column("recompile_torch_s", _FLOAT, "s", "compile time of the later calls by torch's own count"),
    Column("toolchain_s", _FLOAT, "s", "one-time probe of the compiler toolchain, once per sweep"),
    Column("cache_hits", _INT, "", "compiled graphs found in torch's cache, on disk or in the process"),
    Column("cache_misses", _INT, "", "compiled graphs not found in it"),
    Column("cache_bypasses", _INT, "", "compiled graphs that cannot be cached"),
    Column("aot_cache", _TEXT, "", "whether the AOTAutograd cache was on or off"),
    Column("cache_bytes", _INT, "bytes", "size the run added to its compile cache"),
    Column(
        "torch_log", _TEXT, "", "file of torch's own log, in output_dir; null unless compile.logs asks for it"
    ),
)

_STATE = (
    Column("lr_trajectory", _FLOATS, "", "learning rate of the first group in each step of the trace"),
    Column("lr_equal", _BOOL, "", "whether both arms used the same learning rates"),
    Column("eager_capturable", _BOOL, "", "capturable of the eager arm's optimizer after the trace"),
    Column("eager_step_device", _TEXT, "", "device of the eager arm's step counters after the trace"),
    Column(
        "compiled_capturable_before",
        _BOOL,
        "",
        "capturable of the compiled arm's optimizer before it was compiled",
    ),
    Column("compiled_capturable", _BOOL, "", "the same after the trace"),
    Column(
        "compiled_step_device_before",
        _TEXT,
        "",
        "device of the compiled arm's step counters before it was compiled; null without state",
    ),
    Column("compiled_step_device", _TEXT, "", "device of the compiled arm's step counters after the trace"),
)

_PARITY = (
    Column(
        "parity", _TEXT, "", "whether compiled and eager steps gave the same: one of " + ", ".join(PARITIES)
    ),
    Column("parity_reason", _TEXT, "", "what differs, or why it could not be told"),
    Column(
        "parity_max_abs", _FLOAT, "", "largest difference of a parameter between the arms after the trace"
    ),
    Column(
        "parity_error",
        _FLOAT,
        "",
        "difference of the arms relative to how far the parameters moved, of the worst tensor",
    ),
    Column(
        "parity_state_error",
        _FLOAT,
        "",
        "difference of the arms' optimizer states relative to their size, of the worst tensor",
    ),
    Column(
        "parity_loss_error",
        _FLOAT,
        "",
        "difference of the arms' losses over the trace relative to their size; null without training",
    ),
    Column("eager_final_loss", _FLOAT, "", "loss of the eager arm in the last step of the trace"),
    Column("compiled_final_loss", _FLOAT, "", "loss of the compiled arm in the last step of the trace"),
    Column(
        "parity_tolerance",
        _FLOAT,
        "",
        "allowed parity_error and parity_state_error; of training steps allowed error of a gradient",
    ),
    Column("parity_eager_error", _FLOAT, "", "parity_error of the eager arm against eager steps in float64"),
    Column(
        "parity_compiled_error", _FLOAT, "", "parity_error of the compiled arm against eager steps in float64"
    ),
    Column(
        "parity_shaken_error",
        _FLOAT,
        "",
        "parity_error of steps in float64 with noise of parity_tolerance in every gradient against those "
        "without; null without training",
    ),
)

_MACHINE = (
    Column("hostname", _TEXT, "", "host"),
    Column("platform", _TEXT, "", "operating system and kernel"),
    Column("cpu", _TEXT, "", "CPU model"),
    Column("cpu_count", _INT, "", "CPUs this process may use"),
    Column("host_cpu_count", _INT, "", "CPUs of the host"),
    Column("memory_bytes", _INT, "bytes", "memory of the host"),
    Column("python_version", _TEXT, "", "Python"),
    Column("torch_version", _TEXT, "", "torch"),
    Column("triton_version", _TEXT, "", "Triton; null when not installed"),
    Column("cxx_compiler", _TEXT, "", "C++ compiler that inductor uses, first line of its version"),
    Column("gpu", _TEXT, "", "GPU model; null on a CPU run, like the four that follow"),
    Column("gpu_uuid", _TEXT, "", "GPU UUID"),
    Column("gpu_capability", _TEXT, "", "CUDA compute capability"),
    Column("gpu_memory_bytes", _INT, "bytes", "memory of the GPU"),
    Column("gpu_driver", _TEXT, "", "GPU driver"),
    Column("cuda_version", _TEXT, "", "CUDA that torch was built for; null in a CPU build"),
    Column("cpu_governor", _TEXT, "", "frequency governor of the CPU; null where there is none"),
    Column("load_average", _FLOAT, "cpus", "the host's load average of one minute at the start"),
    Column("sm_clock_mhz_before", _INT, "MHz", "the GPU's SM clock before the timing"),
    Column("sm_clock_mhz_after", _INT, "MHz", "the same after it"),
    Column("memory_clock_mhz_before", _INT, "MHz", "the GPU's memory clock before the timing"),
    Column("memory_clock_mhz_after", _INT, "MHz", "the same after it"),
    Column("gpu_temperature_c_before", _INT, "C", "the GPU's temperature before the timing"),
    Column("gpu_temperature_c_after", _INT, "C", "the same after it"),
    Column("gpu_power_w_before", _FLOAT, "W", "the GPU's power draw before the timing"),
    Column("gpu_power_w_after", _FLOAT, "W", "the same after it"),
    Column("throttle_reasons", _TEXTS, "", "why the GPU lowered its clocks, before or after the timing"),
    Column("foreign_gpu_processes", _INT, "", "other processes on the GPU, before or after the timing"),
    Column("torch_environment", _TEXT, "", "environment variables that steer torch, as JSON"),
)

COLUMNS: tuple[Column, ...] = (
    *_IDENTITY,
    *_AXES,
    *_TRAINING,
    *_OUTCOME,
    *_TIMES,
    *_EXPLANATION,
    *_COMPILE,
    *_STATE,
    *_PARITY,
    *_MACHINE,
)

AXES: tuple[str, ...] = tuple(c.name for c in _AXES if c.name not in ("parameters", "tensors"))
"""Columns that say what was measured; rows equal in all of them measured the same thing."""

MACHINE_FACTS: tuple[str, ...] = ("hostname", "cpu", "gpu", "torch_version", "cuda_version")
"""Columns that must agree before two rows are put into one number."""

_NAMES = {column.name for column in COLUMNS}


def schema(*, documented: bool = True) -> pa.Schema:
    """Return the Arrow schema, with unit and meaning as field metadata when `documented`."""
    return pa.schema(
        [
            pa.field(
                column.name,
                column.type,
                metadata={"unit": column.unit, "meaning": column.meaning} if documented else None,
            )
            for column in COLUMNS
        ],
        metadata={"stepsweep_schema_version": str(SCHEMA_VERSION)},
    )


def to_table(row: Mapping[str, Any]) -> pa.Table:
    """Turn one row into a one-row Arrow table with every column; what `row` lacks is null.

    Raises:
        RecordError: the row has a column that the schema lacks, a value of the wrong type, or a
            status that is not one of `STATUSES`.
    """
    unknown = sorted(set(row) - _NAMES)
    if unknown:
        raise RecordError(f"row has unknown columns: {', '.join(unknown)}")
    if row.get("status") not in STATUSES:
        raise RecordError(f"status must be one of {', '.join(STATUSES)}: got {row.get('status')!r}")
    arrays = []
    for column in COLUMNS:
        try:
            arrays.append(pa.array([row.get(column.name)], type=column.type))
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise RecordError(f"{column.name} does not fit {column.type}: {error}") from error
    return pa.Table.from_arrays(arrays, schema=schema())


def markdown() -> str:
    """Return the documentation of all columns as a Markdown page."""
    lines = [
        "# Columns of a row",
        "",
        f"Schema version {SCHEMA_VERSION}. Made from `src/record.py` by `make docs`; do not edit.",
        "",
        "| column | type | unit | meaning |",
        "| --- | --- | --- | --- |",
    ]
    for column in COLUMNS:
        is_list = pa.types.is_list(column.type)
        kind = f"list of {column.type.value_type}" if is_list else str(column.type)
        lines.append(f"| `{column.name}` | {kind} | {column.unit} | {column.meaning} |")
    lines += ["", "## Warnings", "", "| name | meaning |", "| --- | --- |"]
    lines += [f"| `{name}` | {meaning} |" for name, meaning in WARNINGS.items()]
    return "\n".join(lines) + "\n"
