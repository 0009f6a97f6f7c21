"""Operations recorded once and run many times on a device, such as a training step: `Graph` and `Program`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, cast

from grilly import _core
from grilly.closed import closed
from grilly.device_array import VulkanTensor, placed, wrap
from grilly.errors import InvalidArgumentError, UnusableError
from grilly.inputs import as_count, as_float, axes_of, need_type
from grilly.nn.parameter import Parameter
from grilly.unusable import Unusable

__all__ = ["Graph", "Program", "Value"]


@closed()
class Value:
    """A tensor of a `Graph`: an input, a state, a constant or the result of an operation.

    Example:
        >>> from grilly.program import Graph
        >>> Graph().input("x", (4, 3))
        Value('x', (4, 3), 'float32')
    """

    def __init__(self, graph: _core.Graph, place: int) -> None:
        self._graph, self._place = graph, place

    @property
    def name(self) -> str:
        """The name given to it, or to the operation that computes it."""
        return self._graph.value(self._place)[0]

    @property
    def shape(self) -> tuple[int | str, ...]:
        """Axes, slowest first: sizes, or what the batch counts."""
        return tuple(int(axis) if axis.isdecimal() else axis for axis in self._graph.value(self._place)[1])

    @property
    def dtype(self) -> str:
        """The element type, such as `"float32"`."""
        return self._graph.value(self._place)[2]

    def __repr__(self) -> str:
        return f"Value({self.name!r}, {self.shape}, {self.dtype!r})"


@closed()
class Graph:
    """Operations that will run as one program, with the gradients of any of them.

    The operations and their attributes are those of the reference page Operations. An axis of a shape is a size, or one
    that a batch counts: `"T"` tokens, `"B"` texts, `"B+1"` the boundaries between texts, `"R0"` to `"R5"` other rows.
    Only the first axis of a result may be counted.

    Source: recorded programs with reverse accumulation (Griewank and Walther 2008).

    Example:
        >>> import numpy as np
        >>> from grilly.program import Graph
        >>> graph = Graph()
        >>> x, total = graph.input("x", (2,)), graph.state("total", np.zeros(2))
        >>> added = graph.call("binary", x, total, kind="add")
        >>> program = graph.program([added], device="cpu")
        >>> program.run([1.0, 2.0])[0].tolist()
        [1.0, 2.0]
    """

    def __init__(self) -> None:
        self._core = _core.Graph()
        self._states: dict[str, Any] = {}

    def input(self, name: str, shape: Sequence[int | str], dtype: str = "float32") -> Value:
        """Adds a tensor that is passed to each run.

        Args:
            name: Used in messages.
            shape: Axes, slowest first.
            dtype: `"float32"` (default), `"float16"`, `"int32"`, `"uint32"`, `"int8"` or `"uint8"`.

        Raises:
            InvalidArgumentError: Another type, or an axis that is neither a size nor counted.

        Example:
            >>> from grilly.program import Graph
            >>> Graph().input("ids", ("T",), "int32").shape
            ('T',)
        """
        return Value(self._core, self._core.declare(name, axes_of(shape), dtype, False))

    def state(self, name: str, value: Any) -> Value:
        """Adds a tensor that stays on the device between runs, where operations may update it.

        Args:
            name: Its name in `Program.states`.
            value: Its first value. A `nn.Parameter` belongs to the program as soon as that is made.

        Raises:
            InvalidArgumentError: Another state has this name.

        Example:
            >>> from grilly.program import Graph
            >>> Graph().state("step", [0.0]).shape
            (1,)
        """
        if name in self._states or any(value is known for known in self._states.values()):
            raise InvalidArgumentError(f"there is a state {name!r} already, or one with this array")
        if not isinstance(value, Parameter | VulkanTensor):
            value = placed(value, "cpu")
        made = Value(self._core, self._core.declare(name, list(map(str, value.shape)), str(value.dtype), True))
        self._states[name] = value
        return made

    def filled(self, number: float, shape: Sequence[int | str]) -> Value:
        """Adds a float32 constant whose elements are all `number`.

        Example:
            >>> from grilly.program import Graph
            >>> Graph().filled(1.0, (2, 3)).shape
            (2, 3)
        """
        return Value(self._core, self._core.filled(as_float(number, "number"), axes_of(shape)))

    def call(self, operation: str, *operands: Value | None, name: str | None = None, **attributes: Any) -> Any:
        """Adds an operation and returns its result, or a tuple of results.

        A result that has an operand's name is written in place of that operand, which cannot be read afterwards: `adam`
        updates parameters so.

        Args:
            operation: As in `grilly.kernels` and on the page Operations, such as `"linear"`.
            operands: Values of this graph, in the operation's order; None for one that is left out.
            name: Used in messages; default `operation`.
            attributes: Of the operation.

        Raises:
            InvalidArgumentError: Operands or attributes that do not fit.

        Example:
            >>> from grilly.program import Graph
            >>> graph = Graph()
            >>> x, w = graph.input("x", (4, 3)), graph.input("w", (2, 3))
            >>> graph.call("linear", x, w).shape
            (4, 2)
        """
        places = [self._place(operand) for operand in operands if operand is not None]
        made = self._core.apply(name or operation, operation, places, attributes)
        results = [Value(self._core, place) for place in made]
        return results[0] if len(results) == 1 else tuple(results)

    def gradients(self, result: Value, gradient: Value, operands: Sequence[Value]) -> list[Value]:
        """Adds the gradients of a result with respect to `operands`, given its own gradient.

        Raises:
            InvalidArgumentError: `gradient` has another shape than `result`.
            UnsupportedError: An operation on the way has no derivative.

        Example:
            >>> from grilly.program import Graph
            >>> graph = Graph()
            >>> x, w = graph.input("x", (4, 3)), graph.input("w", (2, 3))
            >>> y = graph.call("linear", x, w)
            >>> [g.shape for g in graph.gradients(y, graph.filled(1.0, y.shape), [w])]
            [(2, 3)]
        """
        wanted = [self._place(operand) for operand in operands]
        return [Value(self._core, g) for g in self._core.gradients(self._place(result), self._place(gradient), wanted)]

    def program(
        self, outputs: Sequence[Value], device: str = "vulkan", counts: Mapping[str, int] | None = None
    ) -> Program:
        """Prepares the operations so far for a device.

        From then on the device holds the numbers of every `nn.Parameter` among the states; see `Program`.

        Args:
            outputs: Values that each run returns.
            device: `"vulkan"` (default), `"vulkan:N"` or `"cpu"`.
            counts: The largest sizes of the axes that a batch counts, such as `{"T": 128, "B": 2}`.

        Raises:
            InvalidArgumentError: An output is no value of this graph, or a parameter belongs to another program.
            UnsupportedError: The device cannot run an operation.

        Example:
            >>> from grilly.program import Graph
            >>> graph = Graph()
            >>> y = graph.call("activation", graph.input("x", (2,)), kind="relu")
            >>> graph.program([y], "cpu").run([-1.0, 1.0])[0].tolist()
            [0.0, 1.0]
        """
        for name, value in self._states.items():
            if isinstance(value, Parameter) and value.lent:
                raise InvalidArgumentError(f"{name} belongs to another program; release that one first")
        states = [placed(value, device)._array for value in self._states.values()]
        sizes = {name: as_count(size, f"counts[{name!r}]") for name, size in (counts or {}).items()}
        core = self._core.program(_core.engine(device), [self._place(value) for value in outputs], states, sizes)
        return Program(core, device, self._states)

    def _place(self, value: Value) -> int:
        need_type(value, Value, "an operand", "a value of this graph")
        if value._graph is not self._core:
            raise InvalidArgumentError(f"{value!r} is a value of another graph")
        return value._place


@closed()
class Program:
    """A graph prepared on a device. Made by `Graph.program`.

    A run is one submission and moves its inputs to the device and nothing else; outputs move when they are read. States
    keep their numbers between runs, in every bit the same for the same runs.

    While the program exists, the device holds the numbers of a `nn.Parameter` that is one of its states. The
    parameter's array on the host is read-only and filled with NaN, since its reads cannot be intercepted;
    `parameter.numpy()`, `Module.state_dict()` and calls of the module use the device's numbers, `parameter.sync()`
    copies them to the host until the next run, and `release` gives them back. A write through a view made earlier is
    noticed by all of these, which raise `UnusableError` once and drop what was written.

    Example:
        >>> from grilly import nn
        >>> from grilly.program import Graph
        >>> layer, graph = nn.Linear(2, 1, bias=False), Graph()
        >>> w = graph.state("weight", layer.weight)
        >>> program = graph.program([graph.call("binary", w, w, kind="add")], device="cpu")
        >>> bool((program.run()[0].numpy() == 2 * layer.weight.numpy()).all()), layer.weight.tolist()
        (True, [[nan, nan]])
    """

    def __init__(self, core: _core.Program, device: str, states: Mapping[str, Any]) -> None:
        self._core, self._device, self._names = core, device, list(states)
        self._parameters = [value for value in states.values() if isinstance(value, Parameter)]
        for place, value in enumerate(states.values()):
            if isinstance(value, Parameter):
                value.lend(device, partial(self._state, place))

    def run(self, *inputs: Any) -> list[VulkanTensor]:
        """Runs the operations once and returns the outputs, which may still be in computation.

        The shapes of the inputs give the sizes of counted axes; an axis that no input has is as large as prepared. The
        results are in every bit those of a graph of fixed axes of these sizes. Sizes that did not occur in the last 64
        or so are prepared first, which takes a few milliseconds in a graph of hundreds of operations.

        Args:
            inputs: In the order in which they were added to the graph: arrays, or tensors on the device.

        Raises:
            InvalidArgumentError: An input of another shape, or larger than prepared, or too many or too few inputs.
            InvalidTypeError: An input of another type.
            IndexOutOfRangeError: An index outside its table.
            UnusableError: The program was released.

        Example:
            >>> from grilly.program import Graph
            >>> graph = Graph()
            >>> x = graph.input("x", ("T",))
            >>> program = graph.program([graph.call("binary", x, x, kind="add")], "cpu", {"T": 3})
            >>> program.run([1.0, 2.0])[0].tolist(), program.run([5.0])[0].tolist()
            ([2.0, 4.0], [10.0])
        """
        for parameter in self._parameters:
            parameter.hide()
        return [wrap(output) for output in self._core.run([placed(x, self._device)._array for x in inputs])]

    def states(self) -> dict[str, VulkanTensor]:
        """The current states by name. While one of these tensors exists, the next run copies that state first.

        Example:
            >>> from grilly.program import Graph
            >>> graph = Graph()
            >>> state = graph.state("s", [1.0])
            >>> graph.program([graph.call("binary", state, state, kind="add")], "cpu").states()["s"].tolist()
            [1.0]
        """
        return {name: self._state(place) for place, name in enumerate(self._names)}

    def release(self) -> None:
        """Ends the program: its parameters get their numbers back and may be written again.

        Example:
            >>> from grilly import nn
            >>> from grilly.program import Graph
            >>> p, graph = nn.Parameter([1.0]), Graph()
            >>> state = graph.state("p", p)
            >>> program = graph.program([graph.call("binary", state, state, kind="add")], "cpu")
            >>> program.release()
            >>> p.tolist()
            [1.0]
        """
        for parameter in self._parameters:
            parameter.take_back()
        self._core = cast(_core.Program, Unusable(UnusableError("the program was released")))
        self._parameters = []

    def _state(self, place: int) -> VulkanTensor:
        return wrap(self._core.state(place))
