"""Modules of a model that its folder has no files for: rows of modules.json, and their settings."""

from typing import Any, ClassVar

from grilly import _core
from grilly.sentence_transformer.made_folder import TYPES
from grilly.sentence_transformer.module_kinds import FLAGS, Pooling, Transformer
from grilly.sentence_transformer.modules import Module
from grilly.sentence_transformer.saved_files import read_json
from grilly.sentence_transformer.sequence import ModuleSequence

__all__ = ["Unlisted", "settings_of"]

# Settings of a Transformer that versions before 6 refuse, and that say nothing of one for embeddings.
OF_TASKS = ("transformer_task", "modality_config", "module_output_name")


class Unlisted(ModuleSequence):
    """A model with modules that no file of its folder lists, as those of a folder without modules.json."""

    #: Whether the folder of another class is read as one without modules.json.
    _reads_others: ClassVar[bool] = False

    def _is_listed(self) -> bool:
        """Whether modules.json, and the settings beside it, are this model's."""
        if not (self._folder / "modules.json").exists():
            return False
        settings = read_json(self._folder / "config_sentence_transformers.json", dict)
        return not self._reads_others or settings.get("model_type") == self.kind

    def _rows(self) -> tuple[list[dict[str, Any]], dict[str, Module]]:
        """The rows of modules.json, and by their folders the modules that the file does not list."""
        rows = read_json(self._folder / "modules.json", list) if self._is_listed() else []
        unlisted = {}
        for number, module in list(enumerate(self))[len(rows) :]:
            kind = type(module).__name__
            path = f"{number}_{kind}" if number else ""
            rows.append({"idx": number, "name": str(number), "path": path, "type": TYPES[kind]})
            unlisted[path] = module
        return rows, unlisted

    def _tensors(self, path: str) -> dict[str, tuple[str, list[int], bytes]]:
        """The tensors of a module that no file lists, by their names in a file of their own."""
        found = _core.stored_tensor(self._core, f"{path}/linear.weight")
        return {} if found is None else {"linear.weight": found}


def settings_of(module: Module) -> dict[str, Any]:
    """The settings of a module that no file lists: under older names where versions before 6 have the module, too."""
    settings = module.get_config_dict()
    if isinstance(module, Pooling):
        modes = module.pooling_mode
        # Without its name the reference takes the mean.
        flags = {FLAGS[mode]: mode in modes for mode in ("mean", "lasttoken")}
        return {
            "word_embedding_dimension": module.word_embedding_dimension,
            **flags,
            "include_prompt": module.include_prompt,
        }
    if isinstance(module, Transformer) and module.transformer_task == "feature-extraction":
        for key in OF_TASKS:
            del settings[key]
    return settings
