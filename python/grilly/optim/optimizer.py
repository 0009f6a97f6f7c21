"""`Optimizer`: groups of parameters, their state, and one step over all of them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from grilly.arrays import VulkanTensor, to_vulkan
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.nn.parameter import Parameter

__all__ = ["Optimizer"]


class Optimizer:
    """The base of optimisers: a subclass defines `update`, which changes one parameter.

    Args:
        params: `nn.Parameter`s or NumPy arrays, or dicts with `"params"` and settings of their own.
        defaults: Settings of groups that have none of their own.

    Attributes:
        param_groups: Dicts with `"params"` and the settings, which schedules change.
        state: The state of each parameter by its `id`.

    Raises:
        InvalidArgumentError: No parameter, or one twice.
        InvalidTypeError: Neither a parameter nor a NumPy array of floats.

    Source: upstream's `optim.Optimizer`, whose `zero_grad` did nothing; `torch.optim.Optimizer`.

    Example:
        >>> from grilly import nn, optim
        >>> layer = nn.Linear(2, 3)
        >>> optimizer = optim.SGD([{"params": [layer.weight]}, {"params": [layer.bias], "lr": 0.1}], lr=0.01)
        >>> [group["lr"] for group in optimizer.param_groups]
        [0.01, 0.1]
    """

    #: Whether a step of parameters without a device runs on the default one.
    use_gpu = True

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[int, dict[str, Any]] = {}
        given = list(params)
        if not given:
            raise InvalidArgumentError(f"{type(self).__name__}: there are no parameters")
        for group in given if isinstance(given[0], Mapping) else [{"params": given}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Mapping[str, Any]) -> None:
        """Adds a group of parameters, with the settings that it names and the defaults.

        Example:
            >>> from grilly import nn, optim
            >>> optimizer = optim.SGD(nn.Linear(2, 3).parameters(), lr=0.01)
            >>> optimizer.add_param_group({"params": nn.Linear(3, 1).parameters(), "lr": 0.1})
            >>> len(optimizer.param_groups)
            2
        """
        owner = type(self).__name__
        params = param_group["params"]
        params = [params] if isinstance(params, np.ndarray) else list(params)
        for p in params:
            if not isinstance(p, np.ndarray) or p.dtype.kind != "f":
                kind = p.dtype if isinstance(p, np.ndarray) else type(p).__name__
                raise InvalidTypeError(f"{owner}: a parameter is of type {kind}, expected nn.Parameter")
        known = {*self.state, *map(id, params)}
        if len(known) != len(self.state) + len(params):
            raise InvalidArgumentError(f"{owner}: a parameter occurs twice")
        self.param_groups.append({**self.defaults, **param_group, "params": params})
        self.state.update({id(p): {} for p in params})

    def zero_grad(self) -> None:
        """Clears the gradients of all parameters.

        Example:
            >>> from grilly import nn, optim
            >>> p = nn.Parameter([1.0])
            >>> p.grad = p * 2
            >>> optim.SGD([p]).zero_grad()
            >>> p.grad is None
            True
        """
        for p in self._params():
            if isinstance(p, Parameter):
                p.zero_grad()

    def step(self, closure: Callable[[], Any] | None = None, gradients: Mapping[int, Any] | None = None) -> Any:
        """Updates every parameter that has a gradient, and clears that.

        Args:
            closure: A function that computes the gradients and returns the loss; default none.
            gradients: Gradients by the `id` of their parameter, in place of `parameter.grad`; default none.

        Returns:
            The loss of `closure`, else None.

        Raises:
            InvalidArgumentError: A gradient has another shape than its parameter; nothing is updated.

        Example:
            >>> from grilly import nn, optim
            >>> p = nn.Parameter([1.0])
            >>> p.accumulate([0.5])
            >>> optim.SGD([p], lr=0.5).step()
            >>> p.tolist(), p.grad is None
            ([0.75], True)
        """
        loss = None if closure is None else closure()
        given = gradients or {}
        ready = []
        for group in self.param_groups:
            for p in group["params"]:
                found = given.get(id(p), getattr(p, "grad", None))
                if found is None:
                    continue
                gradient = found if isinstance(found, VulkanTensor) else np.asarray(found)
                if gradient.shape != p.shape:
                    owner, shape = type(self).__name__, list(gradient.shape)
                    raise InvalidArgumentError(f"{owner}: a gradient has shape {shape}, expected {list(p.shape)}")
                ready.append((p, gradient, group))
        for p, gradient, group in ready:
            here = p.operand() if isinstance(p, Parameter) else p
            if not self.use_gpu and not isinstance(here, VulkanTensor):
                here = to_vulkan(here, "cpu")
            held = {name: _beside(x, here) for name, x in self.state[id(p)].items()}
            new, state = self.update(here, _beside(gradient, here), held, group)
            if isinstance(p, Parameter):
                p.assign(new)
                p.zero_grad()
            else:
                p[...] = new
            self.state[id(p)] = state
        return loss

    def update(self, p: Any, gradient: Any, state: dict[str, Any], group: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        """The new numbers of a parameter and its new state; each optimiser defines its own.

        Args:
            p: The numbers, in NumPy or on a device, where gradient and state are, too.
            gradient: The gradient.
            state: The state; empty before the first step.
            group: The settings.

        Raises:
            UnsupportedError: The optimiser does not define it.

        Example:
            >>> from grilly import nn, optim
            >>> class Sign(optim.Optimizer):
            ...     def update(self, p, gradient, state, group):
            ...         return p - group["lr"] * np.sign(gradient), state
            >>> p = nn.Parameter([1.0])
            >>> p.accumulate([5.0])
            >>> Sign([p], {"lr": 0.5}).step()
            >>> p.tolist()
            [0.5]
        """
        raise UnsupportedError(f"{type(self).__name__} has no update")

    def state_dict(self) -> dict[str, Any]:
        """Copies of the states in NumPy by the number of the parameter, and the groups with such numbers.

        Example:
            >>> from grilly import nn, optim
            >>> optim.SGD([nn.Parameter([1.0])], lr=0.5).state_dict()["param_groups"][0]["params"]
            [0]
        """
        numbers = {id(p): number for number, p in enumerate(self._params())}
        state = {
            numbers[key]: {name: x if name == "step" else np.array(x) for name, x in held.items() if x is not None}
            for key, held in self.state.items()
            if held
        }
        groups = [{**group, "params": [numbers[id(p)] for p in group["params"]]} for group in self.param_groups]
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over states and settings of an optimiser of as many parameters in the same groups.

        Raises:
            InvalidArgumentError: Other groups, or a state of another shape; nothing is taken over then.

        Example:
            >>> from grilly import nn, optim
            >>> a, b = (optim.SGD([nn.Parameter([1.0])], lr=rate) for rate in (0.5, 0.1))
            >>> b.load_state_dict(a.state_dict())
            >>> b.param_groups[0]["lr"]
            0.5
        """
        owner = type(self).__name__
        groups, states = state_dict["param_groups"], {int(key): held for key, held in state_dict["state"].items()}
        unknown = set(states) - {number for group in groups for number in group["params"]}
        if unknown:
            raise InvalidArgumentError(f"{owner}: the states of {sorted(unknown)} belong to no parameter")
        sizes = [[len(group["params"]) for group in held] for held in (groups, self.param_groups)]
        if sizes[0] != sizes[1]:
            raise InvalidArgumentError(f"{owner}: the groups have {sizes[0]} parameters, expected {sizes[1]}")
        params = self._params()
        order = [number for group in groups for number in group["params"]]
        loaded: dict[int, dict[str, Any]] = {id(p): {} for p in params}
        for number, p in zip(order, params, strict=True):
            for name, x in states.get(number, {}).items():
                if name != "step" and np.shape(x) != p.shape:
                    shape = list(np.shape(x))
                    raise InvalidArgumentError(f"{owner}: {name} has shape {shape}, expected {list(p.shape)}")
                loaded[id(p)][name] = int(x) if name == "step" else np.array(x)
        self.state = loaded
        for own, other in zip(self.param_groups, groups, strict=True):
            own.update({name: value for name, value in other.items() if name != "params"})

    def _params(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.defaults.get('lr')})"


def _beside(x: Any, like: Any) -> Any:
    """`x`, in NumPy if it is not on the device of `like`."""
    if not isinstance(x, VulkanTensor):
        return x
    there = isinstance(like, VulkanTensor) and x._array.engine == like._array.engine
    return x if there else x.numpy()
