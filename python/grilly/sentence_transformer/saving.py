"""Saving of a model's files to another folder, with the current settings."""

import json
import math
import os
from pathlib import Path
from typing import Any, ClassVar

from grilly import _core
from grilly.errors import InvalidArgumentError, UnsupportedError
from grilly.hub import FIRST, ROUTERS, WEIGHTS, listed
from grilly.inputs import path_text
from grilly.sentence_transformer.arguments import DTYPE_KEYS
from grilly.sentence_transformer.module_kinds import FLAGS
from grilly.sentence_transformer.saved_files import (
    TEMPLATES,
    copy,
    put,
    read_json,
    refuse_links,
    write_json,
    write_tensors,
)
from grilly.sentence_transformer.saved_modules import Unlisted, settings_of

__all__ = ["Saving"]

# Settings of every class in config_sentence_transformers.json, the last of those alone whose results are compared.
COMMON_SETTINGS = ("prompts", "default_prompt_name", "similarity_fn_name")
# Keys of the settings' arguments for other libraries that the saved files record elsewhere.
LIMIT_KEYS = ("model_max_length",)
# What config.json of a converted model says: of ternary matrices what transformers reads, too; of the others it warns
# that it does not know the method, and reads floats.
METHODS = {
    "ternary": {"quant_method": "bitnet", "linear_class": "autobitlinear", "quantization_mode": "online"},
    "binary": {"quant_method": "grilly_1bit"},
}
# Alone it is the method, beside another a key: the products that are left are in 8-bit integers.
INTEGERS = "grilly_int8"
#: Why a model whose first module is of this kind cannot be saved.
NO_FILES = {
    "StaticEmbedding": "model2vec leaves unknown words out of its texts, which sentence-transformers' files cannot say",
    "Transformer": "sentence-transformers has no files for the sparse and multi-vector results of BGE-M3",
}
CARD = Path(__file__).with_name("card.md")


class Saving(Unlisted):
    """A model of any class that can be saved."""

    #: Of a new README.md: the hub's name of the task, what texts become, and lines that call the model.
    _card: ClassVar[tuple[str, str, str]]

    def save_pretrained(
        self,
        path: str | os.PathLike[str],
        model_name: str | None = None,
        create_model_card: bool = True,
        train_datasets: list[str] | None = None,
        safe_serialization: bool = True,
    ) -> None:
        """Writes the model to the folder `path`, which sentence-transformers and this package load.

        The files are those the model was loaded from, and those of modules that its folder does not list. Prompts, the
        default prompt, `max_seq_length`, the similarity, the other settings of the class, the pooling of prompts, what
        was set on the tokenizer and, in config.json, the element type are written with their current values. The
        weights are copied unchanged: after `half()` or `quant.convert`, float32 files are rounded again at each load;
        of a converted model, and of one in int8, config.json says so.

        Each file is replaced only when the new one is complete, so that a model may be saved over its own folder; a
        link of its name is replaced itself. Other files in `path` are not touched.

        Args:
            path: A folder; created if missing.
            model_name: The model's name in a new README.md.
            create_model_card: Whether README.md is written: the model's own, or else a short one.
            train_datasets: Accepted as in sentence-transformers; not used.
            safe_serialization: Accepted likewise; weights stay in the format that they have.

        Raises:
            InvalidArgumentError: `path` is a file, or a folder in it that belongs to the model is a link.
            UnsupportedError: `activation_fn` of a CrossEncoder is a function that files cannot name; a model whose
                format only its own folder has.
            OSError: A file cannot be read or written.

        Source: `sentence_transformers.SentenceTransformer.save_pretrained`, version 6.2.

        Example:
            >>> import tempfile
            >>> from grilly import SentenceTransformer
            >>> with tempfile.TemporaryDirectory() as folder:
            ...     model.save_pretrained(folder)
            ...     SentenceTransformer(folder, device="cpu").max_seq_length == model.max_seq_length
            True
        """
        # Its imports would take an eighth of the time of this package's.
        import shutil

        target = Path(os.path.abspath(path_text(path, "path")))
        if target.exists() and not target.is_dir():
            raise InvalidArgumentError(f"path is {os.fspath(path)!r}, a file, expected a folder")
        if not safe_serialization:
            self._say("safe_serialization=False: weights are copied in the format that they have")
        target.mkdir(parents=True, exist_ok=True)
        # In the same folder as the files to replace, so that a rename replaces each.
        place = target / f".saving-{os.urandom(8).hex()}"
        try:
            place.mkdir(mode=0o700)
            put(place, target, self._write(place, target, create_model_card, model_name))
        finally:
            # Named before it is made, and removed again if Ctrl-C falls into its removal: nothing of it stays.
            try:
                shutil.rmtree(place, ignore_errors=True)
            except KeyboardInterrupt:
                shutil.rmtree(place, ignore_errors=True)
                raise

    save = save_pretrained

    def _write(self, place: Path, target: Path, card: bool, name: str | None) -> list[str]:
        """Writes the model's files into the empty folder `place`; returns their paths, with unchanged files."""
        kinds = self._kinds()
        if "Products" in kinds or (kinds[0] == "StaticEmbedding" and not (self._folder / "modules.json").exists()):
            raise UnsupportedError(f"save_pretrained of {self._folder}: {NO_FILES[kinds[0]]}: copy the folder")
        rows, unlisted = self._rows()
        modules = list(listed(self._folder, rows))
        folders = list(dict.fromkeys(["", *(path for path, _ in modules)]))
        folders += [os.path.join(path, TEMPLATES) for path in folders if (self._folder / path / TEMPLATES).is_dir()]
        refuse_links(target, folders)
        made = [file for folder in folders for file in copy(self._folder, folder, place, target)]
        changed: dict[str, Any] = {"modules.json": rows}
        changed["config_sentence_transformers.json"] = self._model_settings()
        # Routes have limits and types of their own until one is set for all.
        routed = any(kind in ROUTERS for _, kind in modules)
        limit = not routed or self._held.limit is not None
        dtype = not routed or (self._options.dtype or self._options.default_dtype) not in (None, "auto")
        for path in (path for path, kind in modules if kind in FIRST and kind != "StaticEmbedding"):
            changed[os.path.join(path, _core.TRANSFORMER_SETTINGS[0])] = self._transformer_settings(path, limit, dtype)
            if tokens := self._token_settings.changed():
                file = os.path.join(path, "tokenizer_config.json")
                changed[file] = read_json(self._folder / file, dict) | tokens
            if dtype or self._options.rounded_products:
                changed[os.path.join(path, "config.json")] = self._configuration(path, dtype)
        poolings = [path for path, kind in modules if kind == "Pooling"]
        for path, module in unlisted.items():
            if path:
                changed[os.path.join(path, "config.json")] = settings_of(module)
            if path and (tensors := self._tensors(path)):
                made.append(os.path.join(path, WEIGHTS[0]))
                write_tensors(place / made[-1], tensors)
        now = self._pooling()
        if now:
            for path in (os.path.join(pooling, "config.json") for pooling in poolings if pooling):
                before = changed.get(path) or read_json(self._folder / path, dict)
                # Beside the name of a mode the older booleans would count, too.
                changed[path] = {
                    key: value for key, value in before.items() if not ("pooling_mode" in now and key in FLAGS.values())
                } | now
        for file, values in changed.items():
            write_json(place / file, values)
        if not card:
            made = [file for file in made if file != "README.md"]
            (place / "README.md").unlink(missing_ok=True)
        elif "README.md" not in made:
            read = "all" if self.max_seq_length == math.inf else f"at most {self.max_seq_length}"
            task, what, calls = self._card
            facts = {"kind": self.kind, "name": name or target.name, "task": task, "limit": read, "calls": calls}
            text = CARD.read_text(encoding="utf-8").format(what=what.format(self._columns()), **facts)
            (place / "README.md").write_text(text, encoding="utf-8")
            made.append("README.md")
        return list(dict.fromkeys([*made, *changed]))

    def _pooling(self) -> dict[str, Any]:
        """The settings of pooling that were set."""
        modes, include_prompt = self._options.pooling, self._include_prompt
        now: dict[str, Any] = {} if include_prompt is None else {"include_prompt": include_prompt}
        if modes is not None:
            now["pooling_mode"] = modes[0] if len(modes) == 1 else list(modes)
        return now

    def _model_settings(self) -> dict[str, Any]:
        """config_sentence_transformers.json with the current settings."""
        before = read_json(self._folder / "config_sentence_transformers.json", dict) if self._is_listed() else {}
        # The model has an attribute for each; those of the class alone are left out where they are not set.
        now = {key: getattr(self, key) for key in COMMON_SETTINGS if hasattr(self, key)}
        own = {key: self._setting(key) for key in self._core.settings if key not in COMMON_SETTINGS}
        values = before | {"model_type": self.kind} | now | own
        return {key: value for key, value in values.items() if key not in own or value not in (None, [])}

    def _setting(self, key: str) -> Any:
        """A setting of the class alone, as the file has it."""
        return getattr(self, key)

    def _transformer_settings(self, transformer: str, limit: bool, dtype: bool) -> dict[str, Any]:
        """The first non-empty settings file of the Transformer module: with the current limit if `limit`, and without a
        type if config.json has the current one."""
        first = self[0]
        if self._is_listed():
            found = (read_json(self._folder / transformer / name, dict) for name in _core.TRANSFORMER_SETTINGS)
            values = next((file for file in found if file), {})
        else:
            values = settings_of(first)
        if limit:
            values = values | {"max_seq_length": None if self.max_seq_length == math.inf else self.max_seq_length}
        values.setdefault("do_lower_case", False)
        form = self._core.messages()
        if form and not self._is_listed():  # the texts of a bare folder become messages by themselves
            said = first.modality_config["text"]
            values |= {
                "modality_config": {"text": said, "message": said | {"format": form}},
                "module_output_name": first.module_output_name,
            }
        for name, older in (("processor_kwargs", "tokenizer_args"), ("config_kwargs", "config_args")):
            passed = json.loads(self._options.arguments)[name]
            if passed:
                key = older if isinstance(values.get(older), dict) else name
                values[key] = (values.get(key) or {}) | passed
        elsewhere = LIMIT_KEYS * limit + DTYPE_KEYS * dtype
        for key in ("processor_kwargs", "tokenizer_args", "model_kwargs", "model_args"):
            if isinstance(values.get(key), dict):
                values[key] = {name: value for name, value in values[key].items() if name not in elsewhere}
        return values

    def _configuration(self, transformer: str, dtype: bool) -> dict[str, Any]:
        """config.json with the current element type if `dtype`, and with the method of a converted model."""
        values = read_json(self._folder / transformer / "config.json", dict)
        own = dict(values.pop("quantization_config", None) or {})
        alone = own.get("quant_method") == INTEGERS
        stated = own.pop(INTEGERS, alone)
        # A model whose products were of few bits before says so itself.
        method = {} if alone else own
        method = method or METHODS.get(self._options.rounded_products or "", {})
        # Of a model in integers the file keeps the type of its weights.
        if self.dtype == "int8" if dtype else stated:
            method = method | {INTEGERS: True} if method else {"quant_method": INTEGERS}
        elif dtype:
            values = {key: value for key, value in values.items() if key != "torch_dtype"} | {"dtype": self.dtype}
        return values | {"quantization_config": method} if method else values
