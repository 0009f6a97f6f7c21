"""What every integration needs: its library, which may be absent, and a model, by name or loaded."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from grilly.errors import InvalidArgumentError, InvalidTypeError, MissingLibraryError, UnsupportedError

__all__ = ["library", "loaded", "settings"]

#: Attributes of models that are arguments of their constructors, besides the limit of tokens.
KEPT = (
    "dtype", "truncate_dim", "prompts", "default_prompt_name", "similarity_fn_name", "max_active_dims", "numerics",
    "keep_in_fp32_modules",
)  # fmt: skip


@contextmanager
def library(package: str) -> Iterator[None]:
    """Imports inside it that fail raise `MissingLibraryError`, which names the package of PyPI.

    Example:
        >>> from grilly.integrations.loading import library
        >>> with library("no-such-package"):
        ...     import no_such_module
        Traceback (most recent call last):
        ...
        grilly.errors.MissingLibraryError: this integration needs no-such-package: pip install no-such-package (No \
module named 'no_such_module')
    """
    try:
        yield
    except ImportError as error:
        message = f"this integration needs {package}: pip install {package} ({error})"
        raise MissingLibraryError(message, name=error.name) from error


def loaded(model: Any, options: Mapping[str, Any], kind: type[Any], *others: type[Any]) -> Any:
    """A model of a class: the one that is given, or a new one.

    Args:
        model: The name or the folder of a model, or a model of `kind` or of one of `others`.
        options: Arguments of the constructor of `kind`, for a name.

    Raises:
        InvalidTypeError: A model of another class.
        InvalidArgumentError: `options` beside a model that is loaded.

    Example:
        >>> from grilly import SentenceTransformer
        >>> from grilly.integrations.loading import loaded
        >>> loaded(ranker_model, {}, SentenceTransformer)
        Traceback (most recent call last):
        ...
        grilly.errors.InvalidTypeError: model is of type CrossEncoder, expected the name or the folder of a model, or \
a SentenceTransformer
    """
    if isinstance(model, str | os.PathLike):
        return kind(model, **options)
    if not isinstance(model, (kind, *others)):
        names = " or ".join(known.__name__ for known in (kind, *others))
        raise InvalidTypeError(
            f"model is of type {type(model).__name__}, expected the name or the folder of a model, or a {names}"
        )
    if options:
        raise InvalidArgumentError(f"{', '.join(options)}: arguments of a constructor, and the model is loaded")
    return model


def settings(model: Any, options: Mapping[str, Any], kind: type[Any]) -> tuple[str, dict[str, Any]]:
    """A model's name and the arguments of its constructor, as JSON has them, where a library writes these down.

    Args:
        model: As for `loaded`.
        options: Of a model by name.
        kind: The class whose constructor will be called with them.

    Raises:
        InvalidTypeError: A model of another class, which that constructor does not make.
        UnsupportedError: A model that was changed by what is not an argument.

    Example:
        >>> from grilly.integrations.loading import settings
        >>> settings("all-MiniLM-L6-v2", {"device": "cpu"}, object)
        ('all-MiniLM-L6-v2', {'device': 'cpu'})
        >>> settings(ranker_model, {}, type(ranker_model))[1]["dtype"]
        'float32'
    """
    if isinstance(model, str | os.PathLike):
        return os.fspath(model), dict(options)
    if type(model) is not kind:
        name = type(model).__name__
        raise InvalidTypeError(f"a {name} cannot be written down: its name would make a {kind.__name__}")
    opened, source, names = model._options, model._source, inspect.signature(kind).parameters
    changed = [opened.rounded_products, opened.pooling, model._include_prompt, model._token_settings.truncation_side]
    if "activation_fn" in names and model.activation_fn is not model.get_default_activation_fn():
        changed.append("activation_fn")
    if any(value is not None for value in changed):
        raise UnsupportedError("this model was changed by what is not a value of JSON: save it, and give the folder")
    found: dict[str, Any] = {name: getattr(model, name) for name in KEPT if name in names}
    found |= {name: getattr(source, name) for name in ("cache_folder", "revision", "local_files_only")}
    found |= json.loads(opened.arguments)
    found["device"] = model.requested_device
    if model._held.limit is not None:
        found["max_length" if "max_length" in names else "max_seq_length"] = model.max_seq_length
    if opened.default_task is not None:
        found["model_kwargs"] |= {"default_task": opened.default_task}
    kept = {name: value for name, value in found.items() if value not in (None, False, {}, [])}
    return os.fspath(source.model_name_or_path), kept
