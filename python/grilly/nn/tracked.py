"""Arrays that notice the writes of NumPy's functions and methods, and views of them that pass these on."""

from __future__ import annotations

import functools
import inspect
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

__all__: list[str] = []

#: Functions whose first argument is the destination.
IN_PLACE = (np.copyto, np.put, np.place, np.putmask, np.put_along_axis, np.fill_diagonal)
#: Options by which other functions write into their first argument, and the values for which they do not.
OPTIONS = {"copy": True, "overwrite_input": False}


class Tracked(np.ndarray[Any, np.dtype[Any]]):
    """An array that calls `touch` of the parameter whose memory it is when NumPy writes into it."""

    #: The parameter whose view this may be.
    _root: weakref.ref[Any] | None

    def __array_finalize__(self, source: Any) -> None:
        # Of every view, and of copies, whose memory is not the parameter's.
        self._root = source._origin() if isinstance(source, Tracked) else None

    def _origin(self) -> weakref.ref[Any] | None:
        return self._root

    def _owner(self) -> Any:
        """The parameter whose memory this is, or None."""
        found = None if self._root is None else self._root()
        return found if found is not None and np.may_share_memory(plain(self), plain(found)) else None

    def _may_write(self) -> None:
        """Rejects a write that is about to begin."""

    def _wrote(self) -> None:
        """Marks the parameter as changed."""
        owner = self._owner()
        if owner is not None:
            owner._wrote()

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, out: Any = None, **options: Any) -> Any:
        given = () if out is None else out
        if given:
            options["out"] = tuple(map(plain, given))
        found = written(
            inputs[:1] if method == "at" else given, lambda: getattr(ufunc, method)(*map(plain, inputs), **options)
        )
        if not given:
            return found
        made = found if isinstance(found, tuple) else (found,)
        results = [new if wanted is None else wanted for wanted, new in zip(given, made, strict=True)]
        return results[0] if len(results) == 1 else tuple(results)

    def __array_function__(self, function: Any, types: Any, args: Any, kwargs: Any) -> Any:
        run = super().__array_function__
        return written(destinations(function, args, kwargs), lambda: run(function, types, args, kwargs))

    def __setitem__(self, place: Any, value: Any) -> None:
        written([self], lambda: super(Tracked, self).__setitem__(place, value))

    def __getitem__(self, place: Any) -> Any:
        own = plain(self)
        found = own[place]
        if not isinstance(found, np.ndarray) or found.base is None or not np.may_share_memory(found, own):
            return found
        view = found.view(View)
        view._root = self._origin()
        return view

    @property
    def flat(self) -> Any:
        """The elements in the order of C, as `numpy.ndarray.flat`."""
        return Flat(self)

    @flat.setter
    def flat(self, values: Any) -> None:
        self.flat[:] = values

    @property
    def real(self) -> Any:
        """The array itself, as `numpy.ndarray.real` of real numbers."""
        return self

    @real.setter
    def real(self, values: Any) -> None:
        self[...] = values


def method(name: str, *, gives: bool = False) -> Callable[..., Any]:
    """The method of arrays of a name, which writes into the array itself, or into `out` of those it gives."""
    run: Any = getattr(np.ndarray, name)

    def tracked(self: Any, *args: Any, **kwargs: Any) -> Any:
        into = [*args, *kwargs.values()][1:] if gives else [self]
        return written(into, lambda: run(self, *args, **kwargs))

    tracked.__name__, tracked.__qualname__ = name, f"Tracked.{name}"
    tracked.__doc__ = f"`numpy.ndarray.{name}`; a copy on a device is renewed where it writes."
    return tracked


# `out` of the other methods goes through ufuncs.
for _name in ("byteswap", "fill", "partition", "put", "resize", "setfield", "sort"):
    setattr(Tracked, _name, method(_name))
for _name in ("choose", "compress", "dot", "take"):
    setattr(Tracked, _name, method(_name, gives=True))


class View(Tracked):
    """A view by an index of a parameter."""

    def __repr__(self) -> str:
        return repr(plain(self))

    def __reduce__(self) -> Any:
        return plain(self).__reduce__()

    def __deepcopy__(self, memo: dict[int, Any] | None, /) -> Any:
        return np.array(self)


class Flat:
    """`numpy.flatiter` of a tracked array."""

    def __init__(self, array: Tracked) -> None:
        self._array, self._flat = array, np.ndarray.flat.__get__(array)

    def __getitem__(self, place: Any) -> Any:
        return self._flat[place]

    def __setitem__(self, place: Any, value: Any) -> None:
        written([self._array], lambda: self._flat.__setitem__(place, value))

    def __len__(self) -> int:
        return len(self._flat)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._flat)

    def __next__(self) -> Any:
        return next(self._flat)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> Any:
        return np.array(self._flat.copy(), dtype)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._flat, name)


def plain(value: Any) -> Any:
    """A tracked array as a view of NumPy's own class; anything else as it is."""
    return value.view(np.ndarray) if isinstance(value, Tracked) else value


def written(into: Any, run: Callable[[], Any]) -> Any:
    """Runs what writes into some of these values."""
    tracked = [each for each in into if isinstance(each, Tracked)]
    for each in tracked:
        each._may_write()
    try:
        return run()
    finally:
        for each in tracked:
            each._wrote()


def destinations(function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[Any]:
    """The arguments into which a function of NumPy writes.

    Example:
        >>> from grilly.nn.tracked import destinations
        >>> destinations(np.copyto, (1, 2), {}), destinations(np.take, (1, 2, 0, 3), {}), destinations(np.sort, (), {})
        ([1], [3], [])
    """
    names = _names(function)
    if names is None:  # an older NumPy does not say
        return [*args[2:], *kwargs.values()]
    given = dict(zip(names, args, strict=False)) | kwargs
    found = list(given["out"]) if isinstance(given.get("out"), tuple) else [given.get("out")]
    takes = any(bool(given.get(name, usual)) != usual for name, usual in OPTIONS.items() if name in names)
    if function in IN_PLACE or takes:
        found.append(given.get(names[0]))
    return [each for each in found if each is not None]


@functools.cache
def _names(function: Any) -> list[str] | None:
    """The names of a function's positional arguments."""
    try:
        return [
            name for name, held in inspect.signature(function).parameters.items() if held.kind < held.VAR_POSITIONAL
        ]
    except (TypeError, ValueError):
        return None
