"""Rules about single values: each kind, with the exact message."""

from dataclasses import dataclass
from typing import Any

import pytest
from omegaconf import OmegaConf, open_dict

from src.rules import SpecError, check_fields, check_keys, key, listed


@dataclass
class Part:
    """Something inside a whole."""

    size: int = key("size", at_least=1)


@dataclass
class Whole:
    """A key for each kind of rule."""

    part: Part
    parts: list[dict[str, Any]] = key("several with keys of the user's own")
    kind: str = key("kind", choices=("big", "able"))
    kinds: list[str] = key("several kinds", choices=("big", "able"))
    least: float = key("bounded from below", at_least=0)
    above: float = key("strictly bounded from below", above=0)
    below: float = key("strictly bounded from above", below=10)
    name: str = key("pattern", pattern=r"[a-z]+")
    pair: list[float] = key("two items", length=2, at_least=0)
    perhaps: int | None = key("may be null", at_least=5)
    most: float = key("bounded from above", at_most=1)
    some: list[float | None] = key("items may be null", at_least=0)
    own: dict[str, Any] = key("keys of the user's own")


def whole(**changes):
    values = {
        "part": Part(size=1),
        "parts": [],
        "kind": "big",
        "kinds": ["able", "big"],
        "least": 0.0,
        "above": 0.1,
        "below": 9.9,
        "name": "abc",
        "pair": [0.0, 1.0],
        "perhaps": None,
        "most": 1.0,
        "some": [None, 0.0],
        "own": {"a": None, "b": [1, {"c": "text"}], "d": True},
    }
    return Whole(**(values | changes))


class TestCheckFields:
    def test_values_at_the_edge_of_every_rule_pass(self):
        """Bounds that are included are included, null passes where it may stand."""
        check_fields(whole())

    @pytest.mark.parametrize(
        ("changes", "message"),
        [
            ({"kind": "small"}, "kind must be one of big, able: got 'small'"),
            ({"kinds": ["big", "small"]}, "kinds must be one of big, able: got 'small'"),
            ({"least": -0.5}, "least must be at least 0: got -0.5"),
            ({"above": 0.0}, "above must be above 0: got 0.0"),
            ({"below": 10.0}, "below must be below 10: got 10.0"),
            ({"name": "Abc"}, "name must match [a-z]+: got 'Abc'"),
            ({"name": "abc\n"}, r"name must match [a-z]+: got 'abc\n'"),
            ({"pair": [1.0]}, "pair must have 2 items: got [1.0]"),
            ({"pair": [1.0, 2.0, 3.0]}, "pair must have 2 items: got [1.0, 2.0, 3.0]"),
            ({"pair": [1.0, -1.0]}, "pair must be at least 0: got -1.0"),
            ({"perhaps": 4}, "perhaps must be at least 5: got 4"),
            ({"least": float("nan")}, "least must be a finite number: got nan"),
            ({"below": float("-inf")}, "below must be a finite number: got -inf"),
            ({"part": Part(size=0)}, "part.size must be at least 1: got 0"),
            ({"most": 1.1}, "most must be at most 1: got 1.1"),
            ({"some": [None, -1.0]}, "some must be at least 0: got -1.0"),
            ({"own": {"a": {"b": [float("inf")]}}}, "own.a.b must be a finite number: got inf"),
            ({"own": {"a": 2**63}}, "own.a must be below 2**63: got 9223372036854775808"),
            ({"own": {"a": {1: 2}}}, "own.a must have text as its keys: got 1"),
            (
                {"own": {"a": b"x"}},
                "own.a must be text, a number, true, false, null, a list or a mapping: got b'x'",
            ),
            (
                {"parts": [{"a": 1}, {"a": {"b": float("inf")}}]},
                "parts[1].a.b must be a finite number: got inf",
            ),
        ],
    )
    def test_a_broken_rule_is_told_with_key_rule_and_value(self, changes, message):
        """The message is one line, whatever the rule."""
        with pytest.raises(SpecError) as caught:
            check_fields(whole(**changes))
        assert message == str(caught.value)


class TestCheckKeys:
    def config(self):
        return OmegaConf.structured(whole())

    def test_a_config_with_every_key_passes(self):
        """Nothing is said of what is right."""
        check_keys(self.config())

    def test_an_unknown_key_is_told_with_those_there_are(self):
        """A key that was forced into a node is found, also deep inside."""
        config = self.config()
        OmegaConf.update(config, "part.sice", 3, force_add=True)
        with pytest.raises(SpecError, match=r"^part\.sice is not a key: part has size$"):
            check_keys(config)

    def test_an_unknown_key_at_the_top(self):
        """The top level has no dotted path, and is named so."""
        config = self.config()
        with open_dict(config):
            config.more = 1
        keys = "above, below, kind, kinds, least, most, name, own, pair, part, parts, perhaps, some"
        with pytest.raises(SpecError, match=f"^more is not a key: the top level has {keys}$"):
            check_keys(config)

    def test_a_key_without_a_value(self):
        """What conf/ leaves open must be set on the command line."""
        config = self.config()
        config.part.size = "???"
        with pytest.raises(SpecError, match=r"^part\.size has no value: set it$"):
            check_keys(config)

    def test_a_key_that_is_taken_from_one_without_a_value(self):
        """What is told is the one that the user can set."""
        config = self.config()
        config.kind = "${name}"
        config.name = "???"
        with pytest.raises(SpecError, match=r"^name has no value: set it$"):
            check_keys(config)

    def test_keys_of_the_users_own_are_not_looked_at(self):
        """A dict has no schema."""
        config = self.config()
        OmegaConf.update(config, "own.x.y", 3, force_add=True)
        check_keys(config)

    def test_a_removed_key(self):
        """A key that was deleted is named."""
        config = self.config()
        del config._content["kind"]
        with pytest.raises(SpecError, match=r"^kind was removed: every key is needed$"):
            check_keys(config)

    def test_a_config_without_a_schema(self):
        """A plain mapping has no rules to hold it against."""
        with pytest.raises(SpecError, match=r"^the configuration is not made from its schema$"):
            check_keys(OmegaConf.create({"a": 1}))


class TestListed:
    def test_tuples_keep_their_order_and_sets_are_sorted(self):
        """Modes have an order of their own; keys have none."""
        assert listed(("b", "a")) == "b, a"
        assert listed({"b", "a"}) == "a, b"
