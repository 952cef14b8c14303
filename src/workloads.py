"""What a step consists of: the optimizer's alone, or a whole training step; the keys of each."""

from dataclasses import dataclass
from typing import ClassVar

from src.rules import key

AMPS = ("none", "bf16", "fp16")

TARGETS = ("model", "optimizer", "model_and_optimizer", "step")
"""What `torch.compile` is given: the model; optimizer and scheduler; both, each by itself; the whole step."""


@dataclass
class WorkloadSpec:
    """An optimizer step, with its scheduler's: parameters and gradients are given."""

    target: ClassVar[str] = "step"
    """What is compiled unless `compile.target` says otherwise."""
    name: str = key("name of the choice in conf/workload", pattern=r"[A-Za-z0-9_.-]+")


@dataclass
class TrainStepSpec(WorkloadSpec):
    """A training step on one fixed batch: forward, loss, backward, optimizer, scheduler, zero_grad."""

    target: ClassVar[str] = "model"
    batch_size: int = key("samples in a batch", at_least=1, below=2**31)
    amp: str = key("automatic mixed precision; fp16 with a gradient scaler", choices=AMPS)
    channels_last: bool = key("memory format channels_last of model and images")
    image_size: int = key("height and width of images, for a model that takes images", at_least=1)
    sequence_length: int = key("tokens of a sample, for a model that takes tokens", at_least=1)
    set_to_none: bool = key("set_to_none of zero_grad; false writes zeros into the gradients")


WORKLOADS: dict[str, type[WorkloadSpec]] = {"optimizer_step": WorkloadSpec, "train_step": TrainStepSpec}
"""The class of each file in `conf/workload`."""
