"""The optimizers that can be chosen: the arguments of each, typed and checked.

One class per choice in `conf/optimizer`; an argument is called what torch calls it. Which values
torch refuses is read off the constructors in torch/optim of torch 2.9 to 2.13.
"""

from dataclasses import dataclass, replace
from typing import Any, ClassVar, Self

from src.choices import DOTTED_PATH, ChoiceSpec, with_tuples
from src.rules import SpecError, key

IMPLEMENTATIONS = {
    "forloop": {"foreach": False, "fused": False},
    "foreach": {"foreach": True, "fused": False},
    "fused": {"foreach": False, "fused": True},
}
"""Arguments of torch.optim that ask for each of `vocabulary.EAGER_PATHS`."""


@dataclass
class OptimizerSpec(ChoiceSpec):
    """What every optimizer choice has; each optimizer adds the arguments torch gives it."""

    torch_class: ClassVar[str | None]
    """Name in `torch.optim`; None for a class of the user's own."""
    needs_closure: ClassVar[bool] = False
    """Whether `step` takes a function that computes the loss anew."""
    sparse_gradients: ClassVar[bool] = False
    """Whether it takes sparse gradients, and no others."""
    matrices_alone: ClassVar[bool] = False
    """Whether it refuses parameters that are no matrices."""
    multiplies_matrices: ClassVar[bool] = False
    """Whether its step multiplies matrices: it may then be limited by arithmetic."""
    states: ClassVar[int | None] = None
    """`full_size_states` where no argument changes it."""

    lr: float = key("learning rate", at_least=0)

    def check(self, path: str) -> None:
        """Check that at most one implementation is asked for."""
        if getattr(self, "foreach", None) and getattr(self, "fused", None):
            raise SpecError(f"{path}.foreach and {path}.fused must not both be true")

    def implementing(self, name: str) -> Self:
        """Return the same optimizer asked for one of `IMPLEMENTATIONS`, by those flags that it has."""
        flags: dict[str, Any] = {
            flag: on for flag, on in IMPLEMENTATIONS[name].items() if hasattr(self, flag)
        }
        return replace(self, **flags)

    def full_size_states(self) -> int | None:
        """Return how many tensors of a parameter's size it keeps of each parameter, after some steps.

        None where the least that a step must read and write does not follow from it: LBFGS, sparse
        gradients, a class of the user's own. Of Adafactor, what it keeps of a matrix: none.
        """
        return self.states


@dataclass
class _Betas:
    betas: list[float] = key("decay of the running averages", at_least=0, below=1, length=2)


@dataclass
class _Eps:
    eps: float = key("term added to the denominator", at_least=0)


@dataclass
class _WeightDecay:
    weight_decay: float = key("weight decay", at_least=0)


@dataclass
class _Decoupled:
    decoupled_weight_decay: bool = key("decay the weights directly, as AdamW, not through the gradient")


@dataclass
class _Maximize:
    maximize: bool = key("maximize instead of minimize")


@dataclass
class _Foreach:
    foreach: bool | None = key("multi-tensor implementation; null leaves the choice to torch")


@dataclass
class _Fused:
    fused: bool | None = key("fused implementation; null leaves the choice to torch")


@dataclass
class _Capturable:
    capturable: bool = key("safe to capture in a CUDA graph when run eagerly")


@dataclass
class _Differentiable:
    differentiable: bool = key("let autograd record the step")


@dataclass
class _MomentArguments(
    _Differentiable,
    _Capturable,
    _Foreach,
    _Maximize,
    _WeightDecay,
    _Eps,
    _Betas,
    OptimizerSpec,
):
    """What every optimizer with two moments has."""

    states: ClassVar[int | None] = 2


@dataclass
class AdadeltaSpec(_Differentiable, _Capturable, _Foreach, _Maximize, _WeightDecay, _Eps, OptimizerSpec):
    """`torch.optim.Adadelta`."""

    torch_class: ClassVar[str | None] = "Adadelta"
    states: ClassVar[int | None] = 2
    rho: float = key("decay of the running averages", at_least=0, at_most=1)


@dataclass
class AdafactorSpec(_Foreach, _Maximize, _WeightDecay, OptimizerSpec):
    """`torch.optim.Adafactor`."""

    torch_class: ClassVar[str | None] = "Adafactor"
    states: ClassVar[int | None] = 0
    beta2_decay: float = key("exponent of the decay of the second moment", at_most=0)
    eps: list[float | None] = key(
        "terms for the squared gradient (null: that of the dtype) and for the step size",
        at_least=0,
        length=2,
    )
    d: float = key("clipping threshold of the update", at_least=1)

    def check(self, path: str) -> None:
        """Check that the second term is a number: only the first may be left to torch."""
        super().check(path)
        if self.eps[1] is None:
            raise SpecError(f"{path}.eps must have a number as its second item: got {self.eps}")


@dataclass
class AdagradSpec(_Fused, _Differentiable, _Foreach, _Maximize, _WeightDecay, _Eps, OptimizerSpec):
    """`torch.optim.Adagrad`."""

    torch_class: ClassVar[str | None] = "Adagrad"
    states: ClassVar[int | None] = 1
    lr_decay: float = key("decay of the learning rate", at_least=0)
    initial_accumulator_value: float = key("first sum of squares", at_least=0)


@dataclass
class _AdamArguments(_Fused, _MomentArguments):
    amsgrad: bool = key("keep the maximum of the second moment")

    def full_size_states(self) -> int:
        """Return how many states there are: both moments, and the maximum of the second."""
        return 2 + self.amsgrad


@dataclass
class AdamSpec(_Decoupled, _AdamArguments):
    """`torch.optim.Adam`."""

    torch_class: ClassVar[str | None] = "Adam"


@dataclass
class AdamWSpec(_AdamArguments):
    """`torch.optim.AdamW`."""

    torch_class: ClassVar[str | None] = "AdamW"


@dataclass
class AdamaxSpec(_MomentArguments):
    """`torch.optim.Adamax`."""

    torch_class: ClassVar[str | None] = "Adamax"


@dataclass
class ASGDSpec(_Differentiable, _Capturable, _Foreach, _Maximize, _WeightDecay, OptimizerSpec):
    """`torch.optim.ASGD`."""

    torch_class: ClassVar[str | None] = "ASGD"
    states: ClassVar[int | None] = 1
    lambd: float = key("decay term")
    alpha: float = key("power of the decay of the learning rate")
    t0: float = key("step at which averaging starts")


@dataclass
class LBFGSSpec(OptimizerSpec):
    """`torch.optim.LBFGS`."""

    torch_class: ClassVar[str | None] = "LBFGS"
    needs_closure: ClassVar[bool] = True
    max_iter: int = key("most iterations of a step", at_least=1)
    max_eval: int | None = key("most evaluations of a step; null leaves the choice to torch", at_least=1)
    tolerance_grad: float = key("a step ends at a gradient below this", at_least=0)
    tolerance_change: float = key("a step ends at a change below this", at_least=0)
    history_size: int = key("updates that are remembered", at_least=1)
    line_search_fn: str | None = key("line search; null takes fixed steps", choices=("strong_wolfe",))


@dataclass
class MuonSpec(_WeightDecay, _Eps, OptimizerSpec):
    """`torch.optim.Muon`, which takes matrices alone."""

    torch_class: ClassVar[str | None] = "Muon"
    states: ClassVar[int | None] = 1
    matrices_alone: ClassVar[bool] = True
    multiplies_matrices: ClassVar[bool] = True
    momentum: float = key("momentum factor", at_least=0)
    nesterov: bool = key("Nesterov momentum")
    ns_coefficients: list[float] = key("coefficients of the Newton-Schulz iteration", length=3)
    ns_steps: int = key("Newton-Schulz iterations of a step", at_least=1, below=100)
    adjust_lr_fn: str | None = key(
        "how the learning rate follows the shape; null is original",
        choices=("original", "match_rms_adamw"),
    )


@dataclass
class NAdamSpec(_Decoupled, _MomentArguments):
    """`torch.optim.NAdam`."""

    torch_class: ClassVar[str | None] = "NAdam"
    momentum_decay: float = key("decay of the momentum", at_least=0)


@dataclass
class RAdamSpec(_Decoupled, _MomentArguments):
    """`torch.optim.RAdam`."""

    torch_class: ClassVar[str | None] = "RAdam"


@dataclass
class RMSpropSpec(_Differentiable, _Capturable, _Foreach, _Maximize, _WeightDecay, _Eps, OptimizerSpec):
    """`torch.optim.RMSprop`."""

    torch_class: ClassVar[str | None] = "RMSprop"
    alpha: float = key("decay of the running average", at_least=0)
    momentum: float = key("momentum factor", at_least=0)
    centered: bool = key("divide by the estimated variance")

    def full_size_states(self) -> int:
        """Return how many states there are: the squares, the mean if centered, and the momentum."""
        return 1 + self.centered + (self.momentum > 0)


@dataclass
class RpropSpec(_Differentiable, _Capturable, _Foreach, _Maximize, OptimizerSpec):
    """`torch.optim.Rprop`."""

    torch_class: ClassVar[str | None] = "Rprop"
    states: ClassVar[int | None] = 2
    etas: list[float] = key("factors that shrink and grow a step", above=0, length=2)
    step_sizes: list[float] = key("smallest and largest step", at_least=0, length=2)

    def check(self, path: str) -> None:
        """Check that the first factor shrinks and the second grows."""
        super().check(path)
        if not self.etas[0] < 1 < self.etas[1]:
            raise SpecError(f"{path}.etas must be one number below 1 and one above: got {self.etas}")


@dataclass
class SGDSpec(_Fused, _Differentiable, _Foreach, _Maximize, _WeightDecay, OptimizerSpec):
    """`torch.optim.SGD`."""

    torch_class: ClassVar[str | None] = "SGD"
    momentum: float = key("momentum factor", at_least=0)
    dampening: float = key("dampening of the momentum")
    nesterov: bool = key("Nesterov momentum")

    def full_size_states(self) -> int:
        """Return how many states there are: the momentum, if there is one."""
        return int(self.momentum != 0)

    def check(self, path: str) -> None:
        """Check what Nesterov momentum needs."""
        super().check(path)
        if self.nesterov and (self.momentum == 0 or self.dampening != 0):
            raise SpecError(
                f"{path}.nesterov needs {path}.momentum above 0 and {path}.dampening 0: "
                f"got {self.momentum} and {self.dampening}"
            )


@dataclass
class SparseAdamSpec(_Maximize, _Eps, _Betas, OptimizerSpec):
    """`torch.optim.SparseAdam`, which takes sparse gradients alone."""

    torch_class: ClassVar[str | None] = "SparseAdam"
    sparse_gradients: ClassVar[bool] = True


@dataclass
class CustomOptimizerSpec(OptimizerSpec):
    """A class of the user's own: called with the parameters, `lr`, and its own arguments."""

    torch_class: ClassVar[str | None] = None
    _target_: str = key("dotted path of the class", pattern=DOTTED_PATH)
    arguments: dict[str, Any] = key("arguments of the class besides lr")
    needs_closure: bool = key("whether step takes a function that computes the loss anew")  # type: ignore[misc]

    def keywords(self) -> dict[str, Any]:
        """Return `lr` and the user's own arguments; lists as tuples."""
        return {"lr": self.lr} | with_tuples(self.arguments)

    def described(self) -> dict[str, Any]:
        """Return the class and its arguments."""
        return {"_target_": self._target_} | self.keywords()

    def check(self, path: str) -> None:
        """Check that `lr` is given in one place."""
        if "lr" in self.arguments:
            raise SpecError(f"{path}.arguments must not have lr, set {path}.lr: got {self.arguments['lr']!r}")


OPTIMIZERS: dict[str, type[OptimizerSpec]] = {
    "adadelta": AdadeltaSpec,
    "adafactor": AdafactorSpec,
    "adagrad": AdagradSpec,
    "adam": AdamSpec,
    "adamax": AdamaxSpec,
    "adamw": AdamWSpec,
    "asgd": ASGDSpec,
    "lbfgs": LBFGSSpec,
    "muon": MuonSpec,
    "nadam": NAdamSpec,
    "radam": RAdamSpec,
    "rmsprop": RMSpropSpec,
    "rprop": RpropSpec,
    "sgd": SGDSpec,
    "sgd_momentum": SGDSpec,
    "sparseadam": SparseAdamSpec,
    "custom": CustomOptimizerSpec,
}
"""The class of each file in `conf/optimizer`."""
