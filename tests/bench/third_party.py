"""Optimizers, schedulers and functions such as users bring along: none of them knows stepsweep."""

import math

import torch
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LRScheduler

NOT_CALLABLE = 3


class SignDescent(Optimizer):
    """Steps by the sign of a running average of the gradient, after decaying the weights."""

    def __init__(self, params, lr, *, momentum=0.9, weight_decay=0.0):
        super().__init__(params, {"lr": lr, "momentum": momentum, "weight_decay": weight_decay})

    @torch.no_grad()
    def step(self, closure=None):
        loss = None if closure is None else closure()
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                if not state:
                    state["average"] = torch.zeros_like(p)
                average = state["average"]
                average.mul_(group["momentum"]).add_(p.grad * (1 - group["momentum"]))
                p.mul_(1 - group["lr"] * group["weight_decay"]).sub_(average.sign() * group["lr"])
        return loss


class AdamWithItem(Optimizer):
    """Adam, a function call for each parameter, with the step counter read by `.item()`."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-8):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["step"] = torch.zeros(())
                    state["first"], state["second"] = torch.zeros_like(p), torch.zeros_like(p)
                self.update(p, state, group)

    @staticmethod
    def update(p, state, group):
        beta1, beta2 = group["betas"]
        state["step"] += 1
        step = state["step"].item()
        state["first"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
        state["second"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
        below = (state["second"].sqrt() / math.sqrt(1 - beta2**step)).add_(group["eps"])
        p.addcdiv_(state["first"], below, value=-group["lr"] / (1 - beta1**step))


class DescentWithScalars(Optimizer):
    """Gradient descent whose learning rate meets other Python floats, or goes in as `alpha`."""

    def __init__(self, params, lr, *, alpha=False):
        super().__init__(params, {"lr": lr, "alpha": alpha})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                if group["alpha"]:
                    p.sub_(p.grad, alpha=group["lr"])
                else:
                    p.mul_(1 - 0.5 * group["lr"]).sub_(p.grad * group["lr"])


class CountingDescent(Optimizer):
    """Gradient descent that counts its steps in Python and does something else in the first one."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                state.setdefault("step", 0)
                if state["step"] == 0:
                    state["average"] = p.grad.clone()
                state["step"] += 1
                p.sub_(state["average"] * (group["lr"] / state["step"]))


class Lamb(Optimizer):
    """Adam whose step is scaled by the norms of the parameter and of the step (arXiv:1904.00962)."""

    def __init__(self, params, lr, betas=(0.9, 0.999), eps=1e-6):
        super().__init__(params, {"lr": lr, "betas": betas, "eps": eps})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            beta1, beta2 = group["betas"]
            for p in group["params"]:
                state = self.state[p]
                if not state:
                    state["first"], state["second"] = torch.zeros_like(p), torch.zeros_like(p)
                state["first"].mul_(beta1).add_(p.grad, alpha=1 - beta1)
                state["second"].mul_(beta2).addcmul_(p.grad, p.grad, value=1 - beta2)
                update = state["first"] / (state["second"].sqrt() + group["eps"])
                p.sub_(update * (p.norm() / update.norm()) * group["lr"])


class ThreeBetas(Optimizer):
    """An optimizer with three betas, as Adan has."""

    def __init__(self, params, lr, betas=(0.98, 0.92, 0.99)):
        super().__init__(params, {"lr": lr, "betas": betas})


class FloatRefused(SignDescent):
    """Raises once its learning rate is no longer the tensor that it made of it (ao#2574)."""

    def __init__(self, params, lr):
        super().__init__(params, torch.as_tensor(lr))

    def step(self, closure=None):
        if not all(isinstance(group["lr"], torch.Tensor) for group in self.param_groups):
            raise RuntimeError("lr was changed to a non-Tensor object")
        return super().step(closure)


def adam_with_tensor_betas(params, lr, **arguments):
    """Return torch's Adam with betas in tensors."""
    return torch.optim.Adam(params, lr=lr, betas=(torch.tensor(0.9), torch.tensor(0.999)), **arguments)


class WarmUp(LRScheduler):
    """Grows to the first learning rate in equal parts, and stays there."""

    def __init__(self, optimizer, steps, last_epoch=-1):
        self.steps = steps
        super().__init__(optimizer, last_epoch)

    def get_lr(self):
        part = min(1.0, (self.last_epoch + 1) / self.steps)
        return [base * part for base in self.base_lrs]


class Assigned:
    """Assigns each learning rate of a list in turn, as a number or as a new tensor, as loops by hand do."""

    def __init__(self, optimizer, rates, *, tensor=False):
        self.optimizer, self.rates, self.tensor = optimizer, rates, tensor
        self.step_number = -1
        self.step()

    def step(self):
        self.step_number += 1
        rate = self.rates[self.step_number % len(self.rates)]
        for group in self.optimizer.param_groups:
            group["lr"] = torch.tensor(rate) if self.tensor else rate


def decay_in_a_tensor(step):
    """Return 0.95**step in a tensor."""
    return torch.tensor(0.95**step)


def halving(step):
    """Return a half to the power of the step number."""
    return 0.5**step


class NoisyDescent(torch.optim.Optimizer):
    """Gradient descent that adds noise, as Langevin dynamics does."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                p.add_(p.grad + torch.randn_like(p), alpha=-group["lr"])


class MomentumMadeInStep(torch.optim.Optimizer):
    """Momentum as many write it: the buffer is made of zeros when it is first needed."""

    def __init__(self, params, lr):
        super().__init__(params, {"lr": lr})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            for p in group["params"]:
                state = self.state[p]
                if "m" not in state:
                    state["m"] = torch.zeros_like(p)
                state["m"].mul_(0.9).add_(p.grad)
                p.add_(state["m"], alpha=-group["lr"])
