"""What one run measures: the configuration, typed, checked, and reduced to a run key.

The dataclasses here are both the schema that Hydra checks a config against and the objects that
the rest of the program receives. Defaults live in `conf/`, one YAML per choice; a rule about a
value lives in the field that holds it (`key`), a rule about several values in `_check_together`.
This module knows nothing of torch, files or processes.
"""

import hashlib
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import reduce
from operator import getitem
from typing import Any, ClassVar

from omegaconf import DictConfig, OmegaConf
from omegaconf.errors import OmegaConfBaseException

from src.rules import SpecError, check_fields, check_keys, key

DTYPES = ("float32", "bfloat16", "float16", "float64")
BACKENDS = ("inductor", "cudagraphs", "aot_eager", "eager", "none")
MODES = ("default", "reduce-overhead", "max-autotune", "max-autotune-no-cudagraphs")
ARMS = ("eager", "compiled", "eager_after_compile")
OBJECTIVES = ("compiled_us", "eager_us", "speedup", "recompiles", "compile_s")


@dataclass
class ModelSpec:
    """A stack of square linear layers; only its parameters matter to an optimizer step."""

    name: str = key("name of the choice in conf/model", pattern=r"[A-Za-z0-9_.-]+")
    width: int = key("rows and columns of each weight matrix", at_least=1, below=2**31)
    depth: int = key("number of linear layers", at_least=1, below=2**31)
    bias: bool = key("whether each layer also has a bias vector")
    dtype: str = key("dtype of parameters and gradients", choices=DTYPES)


@dataclass
class OptimizerSpec:
    """What every optimizer choice has; each optimizer adds the arguments torch gives it."""

    torch_class: ClassVar[str]
    name: str = key("name of the choice in conf/optimizer")
    lr: float = key("learning rate", at_least=0)

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the torch class, without those left to torch."""
        return {k: v for k, v in asdict(self).items() if k != "name" and v is not None}


@dataclass
class AdamSpec(OptimizerSpec):
    """`torch.optim.Adam`."""

    torch_class: ClassVar[str] = "Adam"
    betas: list[float] = key("decay of the running averages", at_least=0, below=1, length=2)
    eps: float = key("term added to the denominator", at_least=0)
    weight_decay: float = key("weight decay", at_least=0)
    amsgrad: bool = key("keep the maximum of the second moment")
    maximize: bool = key("maximize instead of minimize")
    foreach: bool | None = key("multi-tensor implementation; null leaves the choice to torch")
    fused: bool | None = key("fused implementation; null leaves the choice to torch")
    capturable: bool = key("safe to capture in a CUDA graph when run eagerly")


@dataclass
class AdamWSpec(AdamSpec):
    """`torch.optim.AdamW`."""

    torch_class: ClassVar[str] = "AdamW"


@dataclass
class SGDSpec(OptimizerSpec):
    """`torch.optim.SGD`."""

    torch_class: ClassVar[str] = "SGD"
    momentum: float = key("momentum factor", at_least=0)
    dampening: float = key("dampening of the momentum")
    weight_decay: float = key("weight decay", at_least=0)
    nesterov: bool = key("Nesterov momentum")
    maximize: bool = key("maximize instead of minimize")
    foreach: bool | None = key("multi-tensor implementation; null leaves the choice to torch")
    fused: bool | None = key("fused implementation; null leaves the choice to torch")


@dataclass
class SchedulerSpec:
    """What every learning rate scheduler choice has."""

    torch_class: ClassVar[str | None]
    name: str = key("name of the choice in conf/scheduler")

    def arguments(self) -> dict[str, Any]:
        """Return the keyword arguments of the torch class."""
        return {k: v for k, v in asdict(self).items() if k != "name"}


@dataclass
class NoSchedulerSpec(SchedulerSpec):
    """No scheduler: the learning rate stays."""

    torch_class: ClassVar[str | None] = None


@dataclass
class LinearSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.LinearLR`."""

    torch_class: ClassVar[str | None] = "LinearLR"
    start_factor: float = key("first factor of the learning rate", above=0)
    end_factor: float = key("last factor of the learning rate", at_least=0)
    total_iters: int = key("steps from the first factor to the last", at_least=1)


@dataclass
class StepSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.StepLR`."""

    torch_class: ClassVar[str | None] = "StepLR"
    step_size: int = key("steps between two changes", at_least=1)
    gamma: float = key("factor of each change", above=0)


@dataclass
class CosineSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.CosineAnnealingLR`."""

    torch_class: ClassVar[str | None] = "CosineAnnealingLR"
    T_max: int = key("steps to the minimum", at_least=1)
    eta_min: float = key("lowest learning rate", at_least=0)


@dataclass
class CompileSpec:
    """How the compiled arm is compiled: the arguments of `torch.compile`, and the cache."""

    backend: str = key(
        "backend of torch.compile; none compiles nothing, so that two eager arms show the noise",
        choices=BACKENDS,
    )
    mode: str = key("mode of torch.compile", choices=MODES)
    fullgraph: bool = key("fail on a graph break")
    dynamic: bool | None = key("dynamic shapes; null leaves the choice to torch")
    cache: str = key("on-disk compile cache at the start of the run", choices=("cold", "warm"))
    keep_cache: bool = key("keep a cold run's compile cache instead of deleting it")


@dataclass
class MeasureSpec:
    """How long and how precisely a run is traced and timed."""

    name: str = key("name of the choice in conf/measure", pattern=r"[A-Za-z0-9_.-]+")
    arms: list[str] = key("ways of taking the step that are timed", choices=ARMS)
    trace_steps: int = key("steps of the trace, in which recompiles are counted", at_least=1)
    warm_up_steps: int = key("steps of every arm before it is timed", at_least=0)
    warm_up_seconds: float = key("the warm-up of an arm ends after this, few steps or not", above=0)
    max_compiling_blocks: int = key(
        "blocks of warm-up with a compilation after which an arm counts as recompiling", at_least=1
    )
    min_block_seconds: float = key("shortest timed block", above=0)
    min_rounds: int = key("fewest timed rounds; a 95 % interval of a median needs 6", at_least=6)
    max_seconds: float = key("timing of all arms ends after this many seconds", above=0)
    target_relative_width: float = key(
        "timing ends when the 95 % interval of the speedup is narrower than this part of it",
        above=0,
    )
    min_effect: float = key("a speedup closer to 1 than this part is no difference", at_least=0)


@dataclass
class LimitsSpec:
    """What a run may use before it is ended."""

    run_seconds: float = key("a run is ended after this many seconds", above=0, below=1e9)


@dataclass
class GateSpec:
    """Optional demands on the result."""

    min_speedup: float | None = key("a measured speedup below this fails the gate", above=0)


@dataclass
class PublishedSpec:
    """A published pair of times to print beside ours."""

    label: str = key("what was published")
    eager_us: float | None = key("published time of an eager step in us", above=0)
    compiled_us: float | None = key("published time of a compiled step in us", above=0)
    recompiles: int | None = key("published number of recompiles", at_least=0)
    hardware: str = key("hardware and versions of the publication, as far as stated")
    source: str = key("where it was published")


@dataclass
class ExperimentSpec:
    """The preset a run belongs to, and what was published about it."""

    name: str | None = key("name of the preset in experiments/", pattern=r"[A-Za-z0-9_.-]+")
    title: str | None = key("title of its table")
    published: list[PublishedSpec] = key("published values")


@dataclass
class RunSpec:
    """One run, whole."""

    model: ModelSpec
    optimizer: OptimizerSpec
    scheduler: SchedulerSpec
    compile: CompileSpec
    measure: MeasureSpec
    limits: LimitsSpec
    gate: GateSpec
    experiment: ExperimentSpec
    lr_as_tensor: bool = key("hold the learning rate in a 0-d tensor, in every arm")
    lr_device: str = key("device of the learning rate tensor", choices=("cpu", "cuda"))
    device: str = key("device of the parameters", choices=("auto", "cpu", "cuda"))
    threads: int | None = key("CPU threads of torch; null leaves torch's default", at_least=1, below=2**16)
    seed: int = key("seed of parameters and gradients", at_least=0, below=2**63)
    objective: str = key("number a sweeper such as Optuna receives", choices=OBJECTIVES)
    sweep_id: str = key("name of the sweep", pattern=r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
    output_dir: str = key("folder of rows, logs and caches", pattern=r".+")

    def run_key(self) -> str:
        """Return the 12 hex digits that name what is measured, whatever it is called or stored."""
        plain = asdict(self)
        for dotted in NOT_MEASURED:
            *groups, name = dotted.split(".")
            del reduce(getitem, groups, plain)[name]
        text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
        return hashlib.sha256(text.encode()).hexdigest()[:12]

    def to_json(self) -> str:
        """Return the whole configuration as one JSON object."""
        return json.dumps(asdict(self), separators=(",", ":"), ensure_ascii=False)


NOT_MEASURED = (
    *("limits", "gate", "experiment", "objective", "sweep_id", "output_dir"),
    *("model.name", "measure.name", "compile.keep_cache"),
)
"""Keys of `RunSpec` that do not change what is measured, and so are no part of the run key."""

OPTIMIZERS: dict[str, type[OptimizerSpec]] = {"adam": AdamSpec, "adamw": AdamWSpec, "sgd": SGDSpec}
SCHEDULERS: dict[str, type[SchedulerSpec]] = {
    "none": NoSchedulerSpec,
    "linear": LinearSpec,
    "step": StepSpec,
    "cosine": CosineSpec,
}


def from_config(config: DictConfig) -> RunSpec:
    """Turn a composed Hydra config into a checked `RunSpec`.

    Raises:
        SpecError: a key is unknown, missing or null, or a value breaks a rule. The message has
            the dotted key, the rule and what came.
    """
    spec = _to_object(config)
    check_fields(spec)
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
    _check_choice_name("optimizer.name", spec.optimizer, OPTIMIZERS)
    _check_choice_name("scheduler.name", spec.scheduler, SCHEDULERS)
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
    if spec.lr_as_tensor and spec.lr_device == "cuda" and spec.device == "cpu":
        raise SpecError("lr_device must be cpu with device=cpu: got cuda")
    optimizer = spec.optimizer
    if getattr(optimizer, "foreach", None) and getattr(optimizer, "fused", None):
        raise SpecError("optimizer.foreach and optimizer.fused must not both be true")
    if not isinstance(optimizer, SGDSpec) or not optimizer.nesterov:
        return
    if optimizer.momentum == 0 or optimizer.dampening != 0:
        raise SpecError(
            "optimizer.nesterov needs optimizer.momentum above 0 and optimizer.dampening 0: "
            f"got {optimizer.momentum} and {optimizer.dampening}"
        )


def _check_choice_name(dotted: str, node: Any, choices: Mapping[str, type]) -> None:
    if type(node) is not choices.get(node.name):
        group = dotted.removesuffix(".name")
        raise SpecError(f"{dotted} must not be changed, choose {group}=NAME: got {node.name!r}")
