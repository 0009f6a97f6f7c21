"""`Optimizer`: groups of parameters, their state, and one step over all of them."""

from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np

from grilly import _core
from grilly.arrays import VulkanTensor, to_vulkan
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.functional.checks import number
from grilly.inputs import need_type
from grilly.nn.parameter import Parameter
from grilly.optim.states import checked_state, copied, numbered, on_host

__all__ = ["Optimizer"]


class Optimizer:
    """The base of optimisers: a subclass defines `update`, which changes one parameter.

    Args:
        params: `nn.Parameter`s or NumPy arrays, pairs of a name and one, or dicts with `"params"` and settings of their
            own.
        defaults: Settings of groups that have none of their own.

    Attributes:
        param_groups: Dicts with `"params"` and the settings, which schedules change. The names, if parameters have
            some, are `"param_names"`.
        state: The state of each parameter by its `id`.

    Copies and pickles together with a model have the copied parameters, with their states.

    Raises:
        InvalidArgumentError: No parameter, one twice, or names for some alone.
        InvalidTypeError: Neither a parameter nor a NumPy array of floats.
        UnsupportedError: A group with `maximize`.

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
    #: The arrays of a state that have the shape of the parameter.
    _alike: tuple[str, ...] = ()
    #: The settings that are finite numbers, or tuples of them, in every step.
    _finite: tuple[str, ...] = ()
    #: Settings that no loaded state changes.
    _fixed: Mapping[str, Any] = {}

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        self.defaults = dict(defaults)
        self.param_groups: list[dict[str, Any]] = []
        self.state: dict[int, dict[str, Any]] = {}
        #: The parameters of the states, so that no other one gets the id of one that has left its group.
        self._owners: dict[int, Any] = {}
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
        need_type(param_group, Mapping, f"{owner}: a group", "a dict")
        if "params" not in param_group:
            raise InvalidArgumentError(f"{owner}: a group has no params")
        given = param_group["params"]
        params = [given] if isinstance(given, np.ndarray) else list(given)
        names = [pair[0] for pair in params if isinstance(pair, tuple) and len(pair) == 2]
        if names:
            params = [pair[1] if isinstance(pair, tuple) else pair for pair in params]
            if len(names) < len(params):
                raise InvalidArgumentError(f"{owner}: {len(names)} of {len(params)} parameters of a group have names")
        for p in params:
            if not isinstance(p, np.ndarray) or p.dtype.kind != "f":
                kind = p.dtype if isinstance(p, np.ndarray) else type(p).__name__
                raise InvalidTypeError(f"{owner}: a parameter is of type {kind}, expected nn.Parameter")
        known = {id(p) for p in [*self._params(), *params]}
        if len(known) < len(self._params()) + len(params):
            raise InvalidArgumentError(f"{owner}: a parameter occurs twice")
        group = {**self.defaults, **param_group, "params": params, **({"param_names": names} if names else {})}
        self._need_supported(group)
        self.param_groups.append(group)
        for p in params:
            self._state_of(p)

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
            InvalidArgumentError: A gradient has another shape than its parameter, or a setting, such as a rate that a
                schedule raised, is not finite; nothing is updated.
            UnsupportedError: Numbers are to be the same everywhere (`grilly.configure`).

        Example:
            >>> from grilly import nn, optim
            >>> p = nn.Parameter([1.0])
            >>> p.accumulate([0.5])
            >>> optim.SGD([p], lr=0.5).step()
            >>> p.tolist(), p.grad is None
            ([0.75], True)
        """
        _core.check_trains(type(self).__name__)
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
            if any(group is used for *_, used in ready):
                self._need_finite(group)
        for p, gradient, group in ready:
            here = p.operand() if isinstance(p, Parameter) else p
            if not self.use_gpu and not isinstance(here, VulkanTensor):
                here = to_vulkan(here, "cpu")
            held = {name: _beside(x, here) for name, x in self._state_of(p).items()}
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
        groups, params = [], 0
        for group in self.param_groups:
            numbers = list(range(params, params := params + len(group["params"])))
            groups.append(copied(group) | {"params": numbers})
        states = dict(enumerate(on_host(self._state_of(p)) for p in self._params()))
        return {"state": {place: state for place, state in states.items() if state}, "param_groups": groups}

    def load_state_dict(self, state_dict: Mapping[str, Any]) -> None:
        """Takes over states and settings of an optimiser of as many parameters in the same groups.

        A setting that the loaded groups lack has its default, as in torch: the `initial_lr` that schedules left goes.

        Raises:
            InvalidArgumentError: Other groups, or a state of another shape; nothing is taken over then.
            InvalidTypeError: No dict.
            UnsupportedError: A group with `maximize`.

        Example:
            >>> from grilly import nn, optim
            >>> a, b = (optim.SGD([nn.Parameter([1.0])], lr=rate) for rate in (0.5, 0.1))
            >>> b.load_state_dict(a.state_dict())
            >>> b.param_groups[0]["lr"]
            0.5
        """
        owner = type(self).__name__
        groups, states = numbered(owner, state_dict)
        sizes = [[len(group["params"]) for group in held] for held in (groups, self.param_groups)]
        if sizes[0] != sizes[1]:
            raise InvalidArgumentError(f"{owner}: the groups have {sizes[0]} parameters, expected {sizes[1]}")
        order = [number for group in groups for number in group["params"]]
        loaded: dict[int, dict[str, Any]] = {}
        for place, p in zip(order, self._params(), strict=True):
            loaded[id(p)] = checked_state(owner, states.get(place, {}), p.shape, self._alike)
        for group in groups:
            self._need_supported(group)
        self.state, self._owners = loaded, {id(p): p for p in self._params()}
        for own, other in zip(self.param_groups, groups, strict=True):
            kept = {name: own[name] for name in ("param_names", "params") if name in own}
            own.clear()
            own.update(self.defaults | kept | copied(other) | {"params": kept["params"], **self._fixed})

    def __getstate__(self) -> dict[str, Any]:
        states = [on_host(self._state_of(p)) for p in self._params()]
        return {name: value for name, value in vars(self).items() if name != "_owners"} | {"state": states}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _owners={id(p): p for group in state["param_groups"] for p in group["params"]})
        self.state = {id(p): held for p, held in zip(self._params(), state["state"], strict=True)}

    def _params(self) -> list[Any]:
        return [p for group in self.param_groups for p in group["params"]]

    def _state_of(self, p: Any) -> dict[str, Any]:
        """The state of a parameter, also of one that was put into a group by hand."""
        if self._owners.setdefault(id(p), p) is not p:
            self._owners[id(p)], self.state[id(p)] = p, {}
        return self.state.setdefault(id(p), {})

    def _need_supported(self, group: Mapping[str, Any]) -> None:
        if group.get("maximize"):
            raise UnsupportedError(f"{type(self).__name__}: a group has maximize; give it gradients of the other sign")

    def _need_finite(self, group: Mapping[str, Any]) -> None:
        for name in self._finite:
            for value in group[name] if isinstance(group[name], tuple | list) else [group[name]]:
                number(type(self).__name__, name, value)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(lr={self.defaults.get('lr')})"


def _beside(x: Any, like: Any) -> Any:
    """`x`, in NumPy if it is not on the device of `like`."""
    if not isinstance(x, VulkanTensor):
        return x
    there = isinstance(like, VulkanTensor) and x._array.engine == like._array.engine
    return x if there else x.numpy()
