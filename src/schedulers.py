"""The learning rate schedulers that can be chosen: the arguments of each, typed and checked.

One class per choice in `conf/scheduler`; an argument is called what torch calls it. Which values
torch refuses is read off torch/optim/lr_scheduler.py of torch 2.9 to 2.13.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from src.choices import DOTTED_PATH, ChoiceSpec, with_tuples
from src.rules import SpecError, key


@dataclass
class SchedulerSpec(ChoiceSpec):
    """What every scheduler choice has; each scheduler adds the arguments torch gives it."""

    torch_class: ClassVar[str | None]
    """Name in `torch.optim.lr_scheduler` or `.swa_utils`; None for none, or a class of the user's own."""


@dataclass
class NoSchedulerSpec(SchedulerSpec):
    """No scheduler: the learning rate stays."""

    torch_class: ClassVar[str | None] = None


@dataclass
class ConstantSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.ConstantLR`."""

    torch_class: ClassVar[str | None] = "ConstantLR"
    factor: float = key("factor of the learning rate", at_least=0, at_most=1)
    total_iters: int = key("steps with the factor", at_least=1)


@dataclass
class LinearSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.LinearLR`."""

    torch_class: ClassVar[str | None] = "LinearLR"
    start_factor: float = key("first factor of the learning rate", above=0, at_most=1)
    end_factor: float = key("last factor of the learning rate", at_least=0, at_most=1)
    total_iters: int = key("steps from the first factor to the last", at_least=1)


@dataclass
class StepSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.StepLR`."""

    torch_class: ClassVar[str | None] = "StepLR"
    step_size: int = key("steps between two changes", at_least=1)
    gamma: float = key("factor of each change", above=0)


@dataclass
class MultiStepSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.MultiStepLR`."""

    torch_class: ClassVar[str | None] = "MultiStepLR"
    milestones: list[int] = key("steps at which the learning rate changes", at_least=0)
    gamma: float = key("factor of each change", above=0)


@dataclass
class ExponentialSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.ExponentialLR`."""

    torch_class: ClassVar[str | None] = "ExponentialLR"
    gamma: float = key("factor of every step", above=0)


@dataclass
class PolynomialSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.PolynomialLR`."""

    torch_class: ClassVar[str | None] = "PolynomialLR"
    total_iters: int = key("steps to 0", at_least=1)
    power: float = key("power of the polynomial", at_least=0)


@dataclass
class CosineSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.CosineAnnealingLR`."""

    torch_class: ClassVar[str | None] = "CosineAnnealingLR"
    T_max: int = key("steps to the minimum", at_least=1)
    eta_min: float = key("lowest learning rate", at_least=0)


@dataclass
class CosineRestartsSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.CosineAnnealingWarmRestarts`."""

    torch_class: ClassVar[str | None] = "CosineAnnealingWarmRestarts"
    T_0: int = key("steps to the first restart", at_least=1)
    T_mult: int = key("factor of the steps from one restart to the next", at_least=1)
    eta_min: float = key("lowest learning rate", at_least=0)


@dataclass
class OneCycleSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.OneCycleLR`, its length in steps."""

    torch_class: ClassVar[str | None] = "OneCycleLR"
    max_lr: float = key("highest learning rate", above=0)
    total_steps: int = key("steps of the cycle", at_least=1)
    pct_start: float = key("part of the cycle in which the learning rate grows", at_least=0, at_most=1)
    anneal_strategy: str = key("shape of the cycle", choices=("cos", "linear"))
    cycle_momentum: bool = key("cycle the momentum, or the first of the betas, as well")
    base_momentum: float = key("lowest momentum", at_least=0)
    max_momentum: float = key("highest momentum", at_least=0)
    div_factor: float = key("max_lr over the first learning rate", above=0)
    final_div_factor: float = key("the first learning rate over the last", above=0)
    three_phase: bool = key("end with a phase of its own")


@dataclass
class CyclicSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.CyclicLR` with one of torch's shapes."""

    torch_class: ClassVar[str | None] = "CyclicLR"
    base_lr: float = key("lowest learning rate", at_least=0)
    max_lr: float = key("highest learning rate", above=0)
    step_size_up: int = key("steps of the growing half", at_least=1)
    step_size_down: int | None = key("steps of the falling half; null: as many", at_least=1)
    mode: str = key("shape of the cycles", choices=("triangular", "triangular2", "exp_range"))
    gamma: float = key("factor of every step with mode=exp_range", above=0)
    cycle_momentum: bool = key("cycle the momentum, or the first of the betas, as well")
    base_momentum: float = key("lowest momentum", at_least=0)
    max_momentum: float = key("highest momentum", at_least=0)


@dataclass
class _FunctionSpec(SchedulerSpec):
    function: str = key("dotted path of a function of the step number", pattern=DOTTED_PATH)

    def keywords(self) -> dict[str, Any]:
        """Return nothing: the path becomes torch's `lr_lambda` where it is imported."""
        return {}

    def described(self) -> dict[str, Any]:
        """Return the function's path."""
        return {"function": self.function}


@dataclass
class LambdaSpec(_FunctionSpec):
    """`torch.optim.lr_scheduler.LambdaLR` with a named function."""

    torch_class: ClassVar[str | None] = "LambdaLR"


@dataclass
class MultiplicativeSpec(_FunctionSpec):
    """`torch.optim.lr_scheduler.MultiplicativeLR` with a named function."""

    torch_class: ClassVar[str | None] = "MultiplicativeLR"


@dataclass
class PlateauSpec(SchedulerSpec):
    """`torch.optim.lr_scheduler.ReduceLROnPlateau`, which gets the same metric at every step."""

    torch_class: ClassVar[str | None] = "ReduceLROnPlateau"
    metric: float = key("metric of every step; as a constant it never improves")
    mode: str = key("whether the metric should fall or grow", choices=("min", "max"))
    factor: float = key("factor of each change", at_least=0, below=1)
    patience: int = key("steps without improvement before a change", at_least=0)
    threshold: float = key("smallest improvement", at_least=0)
    threshold_mode: str = key("how the improvement is measured", choices=("rel", "abs"))
    cooldown: int = key("steps after a change before the next may count", at_least=0)
    min_lr: float = key("lowest learning rate", at_least=0)
    eps: float = key("smallest change of the learning rate", at_least=0)

    def keywords(self) -> dict[str, Any]:
        """Return the arguments without the metric, which is one of `step`."""
        return {k: v for k, v in super().keywords().items() if k != "metric"}

    def described(self) -> dict[str, Any]:
        """Return the arguments and the metric."""
        return self.keywords() | {"metric": self.metric}


@dataclass
class _TwoPartsSpec(SchedulerSpec):
    no_parts: ClassVar[tuple[str, ...]] = ("none", "plateau")
    """Choices that torch cannot combine: `ReduceLROnPlateau` needs a metric."""

    first: SchedulerSpec = key("one part, chosen as scheduler@scheduler.first=NAME")
    second: SchedulerSpec = key("the other part, chosen as scheduler@scheduler.second=NAME")

    def keywords(self) -> dict[str, Any]:
        """Return nothing: the parts are schedulers, made one by one."""
        return {}

    def described(self) -> dict[str, Any]:
        """Return the arguments, and the parts by name and arguments."""
        parts = {"first": self.first, "second": self.second}
        return self.keywords() | {k: {"name": part.name} | part.described() for k, part in parts.items()}

    def check(self, path: str) -> None:
        """Check that torch takes the parts."""
        for name, part in (("first", self.first), ("second", self.second)):
            if part.name in self.no_parts:
                raise SpecError(
                    f"{path}.{name} must be a scheduler that torch can combine: got {part.name}, "
                    f"choose scheduler@{path}.{name}=NAME"
                )


@dataclass
class SequentialSpec(_TwoPartsSpec):
    """`torch.optim.lr_scheduler.SequentialLR` of two schedulers."""

    torch_class: ClassVar[str | None] = "SequentialLR"
    no_parts: ClassVar[tuple[str, ...]] = ("none", "plateau", "chained", "sequential")
    """Composites cannot take the step number that `SequentialLR` gives its parts."""

    milestone: int = key("step at which the second follows", at_least=1)

    def keywords(self) -> dict[str, Any]:
        """Return the milestone as torch has it."""
        return {"milestones": [self.milestone]}


@dataclass
class ChainedSpec(_TwoPartsSpec):
    """`torch.optim.lr_scheduler.ChainedScheduler` of two schedulers."""

    torch_class: ClassVar[str | None] = "ChainedScheduler"


@dataclass
class SWASpec(SchedulerSpec):
    """`torch.optim.swa_utils.SWALR`."""

    torch_class: ClassVar[str | None] = "SWALR"
    swa_lr: float = key("learning rate that is annealed to", at_least=0)
    anneal_epochs: int = key("steps until then", at_least=0)
    anneal_strategy: str = key("shape of the annealing", choices=("cos", "linear"))


@dataclass
class CustomSchedulerSpec(SchedulerSpec):
    """A class of the user's own: called with the optimizer and its own arguments."""

    torch_class: ClassVar[str | None] = None
    _target_: str = key("dotted path of the class", pattern=DOTTED_PATH)
    arguments: dict[str, Any] = key("arguments of the class besides the optimizer")

    def keywords(self) -> dict[str, Any]:
        """Return the user's own arguments; lists as tuples."""
        return with_tuples(self.arguments)

    def described(self) -> dict[str, Any]:
        """Return the class and its arguments."""
        return {"_target_": self._target_} | self.keywords()


SCHEDULERS: dict[str, type[SchedulerSpec]] = {
    "none": NoSchedulerSpec,
    "constant": ConstantSpec,
    "linear": LinearSpec,
    "step": StepSpec,
    "multistep": MultiStepSpec,
    "exponential": ExponentialSpec,
    "polynomial": PolynomialSpec,
    "cosine": CosineSpec,
    "cosine_restarts": CosineRestartsSpec,
    "onecycle": OneCycleSpec,
    "cyclic": CyclicSpec,
    "lambda": LambdaSpec,
    "multiplicative": MultiplicativeSpec,
    "plateau": PlateauSpec,
    "sequential": SequentialSpec,
    "chained": ChainedSpec,
    "swa": SWASpec,
    "custom": CustomSchedulerSpec,
}
"""The class of each file in `conf/scheduler`."""
