"""`Module`: parameters, submodules, training mode, state."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from grilly import _core
from grilly.arrays import VulkanTensor, from_vulkan, to_vulkan
from grilly.errors import InvalidTypeError, UnsupportedError
from grilly.names import missing
from grilly.nn.parameter import Parameter
from grilly.nn.state import load
from grilly.operands import host_array

__all__ = ["Module"]


class Module:
    """The base of every layer: `Parameter`s and `Module`s assigned to attributes are registered.

    Attributes:
        training: Whether dropout and similar layers are active; default True.

    A custom layer defines `forward`, which calls operations of `grilly.functional` or other modules.

    Source: upstream's `nn.Module`; `torch.nn.Module`.

    Example:
        >>> from grilly import nn
        >>> class Twice(nn.Module):
        ...     def __init__(self):
        ...         super().__init__()
        ...         self.inner = nn.Linear(2, 2)
        ...     def forward(self, x):
        ...         return self.inner(self.inner(x))
        >>> [name for name, _ in Twice().named_parameters()]
        ['inner.weight', 'inner.bias']
    """

    training: bool
    _parameters: dict[str, Parameter]
    _modules: dict[str, Module]
    _buffers: dict[str, npt.NDArray[Any]]

    def __init__(self) -> None:
        for name in ("_parameters", "_modules", "_buffers"):
            object.__setattr__(self, name, {})
        object.__setattr__(self, "training", True)

    def __setattr__(self, name: str, value: Any) -> None:
        own, registers = vars(self), isinstance(value, Parameter | Module)
        if registers and "_parameters" not in own:
            raise InvalidTypeError(f"{type(self).__name__}: call super().__init__() before {name} is assigned")
        for held in (own.get("_parameters", {}), own.get("_modules", {}), own if registers else {}):
            held.pop(name, None)
        if registers:
            own["_parameters" if isinstance(value, Parameter) else "_modules"][name] = value
        else:
            object.__setattr__(self, name, value)

    def __getattr__(self, name: str) -> Any:
        for place in ("_parameters", "_modules", "_buffers"):
            found = vars(self).get(place, {})
            if name in found:
                return found[name]
        raise missing(type(self).__name__, name)

    def __delattr__(self, name: str) -> None:
        for registered in (self._parameters, self._modules, self._buffers):
            if name in registered:
                del registered[name]
                return
        object.__delattr__(self, name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *self._parameters, *self._modules, *self._buffers})

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        device = next((p.placed for p in self.parameters() if p.placed is not None), None)
        if device is None or any(isinstance(x, VulkanTensor) for x in (*args, *kwargs.values())):
            return self.forward(*args, **kwargs)
        # NumPy operands and parameters on a device: everything runs there, and the results come back.
        there = {name: to_vulkan(x, device) if isinstance(x, np.ndarray) else x for name, x in kwargs.items()}
        found = self.forward(*[to_vulkan(x, device) if isinstance(x, np.ndarray) else x for x in args], **there)
        if isinstance(found, tuple):
            return tuple(from_vulkan(x) if isinstance(x, VulkanTensor) else x for x in found)
        return from_vulkan(found) if isinstance(found, VulkanTensor) else found

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Computes the layer; every layer defines its own.

        Raises:
            UnsupportedError: The layer does not define it.

        Example:
            >>> from grilly import nn
            >>> nn.ReLU().forward([-1.0, 1.0]).tolist()
            [0.0, 1.0]
        """
        raise UnsupportedError(f"{type(self).__name__} has no forward")

    def backward(self, *args: Any, **kwargs: Any) -> Any:
        """The layer's derivative; layers that have one define their own.

        Raises:
            UnsupportedError: The layer has none (also a `NotImplementedError`).

        Example:
            >>> from grilly import nn
            >>> nn.ReLU().backward([1.0, 1.0], [-1.0, 1.0]).tolist()
            [0.0, 1.0]
        """
        raise UnsupportedError(f"{type(self).__name__} has no backward in this version")

    def train(self, mode: bool = True) -> Module:
        """Sets training mode here and in every submodule; returns the module.

        Example:
            >>> from grilly import nn
            >>> nn.Sequential(nn.Dropout()).train(False)[0].training
            False
        """
        for _, module in self.named_modules():
            object.__setattr__(module, "training", bool(mode))
        return self

    def eval(self) -> Module:
        """`train(False)`.

        Example:
            >>> from grilly import nn
            >>> nn.Dropout().eval().training
            False
        """
        return self.train(False)

    def named_modules(self, prefix: str = "") -> Iterator[tuple[str, Module]]:
        """This module and all submodules, with their dotted names.

        Example:
            >>> from grilly import nn
            >>> [name for name, _ in nn.Sequential(nn.ReLU()).named_modules()]
            ['', '0']
        """
        yield prefix, self
        for name, module in self._modules.items():
            yield from module.named_modules(f"{prefix}.{name}" if prefix else name)

    def named_parameters(self) -> Iterator[tuple[str, Parameter]]:
        """All parameters with their dotted names, each once.

        Example:
            >>> from grilly import nn
            >>> [name for name, _ in nn.Linear(2, 3).named_parameters()]
            ['weight', 'bias']
        """
        seen: set[int] = set()
        for prefix, module in self.named_modules():
            for name, parameter in module._parameters.items():
                if id(parameter) not in seen:
                    seen.add(id(parameter))
                    yield f"{prefix}.{name}" if prefix else name, parameter

    def parameters(self) -> Iterator[Parameter]:
        """All parameters, each once.

        Example:
            >>> from grilly import nn
            >>> sum(p.size for p in nn.Linear(2, 3).parameters())
            9
        """
        return (parameter for _, parameter in self.named_parameters())

    def zero_grad(self) -> None:
        """Clears every gradient.

        Example:
            >>> from grilly import nn
            >>> nn.Linear(2, 3).zero_grad()
        """
        for parameter in self.parameters():
            parameter.zero_grad()

    def register_parameter(self, name: str, param: Any) -> None:
        """Registers a parameter, an array that is converted to one, or None.

        Example:
            >>> from grilly import nn
            >>> module = nn.Module()
            >>> module.register_parameter("scale", [1.0])
            >>> module.scale.tolist()
            [1.0]
        """
        setattr(self, name, param if param is None or isinstance(param, Parameter) else Parameter(param))

    def register_buffer(self, name: str, values: Any) -> None:
        """Registers an array that is part of the state but not trained.

        Example:
            >>> from grilly import nn
            >>> module = nn.Module()
            >>> module.register_buffer("table", [1.0])
            >>> list(module.state_dict())
            ['table']
        """
        self._buffers[name] = np.array(host_array(values, name))

    def state_dict(self) -> dict[str, Any]:
        """Copies of parameters and buffers by name, those of submodules in nested dicts.

        Example:
            >>> from grilly import nn
            >>> state = nn.Sequential(nn.Linear(2, 3)).state_dict()
            >>> sorted(state["0"])
            ['bias', 'weight']
        """
        state: dict[str, Any] = {name: parameter.numpy() for name, parameter in self._parameters.items()}
        state.update({name: values.copy() for name, values in self._buffers.items()})
        state.update({name: module.state_dict() for name, module in self._modules.items()})
        return state

    def sync(self) -> None:
        """Copies the numbers that programs hold into all parameters, where they stay until the next run.

        Example:
            >>> from grilly import nn
            >>> nn.Linear(2, 3).sync()
        """
        for parameter in self.parameters():
            parameter.sync()

    def load_state_dict(self, state_dict: Mapping[str, Any], strict: bool = True) -> None:
        """Writes values into the parameters and buffers, which keep their identity.

        Args:
            state_dict: As returned by `state_dict`, or flat with dotted names, or a mixture.
            strict: Whether names must match exactly, none missing or unknown; default True.

        Raises:
            InvalidArgumentError: Names missing or unknown under `strict`, or a value of another shape; nothing is
                written then.
            InvalidTypeError: Not a mapping.

        Example:
            >>> from grilly import nn
            >>> a, b = nn.Linear(2, 3), nn.Linear(2, 3)
            >>> b.load_state_dict(a.state_dict())
            >>> bool((a.weight == b.weight).all())
            True
        """
        load(self, state_dict, strict)

    def to(self, device: str | None = None) -> Module:
        """Keeps a copy of every parameter on a device: `"vulkan"`, `"vulkan:N"` or `"cpu"`; returns the module.

        On `"cpu"`, the initial state, parameters are NumPy arrays only, and every call with arrays on a device copies
        them there.

        Raises:
            InvalidArgumentError: Another device string.
            IndexOutOfRangeError: There is no device N.

        Example:
            >>> from grilly import nn
            >>> nn.Linear(2, 3).to("cpu")([1.0, 2.0]).shape
            (3,)
        """
        if device is not None:
            _core.engine(device)
            for parameter in self.parameters():
                parameter.place(None if device == "cpu" else device)
        return self

    def cpu(self) -> Module:
        """`to("cpu")`.

        Example:
            >>> from grilly import nn
            >>> nn.ReLU().cpu()([1.0]).tolist()
            [1.0]
        """
        return self.to("cpu")

    def vulkan(self) -> Module:
        """`to("vulkan")`.

        Example:
            >>> from grilly import nn
            >>> nn.Linear(2, 3).vulkan()([[1.0, 2.0]]).shape
            (1, 3)
        """
        return self.to("vulkan")

    def __repr__(self) -> str:
        inner = ", ".join(f"{name}={module!r}" for name, module in self._modules.items())
        return f"{type(self).__name__}({inner})"
