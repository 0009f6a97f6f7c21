"""Upstream's names: those that are left out say so, and those that are kept take upstream's arguments."""

import importlib
import inspect

import pytest

import grilly
from grilly import functional, nn, optim, utils
from grilly.upstream import PARTS

# Names that are left out.

KEPT = {
    "grilly": set(grilly.__all__),
    "grilly.functional": set(functional.__all__),
    "grilly.nn": set(nn.__all__),
    "grilly.utils": set(utils.__all__),
}


def left_out():
    for place, kept in KEPT.items():
        for part, names in PARTS.items():
            for name in names.split():
                if name not in kept:
                    yield pytest.param(place, name, part, id=f"{place}.{name}")


@pytest.mark.parametrize("place, name, part", list(left_out()))
def test_names_that_are_left_out_say_so(place, name, part):
    with pytest.raises(AttributeError) as caught:
        getattr(importlib.import_module(place), name)
    assert str(caught.value) == f"{name} is part of upstream grilly's {part} and not of this package"


COMPUTE = """
lif_step hebbian_learning stdp_learning gif_neuron_step faiss_compute_distances faiss_topk memory_read
memory_write memory_query_pooling memory_inject_gate place_cell time_cell fisher_info_update ewc_penalty
natural_gradient nlms_predict nlms_update continuous_to_spikes spikes_to_continuous domain_route fft
fft_magnitude fft_power_spectrum fft_normalize contrastive_loss contrastive_gradient snn faiss memory cells
affect contrastive conv normalization lora pipelines queue shaders
""".split()


@pytest.mark.parametrize("name", COMPUTE)
def test_parts_of_compute_that_are_left_out_say_so(backend, name):
    with pytest.raises(AttributeError, match=f"{name} is part of upstream grilly's .* and not of this package"):
        getattr(backend, name)


@pytest.mark.parametrize(
    "part, name", [("pooling", "maxpool2d"), ("attention", "apply_prosody_modulation"), ("learning", "nlms_predict")]
)
def test_methods_that_are_left_out_say_so(backend, part, name):
    with pytest.raises(AttributeError, match=f"{name} is part of upstream grilly's"):
        getattr(getattr(backend, part), name)


@pytest.mark.parametrize("name", ["NLMS", "NaturalGradient", "AffectAdam"])
def test_optimisers_that_are_left_out_say_so(name):
    with pytest.raises(AttributeError, match=f"{name} is part of upstream grilly's .* and not of this package"):
        getattr(optim, name)


@pytest.mark.parametrize("place", [*KEPT, "grilly.optim"])
def test_other_names_are_unknown(place):
    with pytest.raises(AttributeError, match="has no attribute 'nothing_like_it'"):
        importlib.import_module(place).nothing_like_it  # noqa: B018


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
