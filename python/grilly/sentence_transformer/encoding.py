"""From texts to embeddings: the shared implementation of both classes' `encode`."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from grilly.errors import InvalidArgumentError, InvalidTypeError
from grilly.inputs import as_list, check_options, device_name, need_type, positive
from grilly.outputs import normalize_rows, stored, to_tensor, token_features
from grilly.quantization import PRECISIONS, quantize_embeddings
from grilly.sentence_transformer.settings import Settings

__all__ = ["Encoding", "Output", "Texts", "Wanted", "progress"]

logger = logging.getLogger("grilly")

Texts = str | Sequence[str] | npt.NDArray[Any]
Output = Literal["sentence_embedding", "token_embeddings"]
OUTPUTS = (None, "sentence_embedding", "token_embeddings")
# Prompt names to look up, by task.
PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}
# Keys of a dict that is one input of sentence-transformers, and not a text with its task.
MODALITIES = {"text", "image", "audio", "video", "message"}


@dataclass(frozen=True, kw_only=True)
class Wanted:
    """The arguments of `encode` besides the texts."""

    batch_size: int
    show_progress_bar: bool | None
    normalize_embeddings: bool
    prompt_name: str | None
    prompt: str | None
    output_value: str | None = "sentence_embedding"
    precision: str | None
    convert_to_numpy: bool = True
    convert_to_tensor: bool = False
    device: Any = None
    truncate_dim: int | None
    pool: Any
    chunk_size: int | None
    options: Mapping[str, Any] = field(default_factory=dict)
    # The task of the method called, whose prompts are looked up if none is named.
    task: str | None = None

    @classmethod
    def of(cls, values: Mapping[str, Any], task: str | None = None) -> Wanted:
        """The arguments among a method's local variables."""
        known = {each.name for each in fields(cls)} - {"task"}
        return cls(**{name: value for name, value in values.items() if name in known}, task=task)


class Encoding(Settings):
    """A model that encodes, alone or for a pool."""

    def _encode(self, texts: Any, wanted: Wanted) -> Any:
        """The result of `encode`, `encode_query` and `encode_document`."""
        check(wanted, self._core.call_options)
        texts, task = self._task(texts, wanted)
        size = positive(wanted.batch_size, "batch_size")
        kept = self.truncate_dim if wanted.truncate_dim is None else positive(wanted.truncate_dim, "truncate_dim")
        prefix = self._prompt(wanted.prompt, wanted.prompt_name, wanted.task)
        items, single = as_list(texts)
        core = self._core_on(self._one_device(wanted))
        sentences_only = wanted.output_value == "sentence_embedding"
        if not items:
            core.encode([], "", size, False)  # a closed model refuses an empty list too
            if wanted.convert_to_tensor and sentences_only:
                return to_tensor(np.array([]))
            return np.array([]) if wanted.convert_to_numpy and sentences_only else []

        with progress(len(items), wanted.show_progress_bar) as advance:
            rows, tokens, ids = core.encode(items, prefix, size, not sentences_only, advance, task)
        rows = rows if kept is None or kept >= rows.shape[1] else np.ascontiguousarray(rows[:, :kept])

        dtype, precision = core.dtype_for(task), wanted.precision or "float32"
        result: Any
        if wanted.output_value is None:
            result = token_features(stored(rows, dtype), [stored(each, dtype) for each in tokens], ids)
        elif wanted.output_value == "token_embeddings":
            tokens = [stored(each, dtype) for each in tokens]
            result = tokens if precision == "float32" else quantize_embeddings(tokens, precision)
        else:
            result = stored(normalize_rows(rows) if wanted.normalize_embeddings else rows, dtype)
            if precision != "float32":
                result = quantize_embeddings(result, precision)
            if wanted.convert_to_tensor:
                result = to_tensor(result, dtype if precision == "float32" else None)
            elif not wanted.convert_to_numpy:
                result = list(result)
        return result[0] if single else result

    def _task(self, texts: Any, wanted: Wanted) -> tuple[Any, str | None]:
        """The texts, and the task that chooses among routes and adapters."""
        task = wanted.options.get("task")
        if wanted.task is not None and task is not None:
            raise InvalidArgumentError(f"task is {task!r}, and encode_{wanted.task} has a task of its own; use encode")
        task = task if wanted.task is None else wanted.task
        return unwrapped(texts) if task is None and self._core.starts_with_routes else (texts, task)

    def _one_device(self, wanted: Wanted) -> Any:
        """The device of a call; None for the model's own, which is also used for pools and several devices."""
        if wanted.pool is not None:
            check_pool(wanted.pool)
        elif isinstance(wanted.device, list | tuple):
            self.start_multi_process_pool(wanted.device)
        else:
            return wanted.device
        if wanted.chunk_size is not None:
            positive(wanted.chunk_size, "chunk_size")
        return None

    def _prompt(self, prompt: str | None, prompt_name: str | None, task: str | None = None) -> str:
        """The text prepended to every input."""
        if prompt is not None:
            need_type(prompt, str, "prompt", "str")
            if prompt_name is not None:
                logger.warning("both prompt and prompt_name are given; prompt_name is ignored")
            return prompt
        if prompt_name is None and task is not None:
            prompt_name = next((name for name in PROMPTS[task] if name in self.prompts), None)
        if prompt_name is not None and prompt_name not in self.prompts:
            raise InvalidArgumentError(f"prompt_name is {prompt_name!r}, expected one of {list(self.prompts)}")
        name = self.default_prompt_name if prompt_name is None else prompt_name
        return "" if name is None else self.prompts.get(name, "")

    # ------------------------------------------------------------------------------------------- pools of processes

    def start_multi_process_pool(self, target_devices: Iterable[Any] | None = None) -> dict[str, Any]:
        """The `pool` argument of `encode`. No process is started: a single one uses the model's whole device.

        Args:
            target_devices: Devices by name; they are checked, logged once and not used. Default: the model's own.

        Returns:
            A dict with the keys `input`, `output` and `processes`, as in sentence-transformers.

        Raises:
            InvalidArgumentError: Not a device name, or an empty list.

        Source: `sentence_transformers.SentenceTransformer.start_multi_process_pool`, version 6.2.

        Example:
            >>> pool = model.start_multi_process_pool(["cpu", "cpu"])
            >>> model.encode(["A cat.", "A kitten."], pool=pool).shape
            (2, 384)
            >>> model.stop_multi_process_pool(pool)
        """
        devices = [self.device] if target_devices is None else [device_name(device) for device in target_devices]
        if not devices:
            raise InvalidArgumentError("the list of devices is empty, expected at least one device")
        self._say(f"no process is started for {devices}: this one encodes on {self.device}")
        return {"input": None, "output": None, "processes": devices}

    @staticmethod
    def stop_multi_process_pool(pool: dict[str, Any]) -> None:
        """Ends a pool; `encode` rejects it afterwards.

        Example:
            >>> pool = model.start_multi_process_pool()
            >>> model.stop_multi_process_pool(pool)
        """
        check_pool(pool)
        pool["processes"] = []


def check_pool(pool: Any) -> None:
    """Rejects a pool that lists no devices."""
    if not isinstance(pool, dict) or not isinstance(pool.get("processes"), list):
        raise InvalidTypeError(f"pool is of type {type(pool).__name__}, expected what start_multi_process_pool gives")
    if not any(isinstance(device, str) for device in pool["processes"]):
        raise InvalidArgumentError(
            "pool has been stopped, or is of another package; start_multi_process_pool gives one"
        )


def unwrapped(texts: Any) -> tuple[Any, str | None]:
    """Texts that are given as dicts from their task's name, the same for all, and that name; other texts unchanged.

    Example:
        >>> from grilly.sentence_transformer.encoding import unwrapped
        >>> unwrapped([{"query": "A cat."}, {"query": "A dog."}])
        (['A cat.', 'A dog.'], 'query')
    """
    items, single = ([texts], True) if isinstance(texts, Mapping) else (texts, False)
    if not isinstance(items, list | tuple) or not items or not all(isinstance(item, Mapping) for item in items):
        return texts, None
    names = {name for item in items for name in item}
    if names & MODALITIES or any(len(item) != 1 for item in items):
        return texts, None
    if len(names) > 1:
        raise InvalidArgumentError(f"texts have the tasks {sorted(names, key=str)}, expected one task in a call")
    name = names.pop()
    need_type(name, str, "task", "str")
    found = [item[name] for item in items]
    return (found[0] if single else found), name


def check(wanted: Wanted, known: Iterable[str]) -> None:
    """Rejects invalid arguments, independently of the texts; `known` keywords are the model's own."""
    if wanted.output_value not in OUTPUTS:
        raise InvalidArgumentError(
            f"output_value is {wanted.output_value!r}, expected 'sentence_embedding', 'token_embeddings' or None"
        )
    if wanted.precision is not None and wanted.precision not in PRECISIONS:
        raise InvalidArgumentError(f"precision is {wanted.precision!r}, expected one of {', '.join(PRECISIONS)}")
    if wanted.output_value is None and wanted.precision not in (None, "float32"):
        raise InvalidArgumentError(f"precision is {wanted.precision!r}, and output_value=None gives 'float32' only")
    check_options("encode", wanted.options, known)


@contextmanager
def progress(total: int, shown: bool | None) -> Iterator[Callable[[int], object] | None]:
    """Yields a callback for the number of texts done, or None without a bar."""
    if shown is None:
        shown = logger.isEnabledFor(logging.INFO)
    if not shown:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, desc="Texts", unit="text") as bar:
        yield lambda done: bar.update(done - bar.n)
