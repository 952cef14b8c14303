"""From the text of a failed guard to what it is about."""

import pytest
import torch

from src.bench import reasons, torch_private

LR_GUARD = "2/0: self.param_groups[0]['lr'] == 0.003333333333333333"
STATE = "self.state[list(dict.keys(self.state))[0]]"


class TestGuard:
    @pytest.mark.parametrize(
        ("text", "expected"),
        [
            (None, "unknown"),
            (LR_GUARD, LR_GUARD),
            (
                LR_GUARD + "       # for group in self.param_groups:  # optim/adam.py:229 in step\n"
                'User stack trace:\n  File "torch/optim/adam.py", line 229, in step\n'
                "    for group in self.param_groups:",
                LR_GUARD,
            ),
            (
                "2/1: self.param_groups[0]['lr'] == 0.004666666666666667"
                "  # (_dynamo/output_graph.py:3375 in remove_tensorify_specialized_graphargs)",
                "2/1: self.param_groups[0]['lr'] == 0.004666666666666667",
            ),
            (
                "2/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.004666666666666667"
                "  # (unknown source ___as_tensor(self.param_groups[0]['lr']).item(), please file a bug)",
                "2/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.004666666666666667",
            ),
            (f"2/0: len({STATE}) != 0", f"2/0: len({STATE}) != 0"),
            (
                "2/1: Cache line invalidated because L['self'] got deallocated",
                "2/1: Cache line invalidated because L['self'] got deallocated",
            ),
            ("0/0: GLOBAL_STATE changed: num_threads ", "0/0: GLOBAL_STATE changed: num_threads"),
            ("\n  3/0: d['a # b'] ==  1  # x = d['a # b']", "3/0: d['a # b'] == 1"),
        ],
        ids=[
            "no guard",
            "guard alone",
            "2.13, source and stack",
            "2.13, specialized",
            "2.11",
            "state",
            "object",
            "threads",
            "spaces",
        ],
    )
    def test_it_is_left_without_what_torch_adds(self, text, expected):
        """One line, without the comment that quotes the source and the stack below it."""
        assert reasons.guard(text) == expected


class TestCause:
    @pytest.mark.parametrize(
        ("guard", "expected"),
        [
            # a learning rate: torch 2.13, 2.11, integer, specialized again, in a product
            (LR_GUARD, "lr: value changed"),
            ("2/1: ___as_tensor(self.param_groups[0]['lr']).item() == 0.0046", "lr: value changed"),
            ("2/0: self.param_groups[0]['lr'] == 1", "lr: value changed"),
            ("0/1: ((-1.0)*box[0].param_groups[0]['lr']) == (-0.05)", "lr: value changed"),
            (
                "2/0: expected type of 'self.param_groups[0]['lr']' to be a tensor type, '"
                " but found <class 'float'>",
                "lr: type changed",
            ),
            # other hyperparameters
            ("2/1: self.param_groups[0]['betas'][0] == 0.89", "betas: value changed"),
            (
                "2/1: (1.0 + ((-1)*self.param_groups[0]['betas'][0])) == 0.05000000000002747",
                "betas: value changed",
            ),
            ("2/0: self.param_groups[0]['momentum'] == 0.9", "momentum: value changed"),
            ("2/0: self.param_groups[0]['weight_decay'] == 0.0", "weight_decay: value changed"),
            ("2/0: self.param_groups[0]['maximize'] == False", "maximize: value changed"),
            ("2/0: self.param_groups[0]['foreach'] is None", "foreach: value changed"),
            (
                "2/0: ___check_type_id(self.param_groups[0]['foreach'], 94), type=<class 'bool'>",
                "foreach: type changed",
            ),
            ("0/1: ___check_type_id(o, 140139550873696), type=<class 'str'>", "type: changed"),
            # state
            (f"2/0: len({STATE}) != 0", "state: entries added"),
            (f"2/0: not ___dict_contains('momentum_buffer', {STATE})", "state: entries added"),
            ("0/0: not G['o'].state", "state: entries added"),
            (
                f"2/0: ___check_obj_id({STATE}['step'], 14), type=<class 'torch.Tensor'>",
                "state: another object",
            ),
            # objects
            ("2/1: Cache line invalidated because L['self'] got deallocated", "object: another one"),
            (
                "2/0: ___check_obj_id(self, 14), type=<class 'torch.optim.adam.Adam'>",
                "object: another one",
            ),
            # gradients
            ("2/0: self.param_groups[0]['params'][0].grad is not None", "grad: there or not"),
            ("2/0: self.param_groups[0]['params'][0].grad is None", "grad: there or not"),
            (
                "0/0: expected type of 'p.grad' to be a tensor type, ' but found <class 'NoneType'>",
                "grad: there or not",
            ),
            # what is set for the whole process
            ("0/0: GLOBAL_STATE changed: num_threads", "num_threads: changed"),
            ("0/0: GLOBAL_STATE changed: grad_mode", "grad_mode: changed"),
            # a scheduler that came later; the argument of a lambda that torch compiled too
            ("0/0: not ___dict_contains('step', box[0].__dict__)", "attribute: there or not"),
            ("0/0: 'step' not in o.__dict__", "attribute: there or not"),
            ("0/0: not hasattr(o, 'm')", "attribute: there or not"),
            ("3/0: e == 1", "e: value changed"),
            ("2/0: len(self.param_groups) == 1", "param_groups: length changed"),
            # tensors
            ("0/0: tensor 'x' size mismatch at index 0. expected 3, actual 4", "tensor: size changed"),
            ("0/0: tensor 'x' stride mismatch at index 0. expected 4, actual 1", "tensor: stride changed"),
            ("0/0: tensor 'x' dtype mismatch. expected Float, actual Double", "tensor: dtype changed"),
            ("0/0: tensor 'x' rank mismatch. expected 1, actual 2", "tensor: rank changed"),
            (
                "0/0: tensor 'x' requires_grad mismatch. expected requires_grad=0",
                "tensor: requires_grad changed",
            ),
            # nothing that is known; `is` in a word is no comparison
            ("unknown", "other"),
            ("0/0: this list exists", "other"),
        ],
    )
    def test_it_names_the_variable_and_what_became_of_it(self, guard, expected):
        """Texts as torch 2.13 and 2.11 write them."""
        assert reasons.cause(guard) == expected


class TestTorchsOwnTexts:
    """Guards that torch writes now: a new wording falls to `other` here first."""

    def causes(self, change, steps=3, **arguments):
        """Return the causes of the recompiles while `change` is called before each step."""
        parameter = torch.nn.Parameter(torch.ones(3))
        parameter.grad = torch.ones(3)
        optimizer = torch.optim.SGD([parameter], **arguments)
        step = torch.compile(optimizer.step, backend="aot_eager")
        for number in range(steps):
            change(optimizer.param_groups[0], number)
            step()
        again = [c for c in torch_private.drain() if c.has_graph and c.attempt > 0]
        return [reasons.cause(reasons.guard(c.guard)) for c in again]

    def test_a_learning_rate_that_changes(self):
        """SGD pins it each time."""
        found = self.causes(lambda group, number: group.update(lr=0.1 + number))
        assert found == ["lr: value changed"] * 2

    def test_a_learning_rate_that_is_no_tensor_any_more(self):
        """As a scheduler of the user's own may leave it."""
        found = self.causes(lambda group, number: group.update(lr=torch.tensor(0.1) if number == 0 else 0.1))
        assert found == ["lr: type changed"]

    def test_a_buffer_that_the_first_step_makes(self):
        """Momentum."""
        assert self.causes(lambda _group, _number: None, momentum=0.9) == ["state: entries added"]

    def test_a_gradient_that_goes(self):
        """Set to None after the first step."""

        def change(group, number):
            if number:
                group["params"][0].grad = None

        # without a gradient there is nothing to compile: a second parameter keeps the graph
        other = torch.nn.Parameter(torch.ones(3))
        other.grad = torch.ones(3)

        def with_another(group, number):
            if number == 0:
                group["params"].append(other)
            change(group, number)

        assert self.causes(with_another) == ["grad: there or not"]

    def test_threads_that_change(self):
        """After the first step."""
        found = self.causes(lambda _group, number: torch.set_num_threads(2 if number == 0 else 1))
        assert found == ["num_threads: changed"]


class TestSummary:
    def test_no_recompile_has_none(self):
        """Null in the row."""
        assert reasons.summary([]) is None

    def test_one(self):
        """In the singular."""
        assert reasons.summary(["lr: value changed"]) == "1 recompile: 1 x lr: value changed"

    def test_the_commonest_comes_first(self):
        """Each cause with its number."""
        causes = ["other", "lr: value changed", "lr: value changed"]
        assert reasons.summary(causes) == "3 recompiles: 2 x lr: value changed, 1 x other"
