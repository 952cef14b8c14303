"""Memory that a step's operations move: against a table that was counted, and by hand."""

import pytest
import torch

from src.bench import parameters, traffic, workload
from tests.specs import spec

CPU = torch.device("cpu")
WIDTH, DEPTH = 128, 2
ELEMENTS = WIDTH * WIDTH * DEPTH
STEPS_BEFORE = 8
"""States exist then, RAdam has left its first steps, and ASGD's factor is still 1."""

EAGER = [
    # optimizer and its arguments, elements that a step reads and writes per parameter: for-loop, multi-tensor
    (("sgd",), (2, 1), (2, 1)),
    (("sgd_momentum",), (5, 3), (5, 3)),
    (("sgd_momentum", "nesterov=true"), (7, 4), (7, 4)),
    (("adam",), (11, 7), (11, 7)),
    (("adamw",), (12, 8), (12, 8)),
    (("adam", "weight_decay=0.1"), (13, 8), (13, 8)),
    (("adam", "amsgrad=true"), (13, 8), (13, 8)),
    (("adagrad",), (7, 4), (8, 5)),
    (("adadelta",), (16, 11), (16, 11)),
    (("rmsprop",), (8, 5), (8, 5)),
    (("rmsprop", "centered=true"), (12, 7), (12, 7)),
    (("rmsprop", "momentum=0.9"), (11, 7), (11, 7)),
    (("rmsprop", "centered=true", "momentum=0.9"), (15, 9), (15, 9)),
    (("adamax",), (10, 6), (10, 6)),
    (("nadam",), (14, 8), (14, 8)),
    (("radam",), (16, 12), (13, 9)),
    (("rprop",), (24, 16), (24, 16)),
    (("asgd",), (4, 3), (8, 4)),
    (("adafactor",), (11, 6), (12, 7)),
    (("muon",), (35, 21), None),
]
"""Counted by an independent program on torch 2.13: the distinct tensors of a parameter's size that each
operation reads and writes. Adafactor's rows and columns come to less than half an element here."""

FUSED = [
    (("sgd",), (2, 1)),
    (("sgd_momentum",), (3, 2)),
    (("sgd_momentum", "nesterov=true"), (3, 2)),
    (("adagrad",), (3, 2)),
    (("adam",), (4, 3)),
    (("adam", "amsgrad=true"), (5, 4)),
    (("adamw",), (4, 3)),
]
"""Parameter, gradient and states are read, parameter and states are written, once."""


def named(case):
    """Return the test id of a case, or nothing for its numbers."""
    return " ".join(case) if case and isinstance(case[0], str) else ""


def step_of(optimizer, *arguments, model=()):
    """Return the step of an optimizer in a steady state."""
    torch.set_num_threads(1)  # two would wait for each other, and count no less
    how = spec(
        *("model=tiny", f"model.width={WIDTH}", f"model.depth={DEPTH}", "model.bias=false", *model),
        f"optimizer={optimizer}",
        *(f"optimizer.{argument}" for argument in arguments),
    )
    step = workload.build(how, CPU).step
    for _ in range(STEPS_BEFORE):
        step()
    return step


def per_parameter(step):
    """Return the elements that a step reads and writes, per parameter."""
    moved = traffic.counted(step, torch.Tensor.numel)
    return round(moved.read / ELEMENTS), round(moved.written / ELEMENTS)


def moved_by(call):
    """Return what a call reads and writes, in bytes."""
    found = traffic.counted(call)
    return found.read, found.written


class TestEagerSteps:
    @pytest.mark.parametrize(("optimizer", "forloop", "foreach"), EAGER, ids=named)
    def test_move_what_was_counted_elsewhere(self, optimizer, forloop, foreach):
        """Both implementations, every optimizer that has a formula."""
        name, *arguments = optimizer
        loop = ["foreach=false"] if foreach else []
        assert per_parameter(step_of(name, *arguments, *loop)) == forloop
        if foreach:
            assert per_parameter(step_of(name, *arguments, "foreach=true")) == foreach

    @pytest.mark.parametrize(("optimizer", "expected"), FUSED, ids=named)
    def test_a_fused_one_moves_the_least(self, optimizer, expected):
        """Its schema says that it writes into the gradients, which it does not."""
        name, *arguments = optimizer
        assert per_parameter(step_of(name, *arguments, "fused=true")) == expected

    def test_bytes_follow_the_dtype(self):
        """SGD reads two and writes one number of 2 bytes."""
        step = step_of("sgd", model=("model.dtype=bfloat16",))
        assert traffic.counted_bytes(step) == ELEMENTS * (2 + 1) * 2

    def test_masks_have_one_byte(self):
        """Rprop compares four times: of 24 numbers read and 16 written four each are masks."""
        moved = traffic.counted(step_of("rprop", "foreach=false"))
        assert moved.read == pytest.approx((20 * 4 + 4) * ELEMENTS, rel=5e-3)
        assert moved.written == pytest.approx((12 * 4 + 4) * ELEMENTS, rel=5e-3)

    def test_muon_iterates_in_bfloat16(self):
        """By hand: 7 of 35 numbers read have 4 bytes and 28 have 2; 4 and 17 of 21 written.

        Of 4 bytes: the two averages (2+1 each), the conversion (1 read), decay and descent (1+1 each).
        Of 2 bytes: what the conversion writes, its norm (1 read), the division (1+1), five iterations
        (5+3 each), and the update that the descent reads.
        """
        moved = traffic.counted(step_of("muon"))
        assert moved.read == pytest.approx((7 * 4 + 28 * 2) * ELEMENTS, rel=5e-3)
        assert moved.written == pytest.approx((4 * 4 + 17 * 2) * ELEMENTS, rel=5e-3)

    def test_sparse_gradients_are_not_counted(self):
        """How many rows they have is not known from their shape."""
        step = step_of("sparseadam", model=("model.bias=false",))
        assert traffic.counted_bytes(step) is None

    def test_the_step_is_taken_once(self):
        """As a caller who counts steps relies on."""
        made = workload.build(spec("model=tiny", "optimizer=adam"), CPU)
        traffic.counted_bytes(made.step)
        assert {float(state["step"]) for state in made.optimizer.state.values()} == {1.0}

    def test_counting_does_not_change_the_step(self):
        """The same parameters come of it."""
        counted, plain = (workload.build(spec("model=tiny", "optimizer=adam"), CPU) for _ in range(2))
        traffic.counted_bytes(counted.step)
        plain.step()
        assert all(map(torch.equal, counted.parameters, plain.parameters))


class TestOperations:
    """100 numbers of 4 bytes in each of `a`, `b`, `out`."""

    a, b, out = (torch.ones(100) for _ in range(3))

    @pytest.mark.parametrize(
        ("call", "expected"),
        [
            (lambda a, b, out: a + b, (800, 400)),
            (lambda a, b, out: a * a, (400, 400)),
            (lambda a, b, out: a.add_(b), (800, 400)),
            (lambda a, b, out: a.mul_(2), (400, 400)),
            (lambda a, b, out: a.copy_(b), (400, 400)),
            (lambda a, b, out: a.zero_(), (0, 400)),
            (lambda a, b, out: a.fill_(1), (0, 400)),
            (lambda a, b, out: a.uniform_(), (0, 400)),
            (lambda a, b, out: torch.add(a, b, out=out), (800, 400)),
            (lambda a, b, out: torch._foreach_add_([a, b], [b, b]), (800, 800)),
            (lambda a, b, out: torch._foreach_mul([a, b], 2), (800, 800)),
            (lambda a, b, out: torch._foreach_copy_([a], [b]), (400, 400)),
            (lambda a, b, out: torch.zeros_like(a), (0, 400)),
            (lambda a, b, out: torch.empty_like(a), (0, 0)),
            (lambda a, b, out: a.new_ones(50), (0, 200)),
            (lambda a, b, out: torch.empty(50), (0, 0)),
            (lambda a, b, out: a.view(10, 10).t()[2:].detach(), (0, 0)),
            (lambda a, b, out: a.detach().clone().unsqueeze_(0), (400, 400)),
            (lambda a, b, out: a[:50] + b[50:], (400, 200)),
            (lambda a, b, out: a + torch.ones_like(b[:1]).expand(100), (404, 404)),
            (lambda a, b, out: a.to(torch.float64), (400, 800)),
            (lambda a, b, out: a.sum(), (400, 4)),
            (lambda a, b, out: a.view(10, 10) @ b.view(10, 10), (800, 400)),
            (lambda a, b, out: a.view(10, 10) @ a.view(10, 10).t(), (800, 400)),
            (lambda a, b, out: a[0].item(), (4, 0)),
            (lambda a, b, out: None, (0, 0)),
        ],
    )
    def test_what_they_read_and_write(self, call, expected):
        """Every tensor once; views and what takes only a shape move nothing."""
        assert moved_by(lambda: call(self.a, self.b, self.out)) == expected

    def test_a_fused_step_with_a_scale_writes_the_gradients(self):
        """It divides them by the scale in place: 2 read, 2 written, and the scale itself."""
        parameter, gradient = torch.ones(100), torch.full((100,), 4.0)
        scale, nothing_infinite = torch.tensor(2.0), torch.tensor(0.0)

        def step():
            torch._fused_sgd_(
                *([parameter], [gradient], []),
                **{"weight_decay": 0.0, "momentum": 0.0, "lr": 0.1, "dampening": 0.0, "nesterov": False},
                **{"maximize": False, "is_first_step": False},
                **{"grad_scale": scale, "found_inf": nothing_infinite},
            )

        assert moved_by(step) == (808, 800)
        assert gradient[0] == 2.0


class TestSize:
    @pytest.mark.parametrize(
        ("tensor", "expected"),
        [
            (torch.ones(3, 5), 60),
            (torch.ones(3, 5, dtype=torch.bfloat16), 30),
            (torch.ones(3, 5)[:, 1:3], 24),
            (torch.ones(3, 5).t(), 60),
            (torch.ones(1, 5).expand(7, 5), 20),
            (torch.tensor(1.0), 4),
            (torch.ones(0, 5), 0),
        ],
    )
    def test_is_the_memory_behind_it(self, tensor, expected):
        """What an expanded tensor repeats is there once."""
        assert traffic.size_bytes(tensor) == expected

    def test_of_parameters_is_that_of_the_model(self):
        """As it is calculated from the shapes."""
        how = spec("model=tiny")
        made = parameters.make(how, CPU)
        assert sum(map(traffic.size_bytes, made)) == parameters.size_bytes(how.model)
