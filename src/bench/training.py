"""A whole training step: module, batch, loss, optimizer, scheduler and gradient scaler of one arm.

The batch is random and fixed: what is measured is the step, not the loading of data. What the model takes
is read off its first layer (an embedding takes tokens, a convolution images, a linear layer features);
what it is to predict, off the shape of what it returns.
"""

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F  # noqa: N812  # as everyone calls it
from torch import nn
from torch.optim import Optimizer

from src.bench import modules
from src.bench.refusal import Unsupported
from src.rules import SpecError
from src.spec import RunSpec
from src.workloads import TrainStepSpec

AMP_DTYPES = {"bf16": torch.bfloat16, "fp16": torch.float16}

Compile = Callable[[Callable[..., Any]], Callable[..., Any]]
"""Compiles what it is given."""

Update = Callable[[], None]
"""Takes the optimizer's step and the scheduler's."""


class Batch(NamedTuple):
    """What a step trains on."""

    inputs: torch.Tensor
    """Images `(batch, channels, height, width)`, tokens `(batch, length)` or features `(batch, width)`."""
    targets: torch.Tensor
    """The class of each sample, or the token of each place."""


@dataclass(frozen=True)
class Pieces:
    """A step in pieces, for those who look at one of them; one after the other they are a step."""

    forward: Callable[[], Any]
    """Runs the model, under autocast if there is any, and returns what it returns."""
    loss: Callable[[Any], torch.Tensor]
    """Returns the loss of that."""
    backward: Callable[[torch.Tensor], None]
    update: Update
    clear: Callable[[], None]


@dataclass(frozen=True)
class Training:
    """The objects of one arm's training step besides its optimizer and scheduler."""

    module: nn.Module
    batch: Batch
    amp: torch.dtype | None
    """What mixed precision computes in; None without."""
    scaler: Any | None
    """The gradient scaler of fp16."""
    optimizer: Optimizer
    _update: Update
    _autocast: Callable[[], contextlib.AbstractContextManager[Any]]
    _set_to_none: bool

    def step(self, compile_: Compile | None = None, target: str = "step") -> Callable[[], torch.Tensor]:
        """Return the step, a function that returns the loss.

        Args:
            compile_: compiles a function or a module; None leaves the step eager.
            target: what of the step is compiled, one of `workloads.TARGETS`.
        """
        whole = self._step(*self._parts(compile_, target))
        return compile_(whole) if compile_ is not None and target == "step" else whole

    def pieces(self, compile_: Compile | None = None, target: str = "step") -> Pieces:
        """Return the pieces of such a step; with target `step` they are eager."""
        model, update = self._parts(compile_, target)
        inputs, targets = self.batch.inputs, self.batch.targets

        def forward() -> Any:
            with self._autocast():
                return model(inputs)

        def loss(outputs: Any) -> torch.Tensor:
            with self._autocast():
                return loss_of(outputs, targets)

        def backward(loss: torch.Tensor) -> None:
            (loss if self.scaler is None else self.scaler.scale(loss)).backward()

        def clear() -> None:
            self.optimizer.zero_grad(set_to_none=self._set_to_none)

        return Pieces(forward, loss, backward, update, clear)

    def _parts(self, compile_: Compile | None, target: str) -> tuple[Callable[..., Any], Update]:
        """Return the model and the update, compiled if they are the target."""
        model: Callable[..., Any] = self.module
        update = self._update
        if compile_ is not None and target in ("model", "model_and_optimizer"):
            model = compile_(model)
        if compile_ is not None and target in ("optimizer", "model_and_optimizer"):
            update = compile_(update)
        return _beginning_a_step(model) if target == "model_and_optimizer" else model, update

    def _step(self, model: Callable[..., Any], update: Update) -> Callable[[], torch.Tensor]:
        """Return the step of these parts: this very code is compiled, as plain as a user's own loop."""
        inputs, targets, optimizer = self.batch.inputs, self.batch.targets, self.optimizer
        autocast, scaler, set_to_none = self._autocast, self.scaler, self._set_to_none
        if scaler is None:

            def step() -> torch.Tensor:
                with autocast():
                    loss = loss_of(model(inputs), targets)
                loss.backward()  # type: ignore[no-untyped-call]
                update()
                optimizer.zero_grad(set_to_none=set_to_none)
                return loss
        else:

            def step() -> torch.Tensor:
                with autocast():
                    loss = loss_of(model(inputs), targets)
                scaler.scale(loss).backward()
                update()
                optimizer.zero_grad(set_to_none=set_to_none)
                return loss

        return step


def _beginning_a_step(model: Callable[..., Any]) -> Callable[..., Any]:
    """Return a model that tells CUDA graphs that a step begins with it.

    Otherwise the compiled optimizer's call begins one, and the gradients, which the model's graphs hold, may
    be overwritten before it has read them: torch raises an error that asks for this call.
    """

    def begin(inputs: torch.Tensor) -> Any:
        torch.compiler.cudagraph_mark_step_begin()  # type: ignore[no-untyped-call]
        return model(inputs)

    return begin


def loss_of(outputs: Any, targets: torch.Tensor) -> torch.Tensor:
    """Return the cross entropy of what a model returned, in its dtype; autocast takes it in float32."""
    logits = logits_of(outputs)
    return F.cross_entropy(logits.reshape(-1, logits.shape[-1]), targets.reshape(-1))


def logits_of(outputs: Any) -> torch.Tensor:
    """Return the logits among what a model returned: itself, or its attribute `logits`."""
    return outputs if isinstance(outputs, torch.Tensor) else outputs.logits


def batch(spec: RunSpec, module: nn.Module, device: torch.device) -> Batch:
    """Return inputs and targets, the same for the same seed and device.

    Raises:
        SpecError: the model takes, or returns, something that no batch can be made for.
    """
    training = _training(spec)
    generator = torch.Generator(device).manual_seed(spec.seed)
    shape, tokens = _inputs(training, module)
    size = (training.batch_size, *shape)
    if tokens is not None:
        inputs = torch.randint(tokens, size, generator=generator, device=device)
    else:
        dtype = getattr(torch, spec.model.dtype)
        inputs = torch.randn(size, generator=generator, device=device).to(dtype)
    if training.channels_last:
        if inputs.dim() != 4:
            raise SpecError(
                "workload.channels_last must be false with a model that takes no images: got true"
            )
        inputs = inputs.to(memory_format=torch.channels_last)
    where, classes = _outputs(spec, module, inputs[:1])
    targets = torch.randint(classes, (training.batch_size, *where), generator=generator, device=device)
    return Batch(inputs, targets)


def _inputs(training: TrainStepSpec, module: nn.Module) -> tuple[tuple[int, ...], int | None]:
    """Return the shape of a sample, and of how many tokens it is made where it is made of tokens."""
    for part in module.modules():
        if isinstance(part, nn.Embedding):
            return (training.sequence_length,), part.num_embeddings
        if isinstance(part, nn.Conv2d):
            return (part.in_channels, training.image_size, training.image_size), None
        if isinstance(part, nn.Linear):
            return (part.in_features,), None
    raise SpecError(
        f"model._target_ must make a module with an Embedding, a Conv2d or a Linear layer, whose first one "
        f"tells what it takes: got a {type(module).__name__}"
    )


def _outputs(spec: RunSpec, module: nn.Module, sample: torch.Tensor) -> tuple[tuple[int, ...], int]:
    """Return the shape of a sample's targets, and of how many classes each is one.

    The model is asked in evaluation mode, in which it draws no random numbers and keeps its buffers.
    """
    module.eval()
    with torch.no_grad():
        outputs = module(sample)
    module.train()
    if not isinstance(outputs, torch.Tensor) and not isinstance(
        getattr(outputs, "logits", None), torch.Tensor
    ):
        raise SpecError(
            f"model={spec.model.name} must return logits, as a tensor or as its attribute logits: "
            f"got a {type(outputs).__name__}"
        )
    logits = logits_of(outputs)
    if logits.dim() not in (2, 3):
        raise SpecError(
            f"model={spec.model.name} must return logits (batch, classes) or (batch, length, classes): "
            f"got {tuple(logits.shape)}"
        )
    return tuple(logits.shape[1:-1]), logits.shape[-1]


def build(
    spec: RunSpec,
    device: torch.device,
    update_of: Callable[[nn.Module, Any | None], tuple[Optimizer, Update]],
    *,
    reference: bool,
) -> Training:
    """Return the training step of one arm, or of the reference: in float64, without mixed precision.

    Args:
        spec: what was asked for.
        device: where it runs.
        update_of: makes of a module, and of the gradient scaler where there is one, the optimizer and what
            takes its step and the scheduler's.
        reference: whether it is the reference.

    Raises:
        Unsupported, SpecError: as `modules.make` and `batch` do; or mixed precision does not work here.
    """
    training = _training(spec)
    module = modules.make(spec, device)
    if training.channels_last:
        module = module.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    made = batch(spec, module, device)
    if reference:
        module = module.double()
        wide = made.inputs.double() if made.inputs.is_floating_point() else made.inputs
        made = Batch(wide, made.targets)
    dtype = None if reference else AMP_DTYPES.get(training.amp)
    if dtype is not None:
        check_amp(device, dtype)
    scaler = torch.amp.GradScaler(device.type) if dtype is torch.float16 else None
    optimizer, update = update_of(module, scaler)
    autocast = _autocast(device, dtype)
    return Training(module, made, dtype, scaler, optimizer, update, autocast, training.set_to_none)


def _autocast(
    device: torch.device, dtype: torch.dtype | None
) -> Callable[[], contextlib.AbstractContextManager[Any]]:
    if dtype is None:
        return contextlib.nullcontext
    return lambda: torch.autocast(device.type, dtype=dtype)


def check_amp(device: torch.device, dtype: torch.dtype) -> None:
    """Check that autocast computes in a dtype here: torch says so by a warning, and goes on without.

    Raises:
        Unsupported: it does not.
    """
    name = {d: n for n, d in AMP_DTYPES.items()}[dtype]
    try:
        with torch.autocast(device.type, dtype=dtype):
            values = torch.ones(1, 1, 8, 8, device=device, requires_grad=True)
            given = F.conv2d(values, torch.ones(1, 1, 3, 3, device=device))
        given.sum().backward()  # type: ignore[no-untyped-call]
    except RuntimeError as error:
        raise Unsupported(
            f"workload.amp={name} does not work on {device.type}: {str(error).splitlines()[0]}"
        ) from error
    if given.dtype != dtype:
        raise Unsupported(
            f"workload.amp={name}: torch {torch.__version__} has no such autocast on {device.type}"
        )


def _training(spec: RunSpec) -> TrainStepSpec:
    assert spec.training is not None  # noqa: S101  # for the type checker
    return spec.training
