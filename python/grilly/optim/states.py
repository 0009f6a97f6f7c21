"""States of optimisers and schedules: copies of them, and the checks of one that is loaded."""

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np

from grilly.device_array import VulkanTensor
from grilly.errors import InvalidArgumentError
from grilly.inputs import need_type

__all__: list[str] = []


def copied(state: Mapping[str, Any]) -> dict[str, Any]:
    """A state with copies of the lists and dicts in it.

    Example:
        >>> from grilly.optim.states import copied
        >>> state = {"base_lrs": [0.5]}
        >>> copied(state)["base_lrs"] is state["base_lrs"]
        False
    """
    return {name: value.copy() if isinstance(value, list | dict) else value for name, value in state.items()}


def on_host(value: Any) -> Any:
    """A copy of a value of a state: arrays, those on a device too, in NumPy, in lists, tuples and dicts as well.

    Example:
        >>> import grilly
        >>> from grilly.optim.states import on_host
        >>> on_host({"step": 3, "exp_avg": grilly.to_vulkan([0.5], "cpu")})
        {'step': 3, 'exp_avg': array([0.5], dtype=float32)}
    """
    if isinstance(value, Mapping):
        return {name: on_host(item) for name, item in value.items()}
    if type(value) in (list, tuple):
        return type(value)(map(on_host, value))
    is_array = isinstance(value, VulkanTensor) or (hasattr(value, "__array__") and not isinstance(value, np.generic))
    return np.array(np.asarray(value)) if is_array else value  # a tensor of torch takes no copy=


def numbered(owner: str, state_dict: Mapping[str, Any]) -> tuple[list[dict[str, Any]], dict[int, dict[str, Any]]]:
    """The groups, and copies of the states by the number of their parameter, of what `state_dict` returned.

    Raises:
        InvalidArgumentError: It is no such dict, or a state belongs to no parameter.
        InvalidTypeError: It is no dict.

    Example:
        >>> from grilly.optim.states import numbered
        >>> numbered("SGD", {"state": {"0": {"momentum_buffer": None}}, "param_groups": [{"params": [0]}]})
        ([{'params': [0]}], {0: {'momentum_buffer': None}})
    """
    need_type(state_dict, Mapping, f"{owner}: the state", "a dict")
    for name in ("param_groups", "state"):
        if name not in state_dict:
            raise InvalidArgumentError(f"{owner}: the state has no {name}")
    groups = [dict(group) for group in state_dict["param_groups"]]
    for place, group in enumerate(groups):
        if "params" not in group:
            raise InvalidArgumentError(f"{owner}: group {place} of the state has no params")
    states: dict[int, dict[str, Any]] = {}
    for key, held in state_dict["state"].items():
        try:
            states[int(key)] = on_host(dict(held))
        except (TypeError, ValueError):
            raise InvalidArgumentError(f"{owner}: the state of {key!r} belongs to no parameter") from None
    unknown = set(states) - {number for group in groups for number in group["params"]}
    if unknown:
        raise InvalidArgumentError(f"{owner}: the states of {sorted(unknown)} belong to no parameter")
    return groups, states


def checked_state(owner: str, state: dict[str, Any], shape: tuple[int, ...], alike: Iterable[str]) -> dict[str, Any]:
    """A state whose arrays in `alike` have the shape of the parameter, and whose step is a whole number.

    Raises:
        InvalidArgumentError: Another shape or step.

    Example:
        >>> from grilly.optim.states import checked_state
        >>> checked_state("Adam", {"step": 3.0, "exp_avg": np.zeros(2)}, (2,), ["exp_avg"])
        {'step': 3, 'exp_avg': array([0., 0.])}
    """
    for name in alike:
        if state.get(name) is not None and np.shape(state[name]) != shape:
            found = list(np.shape(state[name]))
            raise InvalidArgumentError(f"{owner}: {name} has shape {found}, expected {list(shape)}")
    if "step" in state:
        try:
            state["step"] = int(state["step"])
        except (TypeError, ValueError, OverflowError):
            raise InvalidArgumentError(f"{owner}: step is {state['step']!r}, expected a whole number") from None
    return state
