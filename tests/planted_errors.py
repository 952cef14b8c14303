"""How parity judges training steps that are right, and such with a small error planted in them.

`python -m tests.planted_errors` compiles, plants and prints a table, for docs/method.md: some ten minutes on
two cores. `--device cuda` does it there.
"""

import argparse
import itertools
import sys
from collections.abc import Callable

import torch

from src.bench import comparison, workload
from src.bench.followed import Followed
from src.bench.workload import Workload
from tests.specs import spec

STEPS = 12

Plant = Callable[[Workload, int], None]
"""Changes what a step is about to do, between its backward pass and its update; takes the step's number."""


def loss(made: Workload, step: int) -> None:
    """As if the loss were 1 % larger, in every step."""
    for p in made.parameters:
        p.grad.mul_(1.01)


def gradient(made: Workload, step: int) -> None:
    """The gradient of one tensor is 20 % too large."""
    made.parameters[-1].grad.mul_(1.2)


def once(made: Workload, step: int) -> None:
    """In one step the gradient of one tensor is zero."""
    if step == 6:
        made.parameters[0].grad.zero_()


def decay(made: Workload, step: int) -> None:
    """A decay of 1e-4 in each step that nobody asked for."""
    with torch.no_grad():
        for p in made.parameters:
            p.mul_(1 - 1e-4)


PLANTS: dict[str, Plant] = {p.__name__: p for p in (loss, gradient, once, decay)}


def eager(how, device, plant: Plant | None = None) -> Followed:
    """Take eager steps, with an error in each if one is given."""
    steps, number = Followed(workload.build(how, device)), itertools.count()
    planted = None if plant is None else lambda made: plant(made, next(number))
    steps.retrace([False] * how.measure.trace_steps, planted)
    return steps


def compiled(how, device) -> Followed:
    """Take steps whose model is compiled."""
    torch._dynamo.reset()
    steps = Followed(workload.build(how, device))
    step = steps.workload.compiled_step(torch.compile, "model")
    steps.take(step, how.measure.trace_steps)
    return steps


def judged(how, device, other: Followed) -> str:
    """Return what parity says of these steps beside eager ones."""
    found = comparison.compare(how, device, eager(how, device), other, draws_random=False)
    return found.columns["parity"]


def main(arguments: list[str]) -> None:
    """Print for each kind of steps how many of them passed, by precision."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seeds", type=int, default=1)
    given = parser.parse_args(arguments)
    device = torch.device(given.device)
    for amp in ("none", "bf16", "fp16"):
        passed: dict[str, list[str]] = {}
        cells = itertools.product(
            ("tiny_cnn", "tiny_transformer"), ("adam", "sgd_momentum", "rmsprop"), range(given.seeds)
        )
        for model, optimizer, seed in cells:
            how = spec(
                *("workload=train_step", "workload.batch_size=8", "workload.image_size=32"),
                *("workload.sequence_length=32", f"model={model}", f"optimizer={optimizer}"),
                *(f"workload.amp={amp}", f"seed={seed}", f"measure.trace_steps={STEPS}"),
            )
            made = {"compiled": compiled(how, device), "eager": eager(how, device)}
            made |= {name: eager(how, device, plant) for name, plant in PLANTS.items()}
            for name, steps in made.items():
                passed.setdefault(name, []).append(judged(how, device, steps))
        for name, outcomes in passed.items():
            sys.stdout.write(f"amp={amp} {name}: {outcomes.count('passed')} of {len(outcomes)} pass\n")
            sys.stdout.flush()


if __name__ == "__main__":
    main(sys.argv[1:])
