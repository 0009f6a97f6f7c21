"""What calls of every class share: the device, the prompt, pools, a bar."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from grilly._core import EmbeddingModel, Encoded
from grilly.closed import closed
from grilly.devices import share
from grilly.errors import InvalidArgumentError, InvalidTypeError, UnsupportedError
from grilly.inputs import device_name, logger, need_type, positive
from grilly.sentence_transformer.sequence import ModuleSequence

__all__ = ["Calls", "limit_of", "progress"]

# Prompt names to look up, by task.
PROMPTS = {"query": ("query",), "document": ("document", "passage", "corpus")}
# Keys of a dict that is one input of sentence-transformers, and not a text with its task.
MODALITIES = {"text", "image", "audio", "video", "message"}
#: Values of a tokenizer's settings that change no number of a call.
USUAL = {"padding": (True, "longest", "max_length"), "truncation": (True, "longest_first")}


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Request:
    """What a call asks for beside its texts, in every class; a class adds its own in a subclass."""

    prompt_name: str | None = None
    prompt: str | None = None
    batch_size: int = 32
    show_progress_bar: bool | None = None
    device: Any = None
    pool: Any = None
    chunk_size: int | None = None
    options: Mapping[str, Any] = field(default_factory=dict)
    # The task of the method called, whose prompts are looked up if none is named.
    task: str | None = None


@closed()
@dataclass(frozen=True, kw_only=True, eq=False, repr=False)
class Call:
    """A checked request: the core that computes, and how."""

    core: EmbeddingModel
    options: dict[str, Any]

    def encode(self, texts: list[Any], advance: Any = None, tokens: bool = False) -> Encoded:
        """The outputs of texts, those of their tokens too with `tokens`."""
        return self.core.encode(texts, self.options | {"tokens": tokens}, advance)

    def encode_rows(self, ids: list[list[int]], segments: list[list[int]]) -> Encoded:
        """The outputs of rows of token ids as they are, and those of their tokens."""
        return self.core.encode_rows((ids, segments), self.options | {"tokens": True})

    def encode_pairs(self, firsts: list[Any], seconds: list[Any], advance: Any = None) -> Encoded:
        """The outputs of pairs of texts."""
        return self.core.encode_pairs(firsts, seconds, self.options, advance)


class Calls(ModuleSequence):
    """A model that computes, alone or for a pool."""

    def _call(self, request: Request, task: str | None) -> Call:
        """Checks a request for texts of a task."""
        size = positive(request.batch_size, "batch_size")
        prompt = self._prompt(request.prompt, request.prompt_name, request.task)
        core = self._core_on(self._devices(request.device, request.pool, request.chunk_size))
        options = {"prompt": prompt, "task": task, "batch_size": size, "tokens": False}
        return Call(core=core, options=options | {"max_length": limit_of(request.options)})

    def _devices(self, device: Any, pool: Any, chunk_size: int | None) -> Any:
        """The device of a call, or several; None for the model's own, also in place of several that do not exist."""
        if pool is not None:
            check_pool(pool)
        elif isinstance(device, list | tuple):
            pool = self.start_multi_process_pool(device)
        else:
            return device
        if chunk_size is not None:
            positive(chunk_size, "chunk_size")
        names: list[str] = pool["processes"]
        return names if share(names, self._options.mixed or self._core.numerics != "run") else None

    def _prompt(self, prompt: Any, prompt_name: str | None, task: str | None = None) -> str:
        """The text prepended to every input; `task` is the one whose prompts are looked up if none is named."""
        if prompt is not None:
            none = isinstance(prompt, int) and not prompt  # as in sentence-transformers, which asks whether it is true
            if not none:
                need_type(prompt, str, "prompt", "str")
            if prompt_name is not None:
                said = by_position(prompt_name)
                logger.warning("both prompt and prompt_name are given; prompt_name is ignored%s", said)
            return "" if none else str(prompt)
        if prompt_name is None and task is not None:
            prompt_name = next((name for name in PROMPTS[task] if name in self.prompts), None)
        if prompt_name is not None and prompt_name not in self.prompts:
            raise InvalidArgumentError(
                f"prompt_name is {prompt_name!r}, expected one of {list(self.prompts)}{by_position(prompt_name)}"
            )
        name = self.default_prompt_name if prompt_name is None else prompt_name
        return "" if name is None else self.prompts.get(name, "")

    def _task(self, texts: Any, options: Mapping[str, Any], task: str | None) -> tuple[Any, str | None]:
        """The texts, and the task that chooses among routes and adapters; `task` is that of the method called."""
        given = options.get("task")
        if task is not None and given is not None:
            raise InvalidArgumentError(f"task is {given!r}, and encode_{task} has a task of its own; use encode")
        task = given if task is None else task
        return unwrapped(texts) if task is None and self._core.starts_with_routes else (texts, task)

    # ------------------------------------------------------------------------------------------- pools of processes

    def start_multi_process_pool(self, target_devices: Iterable[Any] | None = None) -> dict[str, Any]:
        """The `pool` argument of `encode`. No process is started: a single one uses all of the devices.

        Args:
            target_devices: Devices by name, which share the batches of a call if so many of one kind exist; otherwise
                the model's own device computes, which is logged once. Default: the model's own.

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
        given = [self.requested_device] if target_devices is None else target_devices
        devices = [device_name(device) for device in given]
        if not devices:
            raise InvalidArgumentError("the list of devices is empty, expected at least one device")
        alone = f"else on {self.requested_device}"
        self._say(
            f"no process is started for {devices}: this one encodes on them where they can share batches, {alone}"
        )
        return {"input": None, "output": None, "processes": devices}

    @staticmethod
    def stop_multi_process_pool(pool: dict[str, Any]) -> None:
        """Ends a pool; `encode` rejects it afterwards.

        Example:
            >>> pool = model.start_multi_process_pool()
            >>> model.stop_multi_process_pool(pool)
        """
        check_pool(pool)
        pool["processes"] = [None] * len(pool["processes"])


def limit_of(options: Mapping[str, Any]) -> int | None:
    """The `max_length` of a call's `processing_kwargs`, of texts; padding changes no number.

    Raises:
        UnsupportedError: Anything else in it.

    Example:
        >>> from grilly.sentence_transformer.calls import limit_of
        >>> limit_of({"processing_kwargs": {"text": {"padding": "max_length", "max_length": 64}}})
        64
    """
    given = options.get("processing_kwargs") or {}
    texts = given.get("text", {}) if isinstance(given, Mapping) and set(given) <= {"text"} else None
    if not isinstance(texts, Mapping) or any(value not in USUAL.get(name, (value,)) for name, value in texts.items()):
        raise UnsupportedError(f"processing_kwargs={given!r}: a call takes padding, truncation, max_length of 'text'")
    if unknown := set(texts) - {*USUAL, "max_length"}:
        raise UnsupportedError(f"processing_kwargs has {sorted(unknown)}: a call takes padding, truncation, max_length")
    most = texts.get("max_length")
    return None if most is None else positive(most, "max_length")


def by_position(prompt_name: Any) -> str:
    """What to say where a number is the name of a prompt: former versions had `batch_size` in its position."""
    return f"; is it batch_size={prompt_name!r}? Give it by its name" if isinstance(prompt_name, int) else ""


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
        >>> from grilly.sentence_transformer.calls import unwrapped
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


@contextmanager
def progress(total: int | None, shown: bool | None, done: int = 0) -> Iterator[Callable[[int], object] | None]:
    """Yields a callback for the number of texts done, `done` of them before, or None without a bar."""
    if shown is None:
        shown = logger.isEnabledFor(logging.INFO)
    if not shown:
        yield None
        return
    from tqdm.auto import tqdm

    with tqdm(total=total, initial=done, desc="Texts", unit="text") as bar:
        yield lambda done: bar.update(done - bar.n)
