"""What an optimizer keeps, by name."""

import torch

from src.bench import states


class Kept:
    """An optimizer with these attributes."""

    def __init__(self, **attributes):
        vars(self).update(attributes)


def parameter():
    made = torch.nn.Parameter(torch.zeros(2))
    made.grad = torch.ones(2)
    return made


class TestOf:
    def test_names_are_alike_in_every_arm(self):
        """By the number of the parameter, not by the object."""
        first, second = parameter(), parameter()
        kept = Kept(state={second: {"m": torch.ones(2)}, first: {"step": 3}})
        found = states.of(kept, [first, second])
        assert set(found) == {"m of parameter 1", "step of parameter 0"}
        assert found["step of parameter 0"].item() == 3.0

    def test_lists_and_dictionaries_are_looked_into(self):
        """Each tensor has the path to it."""
        p = parameter()
        kept = Kept(state={p: {"old": [torch.ones(1), {"t": 0.5}]}, "all": torch.ones(1)})
        assert set(states.of(kept, [p])) == {"old[0] of parameter 0", "old[1].t of parameter 0", "all"}

    def test_tensors_of_the_optimizer_itself_are_kept_too(self):
        """Its numbers, names and groups are not: those are arguments."""
        p = parameter()
        kept = Kept(
            state={},
            param_groups=[{"lr": torch.ones(1)}],
            defaults={"x": torch.ones(1)},
            buffers={"a": torch.ones(1)},
            count=3,
            name="n",
        )
        assert set(states.of(kept, [p])) == {"optimizer.buffers.a"}

    def test_parameters_and_gradients_are_no_state(self):
        """LBFGS keeps a list of its parameters, others their gradients."""
        p = parameter()
        kept = Kept(state={p: {"self": p, "gradient": p.grad}}, _params=[p])
        assert states.of(kept, [p]) == {}

    def test_sparse_tensors_become_dense(self):
        """To be compared element by element."""
        p = parameter()
        kept = Kept(state={p: {"m": torch.eye(2).to_sparse()}})
        assert torch.equal(states.of(kept, [p])["m of parameter 0"], torch.eye(2))

    def test_what_holds_itself_ends(self):
        """However deep: nothing is looked into for ever."""
        loop = {"m": torch.ones(1)}
        loop["again"] = loop
        assert "m of x" in states.of(Kept(state={"x": loop}), [])
