"""Properties of a loaded model of any class: prompts, the limit of tokens, the device."""

import json
import math
import os
from collections.abc import Mapping
from typing import Any, ClassVar

from grilly.errors import GrillyError
from grilly.inputs import device_name, logger, merge_prompts, need_one_of, positive
from grilly.place import Place
from grilly.sentence_transformer.aliases import say_once
from grilly.sentence_transformer.arguments import ModelArguments, Options
from grilly.sentence_transformer.loaded import Loaded
from grilly.tables import PlanText
from grilly.tokenizer import Tokenizer
from grilly.vocabulary import UNLIMITED

__all__ = ["Properties"]


class Properties(Loaded):
    """A loaded model with its prompts and properties."""

    #: Prompts that every model of the class has, empty unless it defines them.
    usual_prompts: ClassVar[tuple[str, ...]] = ("query", "document")
    kept = (*Loaded.kept, "_trust_remote_code")

    def _load(self, arguments: ModelArguments, options: Options | None = None) -> None:
        merge_prompts(arguments.prompts, (), ())  # report a wrong type before searching for the model
        for name in ("num_threads", "memory_limit"):
            if getattr(arguments, name) is not None:
                positive(getattr(arguments, name), name)
        super()._load(arguments, options)
        self._trust_remote_code = arguments.trust_remote_code
        settings = self._core.settings
        self.prompts = merge_prompts(arguments.prompts, settings["prompts"], self.usual_prompts)
        self.default_prompt_name = arguments.default_prompt_name or settings["default_prompt_name"]
        need_one_of(self.default_prompt_name, (*self.prompts, None), "default_prompt_name")
        self.config: dict[str, Any] = json.loads(self._core.config_json)
        self.model_type = self._core.model_type

    def evaluate(self, evaluator: Any, output_path: str | os.PathLike[str] | None = None) -> Any:
        """What an evaluator gives for the model: a number, or metrics by name.

        Args:
            evaluator: One of `grilly.evaluation`, or a function of the model and a folder.
            output_path: The folder that it writes to, created if missing; default: it writes nothing.

        Example:
            >>> from grilly.evaluation import TranslationEvaluator
            >>> model.evaluate(TranslationEvaluator(["A cat."], ["A kitten."]))["mean_accuracy"]
            1.0
        """
        if output_path is None:
            return evaluator(self, None)
        os.makedirs(output_path, exist_ok=True)
        return evaluator(self, os.fspath(output_path))

    def compile(self, *arguments: Any, **options: Any) -> None:
        """Does nothing but log a line: plans are made when a model is loaded, and torch compiles nothing here.

        Example:
            >>> model.compile()
        """
        logger.info("compile() does nothing: a model's plan is made when it is loaded")

    # --------------------------------------------------------------------------------------------------------- device

    @property
    def device(self) -> Place:
        """`"cpu"`, the place of all results, tensors included; `requested_device` is the one that was asked for.

        It is a str that torch takes for a device, with `type` and `index`. `backend` and `device_name` say where
        batches run.
        """
        return Place(self._options.device)

    @property
    def requested_device(self) -> str:
        """The device that was asked for, by name; `backend` says where batches run."""
        return self._options.device

    @property
    def _target_device(self) -> Place:
        """The older name of `device`; setting it is `to(device)`."""
        logger.warning("%s._target_device is the older name of device", type(self).__name__)
        return self.device

    @_target_device.setter
    def _target_device(self, device: Any) -> None:
        logger.warning("%s._target_device is the older way to write to(device)", type(self).__name__)
        self._reload(device_name(device))

    @property
    def trust_remote_code(self) -> bool:
        """The value that was given to the constructor; may be set. No code of a model's repository is ever run."""
        return self._trust_remote_code

    @trust_remote_code.setter
    def trust_remote_code(self, value: bool) -> None:
        if value:
            self._say("trust_remote_code=True: no code of the model's repository is run")
        self._trust_remote_code = value

    # --------------------------------------------------------------------------------------------------------- tokens

    @property
    def processor(self) -> Tokenizer:
        """The same as `tokenizer`."""
        return self.tokenizer

    @property
    def max_seq_length(self) -> int | float:
        """Maximum tokens per text, special ones included; may be set, up to the model's position table.

        `math.inf` for a StaticEmbedding without a limit of its own. With a Router it is the largest of the routes' and
        sets all.
        """
        limit = self._core.max_seq_length
        return math.inf if limit == UNLIMITED else limit

    @max_seq_length.setter
    def max_seq_length(self, value: int | float) -> None:
        limit = UNLIMITED if value == math.inf else positive(value, "max_seq_length")
        self._held.set_limit(limit)

    def get_max_seq_length(self) -> int | float:
        """The same as `max_seq_length`.

        Example:
            >>> model.get_max_seq_length()
            256
        """
        return self.max_seq_length

    def preprocess(self, inputs: Any, prompt: str | None = None, **options: Any) -> dict[str, Any]:
        """Token ids of texts as rows of equal length, padded as the model's tokenizer does.

        Args:
            inputs: A list of str.
            prompt: Prepended to every text.
            **options: `task`, which chooses among the tokenizers of a Router's routes, and others without effect.

        Returns:
            `input_ids` and `attention_mask` `(N, T)`, and `token_type_ids` if the tokenizer produces segments: torch
            tensors where torch is installed, else int64 arrays; with them `modality`, and `prompt_length` for a prompt.
            An empty dict for no texts.

        Source: `sentence_transformers.SentenceTransformer.preprocess`, version 6.2.

        Example:
            >>> model.preprocess(["Hello", ""])["attention_mask"].tolist()
            [[1, 1, 1], [1, 1, 0]]
        """
        return self.tokenizer.preprocess(inputs, prompt, options)

    def tokenize(self, texts: Any, **options: Any) -> dict[str, Any]:
        """The older name of `preprocess`.

        Example:
            >>> model.tokenize(["Hello", ""])["input_ids"].shape[1]
            3
        """
        say_once("tokenize is an older name; use preprocess")
        return self.preprocess(texts, **options)

    # ----------------------------------------------------------------------------------------------- what the model is

    @property
    def modalities(self) -> list[str]:
        """Supported modalities: `["text"]`."""
        return ["text"]

    def supports(self, modality: Any) -> bool:
        """Whether the model supports `modality`; only `"text"` is supported.

        Example:
            >>> model.supports("text"), model.supports("image")
            (True, False)
        """
        return bool(modality == "text")

    def is_singular_input(self, inputs: Any) -> bool:
        """Whether `inputs` is one text, alone or in a dict from its task's name, whose embedding has one axis.

        Example:
            >>> model.is_singular_input("A cat."), model.is_singular_input(["A cat."])
            (True, False)
        """
        return isinstance(inputs, str | Mapping)

    def get_model_kwargs(self) -> list[str]:
        """Keywords that this model's modules take in `encode`: `task` for adapters, and `modality` too for a Router.

        Example:
            >>> model.get_model_kwargs()
            []
        """
        return list(self._core.call_options)

    @property
    def backend(self) -> str:
        """`"vulkan"` or `"cpu"`: where batches run; it changes when a device fails and the CPU takes over."""
        return self._core.backend

    def get_backend(self) -> str:
        """The same as `backend`.

        Example:
            >>> model.get_backend() == model.backend
            True
        """
        return self.backend

    @property
    def device_name(self) -> str:
        """Name of the device that batches run on."""
        name, _ = self._core.device
        return name

    @property
    def device_reason(self) -> str:
        """Why batches run on that device, in one sentence."""
        _, reason = self._core.device
        return reason

    @property
    def numerics(self) -> str:
        """What the numbers mean: `"run"`, those of the device, or `"everywhere-1"`, the same bits on every device.

        Example:
            >>> model.numerics
            'run'
        """
        return self._core.numerics

    @property
    def plan(self) -> PlanText:
        """The plan of a batch as text: the steps in order, their buffers, and what was fused, left or declined.

        Notebooks show a table of it.

        Example:
            >>> "split: left layer 0 attention as it is" in model.plan
            True
        """
        return PlanText(self._core.plan_text)

    def _columns(self) -> int:
        """Columns of an embedding, or scores of a pair."""
        return self._core.dimension

    def __repr__(self) -> str:
        try:
            modules = self._core.modules
        except GrillyError:  # after a fork, or restored where it cannot be loaded
            return f"{type(self).__name__}({self.model_name!r}, unusable)"
        lines = [f"  ({number}): {name}({settings})" for number, (name, settings) in enumerate(modules)]
        return "\n".join([f"{type(self).__name__}(", *lines, ")"])
