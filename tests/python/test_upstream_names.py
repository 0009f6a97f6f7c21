"""Upstream's names: those that are left out say so, and those that are kept take upstream's arguments."""

import importlib
import inspect
import json
import pickle
import subprocess
import sys
from pathlib import Path

import pytest

import grilly
from grilly import functional, nn, optim, utils
from grilly.compat.upstream.names import HERE, PARTS, REMEDIES, by_name
from grilly.errors import UnsupportedError, UnsupportedImportError, UnsupportedNameError
from grilly.names import MOVED

# Names that are left out.

#: Public names of upstream's modules, 0.3 to 1.0.
UPSTREAM = {
    module: " ".join(lines).split()
    for module, lines in json.loads((Path(__file__).parents[1] / "names" / "upstream.json").read_text()).items()
}
PART_OF = by_name(PARTS)


def text(name):
    """What the errors of a name say."""
    take = f"take {HERE[name]}" if name in HERE else None
    if name in PART_OF:
        part = PART_OF[name]
        return f"{name} is part of upstream grilly's {part} and not of this package: {take or REMEDIES[part]}"
    return f"{name} is elsewhere in this package: {take}"


def imports(statement):
    """Runs an import; returns whether there is what it imports, else checks that the error is ours."""
    try:
        exec(statement, {})
    except UnsupportedImportError as error:
        name = error.name.rpartition(".")[2]
        assert isinstance(error, UnsupportedError) and str(error) == text(name) and len(str(error).split(": ")[1]) > 9
        return False
    return True


@pytest.mark.parametrize("module", UPSTREAM)
def test_imports_of_upstreams_names_work_or_say_what_to_do(module):
    if not imports(f"import {module}"):
        assert not imports(f"from {module} import anything")
        return
    place, left_out = importlib.import_module(module), []
    for name in UPSTREAM[module]:
        if not imports(f"from {module} import {name}"):
            left_out.append(name)
            # As a name that there is not.
            assert not hasattr(place, name) and getattr(place, name, None) is None and name not in dir(place)
            with pytest.raises(AttributeError, match=name):
                getattr(place, name)
    assert set(left_out).isdisjoint(getattr(place, "__all__", ()))


@pytest.mark.parametrize(
    "place", ["grilly", "grilly.backend", "grilly.functional", "grilly.nn", "grilly.optim", "grilly.utils"]
)
def test_attributes_that_are_left_out_say_so(place):
    module = importlib.import_module(place)
    absent = [name for name in {*PART_OF, *HERE} if not hasattr(module, name)]
    assert len(absent) > 100
    for name in absent:
        with pytest.raises(UnsupportedNameError) as caught:
            getattr(module, name)
        assert isinstance(caught.value, AttributeError) and str(caught.value) == text(name)


@pytest.mark.parametrize("name", HERE)
def test_what_is_elsewhere_is_there(name):
    for path in HERE[name].split(" and "):
        home, _, last = path.rpartition(".")
        assert imports(f"from {home} import {last}")


def test_every_part_has_a_remedy():
    assert PARTS.keys() == REMEDIES.keys() and all(len(remedy.split()) > 2 for remedy in REMEDIES.values())
    assert sum(len(names.split()) for names in PARTS.values()) == len(PART_OF), "a name is in two parts"


@pytest.mark.parametrize(
    "place", ["grilly", "grilly.functional", "grilly.nn", "grilly.optim", "grilly.utils", "grilly.util"]
)
def test_other_names_are_unknown(place):
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_it'") as caught:
        importlib.import_module(place).nothing_like_it  # noqa: B018
    assert type(caught.value) is AttributeError
    for statement, kind in (
        (f"from {place} import nothing_like_it", ImportError),
        (f"import {place}.nothing_like_it", ModuleNotFoundError),
    ):
        with pytest.raises(ImportError) as caught:
            exec(statement, {})
        assert type(caught.value) is kind


COMPUTE = """
lif_step hebbian_learning stdp_learning gif_neuron_step faiss_compute_distances faiss_topk memory_read
memory_write memory_query_pooling memory_inject_gate place_cell time_cell fisher_info_update ewc_penalty
natural_gradient nlms_predict nlms_update continuous_to_spikes spikes_to_continuous domain_route fft
fft_magnitude fft_power_spectrum fft_normalize contrastive_loss contrastive_gradient snn faiss memory cells
affect contrastive conv normalization lora pipelines queue shaders
pooling.maxpool2d attention.apply_prosody_modulation learning.nlms_predict
""".split()


def test_parts_of_compute_that_are_left_out_say_so(backend):
    for path in COMPUTE:
        *part, name = path.split(".")
        place = getattr(backend, part[0]) if part else backend
        assert not hasattr(place, name)
        with pytest.raises(UnsupportedNameError) as caught:
            getattr(place, name)
        assert str(caught.value) == text(name)


# Modules that moved.


def test_a_module_is_one_by_both_paths(tmp_path):
    for name in ("backend", "backend.fnn", "utils", "utils.data", "utils.data.datasets", "utils.checkpoint"):
        old, new = importlib.import_module(f"grilly.{name}"), importlib.import_module(f"grilly.compat.upstream.{name}")
        assert old is new and new.__spec__.name == new.__name__
    assert grilly.utils.data.datasets is importlib.import_module("grilly.compat.upstream.utils.data.datasets")


def test_pickles_of_both_paths_load():
    rows = utils.data.ArrayDataset([1.0, 2.0])
    new = pickle.dumps(rows, protocol=0)
    old = new.replace(b"grilly.compat.upstream.utils", b"grilly.utils")
    assert new != old and type(pickle.loads(old)) is type(pickle.loads(new)) is utils.data.ArrayDataset


def test_the_package_imports_nothing_of_compat_by_itself():
    code = (
        "import sys, grilly, grilly.nn, grilly.optim, grilly.quant, grilly.kernels, grilly.program, grilly.train;"
        "from grilly import SentenceTransformer, CrossEncoder, SparseEncoder, functional, util;"
        "functional.relu([1.0]); print([name for name in sys.modules if name.startswith('grilly.compat')])"
    )
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "[]\n"


def test_type_checkers_see_the_former_paths():
    """Each has a stub, which hands on what is at the new path."""
    package = Path(grilly.__file__).parent
    for former, moved in MOVED.items():
        home = package.parent / moved.replace(".", "/")
        files = sorted(home.rglob("*.py")) or [home.with_suffix(".py")]
        for file in files:
            below = file.relative_to(home).with_suffix(".pyi") if home.is_dir() else None
            stub = package.parent / former.replace(".", "/")
            stub = stub / below if below else stub.with_suffix(".pyi")
            module = ".".join(file.relative_to(package.parent).with_suffix("").parts).removesuffix(".__init__")
            assert stub.read_text() == f"from {module} import *\n"
        stubs = list((package.parent / former.replace(".", "/")).rglob("*.pyi"))
        assert len(stubs) in (0, len(files))


# Signatures: what code written for upstream passes by position or by name.

SIGNATURES = {
    "linear": "input weight bias", "layer_norm": "input normalized_shape weight bias eps", "softmax": "x dim",
    "dropout": "input p training", "attention": "query key value mask", "gelu": "x",
    "flash_attention2": "query key value use_rope", "embedding_lookup": "weight indices",
    "embedding_normalize": "embeddings eps", "embedding_position": "embeddings max_seq_len dim",
    "embedding_pool": "embeddings pool_type", "embedding_ffn": "embeddings W1 b1 W2 b2 activation",
    "embedding_attention": "embeddings num_heads head_dim", "cross_entropy": "input target weight reduction",
    "binary_cross_entropy": "input target weight reduction", "whitening_transform": "data mean std",
    "whitening_apply": "data mean std", "whitening_batch_stats": "data", "mean_pool": "embeddings mask mode",
    "attention_scores": "queries keys num_heads head_dim scale",
    "attention_mask": "attention_scores use_causal mask_value custom_mask",
    "attention_output": "attention_weights values num_heads head_dim",
    "apply_rope": "q_or_k position_ids rope_base rope_scaling",
}  # fmt: skip


@pytest.mark.parametrize("name", SIGNATURES)
def test_functional_arguments_are_upstreams(name):
    found = list(inspect.signature(getattr(functional, name)).parameters)
    expected = SIGNATURES[name].split()
    assert found[: len(expected)] == expected


MODULES = {
    "Linear": "in_features out_features bias", "LayerNorm": "normalized_shape eps", "Dropout": "p inplace",
    "RoSwish": "alpha_init beta_init learnable", "Softmax": "dim", "Embedding": "num_embeddings embedding_dim",
    "MultiheadAttention": "embed_dim num_heads dropout", "FlashAttention2": "embed_dim num_heads use_rope",
    "TransformerEncoderLayer": "d_model nhead dim_feedforward dropout activation use_rope use_prosody",
    "TransformerDecoderLayer": "d_model nhead dim_feedforward dropout activation use_rope",
    "RoPE": "head_dim max_seq_len base scaling use_precomputed", "MSELoss": "reduction", "BCELoss": "reduction",
    "CrossEntropyLoss": "reduction ignore_index",
}  # fmt: skip


OPTIMISERS = {
    "Optimizer": "params defaults", "Adam": "params lr betas eps weight_decay use_gpu",
    "AdamW": "params lr betas eps weight_decay amsgrad use_gpu",
    "SGD": "params lr momentum weight_decay dampening nesterov use_gpu",
    "StepLR": "optimizer step_size gamma last_epoch", "CosineAnnealingLR": "optimizer T_max eta_min last_epoch",
    "ReduceLROnPlateau": "optimizer mode factor patience threshold threshold_mode cooldown min_lr eps",
    "OneCycleLR":
        "optimizer max_lr total_steps epochs steps_per_epoch pct_start anneal_strategy cycle_momentum base_momentum "
        "max_momentum div_factor final_div_factor last_epoch",
    "LRScheduler": "optimizer last_epoch",
}  # fmt: skip
HELPERS = {
    "save_checkpoint": "model model_state optimizer optimizer_state epoch loss filepath metadata",
    "load_checkpoint": "filepath model optimizer strict",
    "xavier_uniform_": "tensor gain", "xavier_normal_": "tensor gain",
    "kaiming_uniform_": "tensor a mode nonlinearity", "kaiming_normal_": "tensor a mode nonlinearity",
    "TensorDataset": "tensors", "ArrayDataset": "data labels transform target_transform", "Subset": "dataset indices",
    "ConcatDataset": "datasets", "RandomSampler": "data_source replacement num_samples",
    "SequentialSampler": "data_source", "BatchSampler": "sampler batch_size drop_last shuffle",
    "DataLoader": "dataset batch_size shuffle sampler batch_sampler num_workers collate_fn drop_last",
    "random_split": "dataset lengths generator", "Compose": "transforms", "ToFloat32": "scale", "Normalize": "mean std",
    "Flatten": "start_dim", "RandomNoise": "std", "RandomFlip": "p", "OneHot": "num_classes", "Lambda": "fn",
    "default_collate": "batch",
}  # fmt: skip


@pytest.mark.parametrize("place, name", [(optim, name) for name in OPTIMISERS] + [(utils, name) for name in HELPERS])
def test_arguments_of_training_are_upstreams(place, name):
    expected = (OPTIMISERS | HELPERS)[name].split()
    assert list(inspect.signature(getattr(place, name)).parameters)[: len(expected)] == expected
    assert getattr(place, name) is getattr(utils.data, name, getattr(place, name))


@pytest.mark.parametrize("name", MODULES)
def test_layer_arguments_are_upstreams(name):
    assert list(inspect.signature(getattr(nn, name)).parameters) == MODULES[name].split()


WITHOUT_OPTIONS = ("relu", "gelu", "silu", "gcu", "swiglu")
PARTS_OF_COMPUTE = {
    "fnn.gemm": "A B", "fnn.linear": "x weights bias", "fnn.linear_backward": "grad_output x weights bias",
    "fnn.layernorm": "x gamma beta eps", "fnn.layernorm_backward": "grad_output x gamma mean var eps",
    "fnn.activation_softmax": "input_data axis", "fnn.softmax_backward": "grad_output softmax_output dim",
    "fnn.activation_roswish": "input_data alpha beta",
    "fnn.activation_roswish_backward": "grad_output input_data alpha beta",
    **{f"fnn.activation_{name}": "input_data" for name in WITHOUT_OPTIONS},
    **{f"fnn.activation_{name}_backward": "grad_output input_data" for name in WITHOUT_OPTIONS},
    **{f"fnn.fused_linear_{name}": "x weights bias" for name in ("relu", "gelu", "silu", "gcu")},
    "fnn.fused_linear_roswish": "x weights bias alpha beta", "fnn.xavier_init": "input_dim output_dim seed",
    "fnn.cross_entropy_backward": "logits targets", "fnn.dropout": "x dropout_prob is_training seed",
    "fnn.residual": "x module_output", "attention.attention_scores": "queries keys num_heads head_dim scale",
    "attention.attention_mask": "attention_scores use_causal mask_value custom_mask",
    "attention.attention_output": "attention_weights values num_heads head_dim",
    "attention.attention_concat_heads": "attention_output",
    "attention.flash_attention2":
        "queries keys values num_heads head_dim tile_size_q tile_size_k scale mask causal",
    "attention.apply_rope": "q_or_k position_ids rope_base rope_scaling", "pooling.mean_pool": "embeddings mask",
    "learning.embedding_lookup": "token_ids embedding_table", "learning.whitening_transform": "data mean std",
    "learning.adam_update":
        "weights gradients moment1 moment2 learning_rate beta1 beta2 epsilon beta1_t beta2_t clear_grad",
    "learning.embedding_backward": "grad_output token_ids vocab_size embedding_dim",
    "core.create_buffer": "data_or_size usage", "core.upload_buffer": "buffer memory data",
    "core.read_buffer": "memory size dtype",
}  # fmt: skip


@pytest.mark.parametrize("name", PARTS_OF_COMPUTE)
def test_arguments_of_compute_are_upstreams(backend, name):
    part, method = name.split(".")
    found = list(inspect.signature(getattr(getattr(backend, part), method)).parameters)
    expected = PARTS_OF_COMPUTE[name].split()
    assert found[: len(expected)] == expected


BRIDGE = ("get_fallback_stats", "reset_fallback_stats", "is_available")


def test_every_flat_delegate_is_its_parts_method(backend):
    assert backend.activation_gelu(input_data=[0.0]).tolist() == [0.0]
    for name in ("linear", "layernorm", "linear_backward", "xavier_init"):
        assert getattr(backend, name) == getattr(backend.fnn, name)
    for name in BRIDGE:
        assert callable(getattr(grilly.backend._bridge, name))
