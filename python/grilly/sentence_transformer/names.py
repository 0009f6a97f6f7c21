"""Names of sentence-transformers' classes that this package does not support, each with the alternative."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from typing import NoReturn

from grilly.errors import UnsupportedNameError
from grilly.names import by_name

TRAINING = "train with sentence-transformers, save the model, load its folder here"
ADAPTER = "merge the adapter into the weights with peft (merge_and_unload), save the model, load its folder here"
UPLOAD = "save_pretrained(folder) writes the files, and huggingface_hub's HfApi().upload_folder uploads them"
CARD = "the model card is README.md of the model's folder; save_pretrained writes it"
FORWARD = "encode gives embeddings, and with output_value=None also token ids and token embeddings"
ORDER = "change them with sentence-transformers, save the model, load its folder here"
TENSORS = "there is no torch module: the weights are in the model.safetensors of the model's folder"

#: Name -> the alternative.
REMEDIES: dict[str, str] = by_name(
    {
        TRAINING: "fit old_fit smart_batching_collate gradient_checkpointing_enable best_score",
        ADAPTER: (
            "load_adapter add_adapter set_adapter disable_adapters enable_adapters active_adapters active_adapter "
            "get_adapter_state_dict delete_adapter has_peft_compatible_model check_peft_compatible_model"
        ),
        UPLOAD: "push_to_hub save_to_hub",
        CARD: "model_card_data model_card_data_class",
        TENSORS: (
            "parameters named_parameters buffers named_buffers state_dict load_state_dict modules named_modules "
            "requires_grad_ zero_grad share_memory double training type apply to_empty xpu ipu mtia "
            "get_parameter get_buffer get_submodule get_extra_state set_extra_state dump_patches call_super_init "
            "T_destination extra_repr smart_apply "
            "register_buffer register_parameter register_forward_hook register_forward_pre_hook register_backward_hook "
            "register_full_backward_hook register_full_backward_pre_hook register_state_dict_pre_hook "
            "register_state_dict_post_hook register_load_state_dict_pre_hook register_load_state_dict_post_hook"
        ),
        ORDER: "append extend insert pop add_module register_module set_submodule",
    }
) | {
    "load": "SentenceTransformer(path) loads a model",
    "merge": "merge with sentence-transformers, save the model, load its folder here",
    "evaluate": "evaluators want a model of sentence-transformers: compute the measure from the rows of encode",
    "forward": FORWARD,
    "compile": "nothing is compiled while encoding: leave the call out",
    "transformers_model": "there is no torch module: output_value='token_embeddings' gives the last hidden state, and "
    "model.config is config.json",
    "get_sentence_features": "model.preprocess gives token ids and masks",
    "clear_placement_cache": "no Accelerate hooks place a model: to(device) moves it",
    "module_kwargs": "no module takes keywords of its own",
    "is_hpu_graph_enabled": "devices are Vulkan's and the CPU: model.backend says which",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """What to add to an error about an unknown name: the known one that is most like it, or nothing."""
    found = difflib.get_close_matches(name, list(known), 1)
    return f"; is it {found[0]!r}?" if found else ""


class Refused:
    """An unsupported name: lookup raises, on the class and on a model."""

    def __init__(self, name: str, remedy: str) -> None:
        self.name, self.remedy = name, remedy

    def __get__(self, instance: object, owner: type | None = None) -> NoReturn:
        kind = (owner or type(instance)).__name__
        raise UnsupportedNameError(f"{kind}.{self.name} is left out: {self.remedy}")


def refuse(kind: type, more: Mapping[str, str] | None = None) -> None:
    """Lets a class refuse every unsupported name that it does not have; `more` are names with their alternatives."""
    for name, remedy in {**REMEDIES, **(more or {})}.items():
        if not hasattr(kind, name):
            setattr(kind, name, Refused(name, remedy))
