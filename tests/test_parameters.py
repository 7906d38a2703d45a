"""Declared parameters become a constructor."""

from dataclasses import field
from inspect import signature
from typing import ClassVar

import pytest
from sklearn.base import clone

from pulab._parameters import DeclaredParameters


class Parent(DeclaredParameters):
    width: int = field(default=3, kw_only=False)
    depth: int = 1


class Child(Parent):
    depth: int = 2
    name: str = "child"


def test_parameters_are_inherited_and_keep_their_place() -> None:
    assert str(signature(Child)) == "(width=3, *, depth=2, name='child')"
    assert Child().get_params() == {"width": 3, "depth": 2, "name": "child"}
    assert clone(Child(5, depth=7)).get_params() == {"width": 5, "depth": 7, "name": "child"}
    assert Parent(width=4).get_params() == {"width": 4, "depth": 1}


@pytest.mark.parametrize(
    ("args", "parameters", "message"),
    [
        ((), {"dept": 1}, "Child: got an unexpected keyword argument 'dept'. Its parameters: width, depth, name"),
        ((1, 2), {}, "Child: too many positional arguments"),
        ((1,), {"width": 1}, "Child: multiple values for argument 'width'"),
    ],
)
def test_other_parameters_are_refused(args: tuple[int, ...], parameters: dict[str, int], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        Child(*args, **parameters)


class Written(Parent):
    colours: ClassVar[list[str]] = ["red"]

    def __init__(self, *, size: int = 9) -> None:
        super().__init__(width=size)
        self.size = size


class OfWritten(Written):
    pass


def test_a_written_constructor_is_kept_in_subclasses_too() -> None:
    assert OfWritten(size=4).width == 4
    assert OfWritten().get_params() == {"size": 9}
    assert signature(type("Plain", (Parent,), {"__annotations__": {"a": ClassVar[int]}, "a": 1})) == signature(Parent)


def test_a_parameter_needs_a_default() -> None:
    with pytest.raises(TypeError, match="parameter 'height' of Bad needs a default"):
        type("Bad", (Parent,), {"__annotations__": {"height": float}})
