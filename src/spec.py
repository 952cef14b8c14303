"""What one run measures: the configuration, typed, checked, and reduced to a run key.

The dataclasses here are both the schema that Hydra checks a config against and the objects that
the rest of the program receives. Defaults live in `conf/`, one YAML per choice; a rule about a
value lives in the field that holds it (`key`), a rule about several values in `_check_together`.
This module knows nothing of torch, files or processes.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import reduce
from operator import getitem
from typing import Any

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src.choices import NAME, ChoiceSpec
from src.models import ModelSpec
from src.optimizers import IMPLEMENTATIONS, OPTIMIZERS, OptimizerSpec
from src.rules import SpecError, check_fields, check_keys, key
from src.schedulers import SCHEDULERS, SchedulerSpec
from src.workloads import TARGETS, WORKLOADS, TrainStepSpec, WorkloadSpec

BACKENDS = ("inductor", "cudagraphs", "aot_eager", "eager", "none")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ARMS = ("eager", "compiled", "eager_best", "eager_after_compile")
GRADS = ("fresh", "static")
LOGS = ("recompiles", "graph_breaks", "output_code")
LR_TYPES = ("float", "cpu_tensor", "cuda_tensor")
SWEEP_ID = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}"
OBJECTIVES = ("compiled_us", "eager_us", "speedup", "recompiles", "compile_s")


@dataclass
class CompileSpec:
    """How the compiled arm is compiled: the arguments of `torch.compile`, and the cache."""

    backend: str = key(
        "backend of torch.compile; none compiles nothing, so that two eager arms show the noise",
        choices=BACKENDS,
    )
    mode: str = key("mode of torch.compile", choices=MODES)
    target: str | None = key(
        "what is compiled; null: the whole of an optimizer step, the model of a training step",
        choices=TARGETS,
    )
    fullgraph: bool = key("fail on a graph break")
    dynamic: bool | None = key("dynamic shapes; null leaves the choice to torch")
    cache: str = key("on-disk compile cache at the start of the run", choices=("cold", "warm"))
    keep_cache: bool = key("keep a cold run's compile cache instead of deleting it")
    logs: list[str] = key("what torch logs into the run's log while it compiles", choices=LOGS)


@dataclass
class MeasureSpec:
    """How long and how precisely a run is traced and timed."""

    name: str = key("name of the choice in conf/measure", pattern=r"[A-Za-z0-9_.-]+")
    timed: bool = key("time the arms; false: trace alone")
    parity: bool = key("compare the compiled arm with the eager arm and a float64 reference")
    arms: list[str] = key("ways of taking the step that are timed", choices=ARMS)
    baseline: str | None = key(
        "implementation that the eager arm alone runs; null: as the optimizer's arguments have it",
        choices=tuple(IMPLEMENTATIONS),
    )
    processes: int = key(
        "fresh processes that the run is repeated in; the interval is over them", at_least=1, below=1000
    )
    process_spread: float = key(
        "standard deviation of the speedup over processes that one process alone is taken to have",
        at_least=0,
        below=1,
    )
    shared_spread: float | None = key(
        "standard deviation of what all processes of a run share, which no repetition shows; "
        "null: 0.1 % on a GPU, 1 % on a CPU",
        at_least=0,
        below=1,
    )
    grads: str = key(
        "gradients: fresh, as zero_grad and backward give them; static, in a place that torch knows",
        choices=GRADS,
    )
    flush_cache: bool = key("empty the caches before every timed step, and time each step by itself")
    keep_memory: bool = key("on a CPU, let the process keep the memory that steps free")
    explain: bool = key("measure device, host and memory use of the arms, and the memory's bandwidth")
    pin: bool | None = key(
        "keep a GPU run, its compilers included, on CPUs near its GPU that no other GPU's runs are kept on; "
        "null: where several GPUs are visible"
    )
    warm_compile: bool = key("compile once more in a second process, with the cache of the first")
    sequential: bool = key("time the arms one after the other as well, as PyTorch's tutorial does")
    trace_steps: int = key("steps of the trace, in which recompiles are counted", at_least=1)
    warm_up_steps: int | None = key(
        "steps of every arm before it is timed; null: 1,100 on a CPU, 100 on a GPU", at_least=0
    )
    warm_up_seconds: float = key("the warm-up of an arm ends after this, few steps or not", above=0)
    max_compiling_blocks: int = key(
        "blocks of warm-up with a compilation after which an arm counts as recompiling", at_least=1
    )
    min_block_seconds: float = key("shortest timed block", above=0)
    min_rounds: int = key("fewest timed rounds; a 95 % interval of a median needs 6", at_least=6)
    max_seconds: float = key(
        "timing of all arms ends after this many seconds, of all processes together", above=0
    )
    target_relative_width: float = key(
        "timing ends when the 95 % interval of the speedup is narrower than this part of it",
        above=0,
    )
    min_effect: float = key("a speedup closer to 1 than this part is no difference", at_least=0)


@dataclass
class LimitsSpec:
    """What a run may use before it is ended."""

    run_seconds: float = key("a run is ended after this many seconds", above=0, below=1e9)
    compile_seconds: float | None = key(
        "a run is ended after this many seconds of compiling, the trace of the compiled arm included; "
        "null: no limit of its own",
        above=0,
        below=1e9,
    )
    timing_seconds: float | None = key(
        "a run is ended after this many seconds of warm-up, timing and explaining; null: no limit of its own",
        above=0,
        below=1e9,
    )
    memory_gib: float | None = key(
        "a run is ended when it and its compilers use more memory of the host, in GiB; null: no limit",
        above=0,
        below=1e9,
    )


@dataclass
class GateSpec:
    """Optional demands on the result."""

    min_speedup: float | None = key("a measured speedup below this fails the gate", above=0)


@dataclass
class ExperimentSpec:
    """The preset a run belongs to, the table it is for, and what was published about it.

    Layout and published values say nothing about what is measured. Their keys are known to the analysis,
    which checks them in full when it makes the table; here they must be plain data.
    """

    name: str | None = key("name of the preset in experiments/", pattern=r"[A-Za-z0-9_.-]+")
    title: str | None = key("title of its table")
    table: dict[str, Any] = key("layout of its table")
    published: list[dict[str, Any]] = key("published values, and where in the table they stand")


@dataclass
class RunSpec:
    """One run, whole."""

    workload: WorkloadSpec
    model: ModelSpec
    optimizer: OptimizerSpec
    scheduler: SchedulerSpec
    compile: CompileSpec
    measure: MeasureSpec
    limits: LimitsSpec
    gate: GateSpec
    experiment: ExperimentSpec
    lr_type: str = key("the learning rate as a number, or in a 0-d tensor, in every arm", choices=LR_TYPES)
    device: str = key("device of the parameters", choices=("auto", "cpu", "cuda"))
    threads: int | None = key("CPU threads of torch; null leaves torch's default", at_least=1, below=2**16)
    cpus: list[int] | None = key("CPUs that the run is pinned to; null pins nothing", at_least=0, below=2**16)
    seed: int = key("seed of parameters and gradients", at_least=0, below=2**63)
    exclude: list[dict[str, Any]] = key(
        "rules of runs to leave out: a mapping of choices or dotted keys to the values that must all fit"
    )
    retest_exclusions: bool = key("try combinations that are known not to work")
    resume: str | None = key(
        "sweep whose runs without a good row are run again: its id, or latest", pattern=SWEEP_ID
    )
    resume_mixed: bool = key("resume although versions or the machine have changed since")
    retry: int = key("times that a run which crashed or timed out is started anew", at_least=0, below=100)
    objective: str = key("number a sweeper such as Optuna receives", choices=OBJECTIVES)
    sweep_id: str = key("name of the sweep", pattern=SWEEP_ID)
    output_dir: str = key("folder of rows, logs and caches", pattern=r".+")

    @property
    def compiles(self) -> bool:
        """Whether the compiled arm is compiled; with backend `none` it is a second eager one."""
        return self.compile.backend != "none"

    @property
    def training(self) -> TrainStepSpec | None:
        """The keys of a training step; None where the optimizer's step alone is measured."""
        return self.workload if isinstance(self.workload, TrainStepSpec) else None

    @property
    def lr_as_tensor(self) -> bool:
        """Whether the learning rate is held in a tensor."""
        return self.lr_type != "float"

    @property
    def lr_device(self) -> str | None:
        """Device of the learning rate's tensor; None for a float."""
        return self.lr_type.removesuffix("_tensor") if self.lr_as_tensor else None

    def for_eager(self) -> "RunSpec":
        """Return what the eager arm is made from: with the implementation that `measure.baseline` names."""
        name = self.measure.baseline
        return self if name is None else replace(self, optimizer=self.optimizer.implementing(name))

    def run_key(self) -> str:
        """Return the 12 hex digits that name what is measured, whatever it is called or stored.

        Keys that came later are left out where they have the value that all earlier runs had.
        """
        plain = asdict(self)
        later = (
            *(() if self.training else _OF_TRAINING),
            *(() if self.measure.baseline else ("measure.baseline",)),
            *(() if self.measure.pin else ("measure.pin",)),
        )
        for dotted in (*NOT_MEASURED, *later):
            *groups, name = dotted.split(".")
            del reduce(getitem, groups, plain)[name]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """Return the whole configuration as one JSON object."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)


NOT_MEASURED = (
    *("limits", "gate", "experiment", "exclude", "retest_exclusions", "objective", "sweep_id", "output_dir"),
    *("resume", "resume_mixed", "retry", "model.name", "measure.name", "compile.keep_cache", "compile.logs"),
)
"""Keys of `RunSpec` that do not change what is measured, and so are no part of the run key."""

_OF_TRAINING = ("workload", "compile.target")


def from_config(config: DictConfig) -> RunSpec:
    """Turn a composed Hydra config into a checked `RunSpec`.

    Raises:
        SpecError: a key is unknown, missing or null, or a value breaks a rule. The message has
            the dotted key, the rule and what came.
    """
    spec = _to_object(config)
    check_fields(spec)
    spec.compile.target = spec.compile.target or spec.workload.target
    _check_together(spec)
    return spec


def _to_object(config: DictConfig) -> RunSpec:
    try:
        check_keys(config)
        spec = OmegaConf.to_object(config)
    except OmegaConfBaseException as error:  # such as an interpolation of a key that is not there
        where = f"{error.full_key}: " if error.full_key else ""
        raise SpecError(where + str(error).splitlines()[0]) from None
    if not isinstance(spec, RunSpec):
        raise SpecError("the configuration is not made from the schema run_schema")
    return spec


def _check_together(spec: RunSpec) -> None:
    """Check the rules that concern several keys."""
    _check_choice("optimizer", spec.optimizer, OPTIMIZERS)
    _check_choice("scheduler", spec.scheduler, SCHEDULERS)
    if type(spec.workload) is not WORKLOADS.get(spec.workload.name):
        raise SpecError(
            f"workload.name must not be changed, choose workload=NAME: got {spec.workload.name!r}"
        )
    _check_model(spec)
    _check_step(spec)
    arms = spec.measure.arms
    if len(set(arms)) != len(arms):
        raise SpecError(f"measure.arms must not repeat an arm: got {arms}")
    if not {"eager", "compiled"} <= set(arms):
        raise SpecError(f"measure.arms must contain eager and compiled: got {arms}")
    compiling = spec.compile
    if compiling.mode != "default" and compiling.backend not in ("inductor", "none"):
        raise SpecError(
            f"compile.mode must be default with compile.backend={compiling.backend}, "
            f"only inductor has modes: got {compiling.mode}"
        )
    if "eager_after_compile" in arms and compiling.backend == "none":
        raise SpecError("measure.arms must not contain eager_after_compile with compile.backend=none")
    if spec.lr_type == "cuda_tensor" and spec.device == "cpu":
        raise SpecError("lr_type must not be cuda_tensor with device=cpu")
    if spec.cpus is not None and (not spec.cpus or len(set(spec.cpus)) != len(spec.cpus)):
        raise SpecError(f"cpus must name CPUs, each once, or be null: got {spec.cpus}")
    if spec.measure.processes > 1 and not spec.measure.timed:
        raise SpecError(
            f"measure.processes must be 1 with measure.timed=false, whose counts do not vary: "
            f"got {spec.measure.processes}"
        )
    if spec.gate.min_speedup is not None and not spec.measure.timed:
        raise SpecError(
            f"gate.min_speedup must be null with measure.timed=false, which measures no speedup: "
            f"got {spec.gate.min_speedup}"
        )


def _check_choice(path: str, chosen: ChoiceSpec, choices: Mapping[str, type[ChoiceSpec]]) -> None:
    """Check the name and the rules of a choice, and of the choices that are its parts."""
    group = path.partition(".")[0]
    if type(chosen) is choices["custom"]:
        # Not a rule of the field: the name may come from _target_, whose own rule is told first.
        if not re.fullmatch(NAME, chosen.name):
            raise SpecError(f"{path}.name must match {NAME}: got {chosen.name!r}")
        if chosen.name in choices:
            raise SpecError(
                f"{path}.name must not be the name of a choice that is there: got {chosen.name!r}"
            )
    elif type(chosen) is not choices.get(chosen.name):
        choose = path if path == group else f"{group}@{path}"
        raise SpecError(f"{path}.name must not be changed, choose {choose}=NAME: got {chosen.name!r}")
    chosen.check(path)
    for f in fields(chosen):
        part = getattr(chosen, f.name)
        if isinstance(part, ChoiceSpec):
            _check_choice(f"{path}.{f.name}", part, choices)


def _check_model(spec: RunSpec) -> None:
    model, optimizer = spec.model, spec.optimizer
    model.check("model")
    if model.param_groups == "decay" and "weight_decay" not in optimizer.keywords():
        told = ", set optimizer.arguments.weight_decay" if optimizer.torch_class is None else ""
        raise SpecError(
            f"model.param_groups must not be decay with optimizer={optimizer.name}: "
            f"it has no weight_decay{told}"
        )


def _check_step(spec: RunSpec) -> None:
    """Check what the kind of step rules out."""
    model, training = spec.model, spec.training
    if training is None:
        if spec.compile.target != "step":
            raise SpecError(
                f"compile.target must be step with workload={spec.workload.name}: got {spec.compile.target}"
            )
        return
    chosen = f"workload={training.name}"
    for name, usual in (("second_dtype", None), ("frozen_layers", 0), ("layers_without_grad", 0)):
        if getattr(model, name, usual) != usual:
            told = "null" if usual is None else usual
            raise SpecError(f"model.{name} must be {told} with {chosen}: got {getattr(model, name)}")
    if training.amp != "none" and model.dtype != "float32":
        raise SpecError(f"workload.amp must be none with model.dtype={model.dtype}: got {training.amp}")
    if spec.measure.grads != "fresh":
        raise SpecError(
            f"measure.grads must be fresh with {chosen}, whose backward makes them: got {spec.measure.grads}"
        )
    for of_optimizer, why in (("needs_closure", "a loss function"), ("sparse_gradients", "sparse gradients")):
        if getattr(spec.optimizer, of_optimizer):
            raise SpecError(
                f"workload must not be {training.name} with optimizer={spec.optimizer.name}: it takes {why}"
            )
