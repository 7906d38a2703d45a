"""The objects of a skops file, made here: each as skops would make it, but one after the other.

skops keeps the bytes of all arrays, the arrays, and what is made of them until the last object is there. A forest then
takes four times its file. Here the description of an object is dropped as soon as the object is made.
"""

import json
from collections import ChainMap, defaultdict
from collections.abc import Iterator, MutableMapping
from dataclasses import dataclass
from importlib import import_module
from sys import intern
from typing import Any

import numpy as np

from pulab._validation import AnyArray
from pulab.errors import ModelFileError


@dataclass(slots=True)
class Node:
    """The description of one object: how it is made, its type, its number, and what is in it."""

    loader: str
    name: str
    id: int
    content: Any
    more: Any  # the types of keys, the shape of an array of objects, or the arguments of a call
    file: str | None
    protocol: int | None


def as_node(value: dict[str, Any]) -> Any:
    """A dict of JSON as a node, if it is one: this takes a third of the memory."""
    if "__loader__" not in value:
        return value
    number, content = value["__id__"], value.get("content")
    if type(number) is not int or number <= 0:
        raise ModelFileError("a part of it has no number")
    called = value.get("__reduce__")
    return Node(
        intern(str(value["__loader__"])),
        intern(f"{value['__module__']}.{value['__class__']}"),
        number,
        intern(content) if isinstance(content, str) and len(content) < 32 else content,
        value.get("key_types") or value.get("shape") or (called and called["args"]),
        value.get("file"),
        value.get("protocol"),
    )


def nodes(root: Any) -> Iterator[Node]:
    """All nodes below a value."""
    left = [root]
    while left:
        item = left.pop()
        if isinstance(item, Node):
            yield item
            left += [item.content, item.more]
        elif isinstance(item, dict):
            left += item.values()
        elif isinstance(item, list):
            left += item


class Maker:
    """Makes objects. Nodes with the same number are one object. Their types have been checked."""

    def __init__(self, arrays: dict[str, AnyArray], made: MutableMapping[int, Any]) -> None:
        self._arrays, self._made = arrays, made

    def __call__(self, node: Any) -> Any:
        if not isinstance(node, Node):
            raise ModelFileError("a part of it is not described")
        if node.id not in self._made:
            self._made[node.id] = getattr(self, f"_{node.loader}")(node)
            node.content = node.more = None
        return self._made[node.id]

    def _all(self, items: list[Any]) -> list[Any]:
        items.reverse()
        made = []
        while items:
            made.append(self(items.pop()))
        return made

    def _JsonNode(self, node: Node) -> Any:
        return json.loads(node.content)

    def _DictNode(self, node: Node) -> Any:
        made = _type(node.name)()
        for kind, key in zip(self(node.more), list(node.content), strict=False):
            made[kind(key)] = self(node.content.pop(key))
        return made

    def _DefaultDictNode(self, node: Node) -> Any:
        made = defaultdict(None, self(node.content["main"]))
        made.default_factory = self(node.content["default_factory"])
        return made

    def _ListNode(self, node: Node) -> Any:
        return self._all(node.content)

    def _TupleNode(self, node: Node) -> Any:
        return tuple(self._all(node.content))

    def _SetNode(self, node: Node) -> Any:
        return set(self._all(node.content))

    def _SliceNode(self, node: Node) -> Any:
        return slice(*(node.content[name] for name in ("start", "stop", "step")))

    def _NdArrayNode(self, node: Node) -> Any:
        if node.file is not None:
            array = self._arrays.pop(node.file)
            return array if node.name == "numpy.ndarray" else _type(node.name)(array)
        shape, items = self(node.more), self._all(node.content)
        if len(shape) != 1:
            return np.array(items, dtype=object)
        array = np.empty(len(items), dtype=object)
        for i, item in enumerate(items):  # at once, lists would become a second dimension
            array[i] = item
        return array

    def _DTypeNode(self, node: Node) -> Any:
        return self(node.content).dtype

    def _TypeNode(self, node: Node) -> Any:
        return _type(node.name)

    _FunctionNode = _TypeNode

    def _RandomStateNode(self, node: Node) -> Any:
        state = np.random.RandomState()
        state.set_state(self(node.content))
        return state

    def _RandomGeneratorNode(self, node: Node) -> Any:
        state = self(node.content["bit_generator"])
        if state["bit_generator"] != "PCG64":
            raise ModelFileError("a random generator in it is invalid")
        bits = np.random.PCG64(np.random.SeedSequence(**self(node.content["seed_seq"])))
        bits.state = state
        return np.random.Generator(bits)

    def _TreeNode(self, node: Node) -> Any:
        # A tree copies its arrays, and no other object has them. So they are not kept for later nodes.
        own = Maker(self._arrays, ChainMap({}, self._made))
        made = _type(node.name)(*own(node.more))
        return _with_state(made, own(node.content))

    _LossNode = _TreeNode

    def _ObjectNode(self, node: Node) -> Any:
        cls = _type(node.name)
        made = cls.__new__(cls)
        return made if node.content is None else _with_state(made, self(node.content))


def _type(name: str) -> Any:
    module, _, cls = name.rpartition(".")
    return getattr(import_module(module), cls)


def _with_state(made: Any, state: Any) -> Any:
    if hasattr(made, "__setstate__"):
        if state:
            made.__setstate__(state)
    elif state:
        vars(made).update(state)
    return made
