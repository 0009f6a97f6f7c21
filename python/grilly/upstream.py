"""Upstream names that this package does not support, so that the error can say so."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["by_name", "missing"]

PARTS = {
    "spiking networks": (
        "SNNCompute snn lif_step gif_neuron_step hebbian_learning stdp_learning synapse_filter LIFNeuron "
        "SNNLayer HebbianLayer STDPLayer GIFNeuron SNNMatMul SNNSoftmax SNNRMSNorm SNNReadout Synapse"
    ),
    "spike bridges": "continuous_to_spikes spikes_to_continuous bridge_temporal_weights",
    "Learning class": "Learning VulkanLearning",
    "capsule networks": (
        "CapsuleMemory CapsuleTransformerConfig CognitiveFeatures MemoryType CapsuleProject SemanticEncoder "
        "DentateGyrus CapsuleEmbedding HippocampalTransformerLayer"
    ),
    "device managers": "get_device_manager get_vulkan_backend get_cuda_backend cuda llama_cpp",
    "Hugging Face bridge": "HuggingFaceBridge get_huggingface_bridge",
    "Tensor facade": (
        "Tensor tensor zeros ones randn add mul matmul relu gelu softmax layer_norm dropout conv2d max_pool2d "
        "avg_pool2d mse_loss cross_entropy_loss"
    ),
    "automatic differentiation": (
        "Variable GradFn Function FunctionCtx enable_grad no_grad is_grad_enabled sub div neg pow sum mean "
        "max min var std norm sigmoid tanh exp log sqrt abs clamp silu leaky_relu elu softplus sin cos tan "
        "asin acos atan atan2 reshape transpose squeeze unsqueeze index flatten view expand repeat permute "
        "contiguous clone concat stack where eq ne lt le gt ge cross_entropy l1_loss smooth_l1_loss bce_loss "
        "bce_with_logits_loss nll_loss kl_div_loss rand linspace arange eye full"
    ),
    "LoRA": (
        "LoRAConfig LoRALinear LoRAEmbedding LoRAAttention LoRAModel apply_lora_to_linear calculate_lora_params lora"
    ),
    "convolutions": (
        "Conv1d Conv2d MaxPool2d AvgPool2d AdaptiveMaxPool2d AdaptiveAvgPool2d BatchNorm1d BatchNorm2d conv "
        "maxpool2d avgpool2d maxpool2d_backward avgpool2d_backward normalization"
    ),
    "recurrent layers": "LSTM LSTMCell GRU GRUCell",
    "Fourier transforms": "fft ifft fft_magnitude fft_power_spectrum fft_normalize",
    "vector search": (
        "faiss faiss_distance faiss_compute_distances faiss_topk faiss_ivf_filter faiss_kmeans_update faiss_quantize"
    ),
    "memory operations": (
        "memory memory_read memory_write memory_context_aggregate memory_query_pooling memory_inject_concat "
        "memory_inject_gate memory_inject_residual MemoryRead MemoryWrite MemoryContextAggregate "
        "MemoryQueryPooling MemoryInject MemoryInjectConcat MemoryInjectGate MemoryInjectResidual"
    ),
    "place and time cells": "cells place_cell time_cell theta_gamma_encoding PlaceCell TimeCell ThetaGammaEncoder",
    "affect": "AffectAdam AffectMLP affect affect_mlp_forward affect_adam_update",
    "continual learning": (
        "fisher_info fisher_info_update ewc_penalty natural_gradient fisher_normalize NaturalGradient"
    ),
    "adaptive filters": "nlms_predict nlms_update nlms_ensemble nlms_metrics NLMS",
    "routing": "domain_route DomainRouter DomainPredictor DomainClassifier ExpertCombiner",
    "contrastive learning": "contrastive contrastive_loss contrastive_gradient ContrastiveLoss",
    "decoding": "GreedyDecoder SampleDecoder",
    "multimodal models": "multimodal",
    "prosody": "apply_prosody_modulation ProsodyModulatedAttention",
    "Vulkan handles": "pipelines queue shaders",
    "experimental modules": "experimental",
}


def by_name(groups: Mapping[str, str]) -> dict[str, str]:
    """Name -> group, from groups that list their names in one text, separated by spaces.

    Example:
        >>> from grilly.upstream import by_name
        >>> by_name({"vowels": "a e", "consonants": "b"})
        {'a': 'vowels', 'e': 'vowels', 'b': 'consonants'}
    """
    return {name: group for group, names in groups.items() for name in names.split()}


def missing(place: str, name: str) -> AttributeError:
    """The error of `place.name`; for an unsupported upstream name it says which part the name belonged to.

    Example:
        >>> from grilly.upstream import missing
        >>> missing("grilly.functional", "fft")
        AttributeError("fft is part of upstream grilly's Fourier transforms and not of this package")
    """
    part = None if name.startswith("_") else by_name(PARTS).get(name)
    if part is not None:
        return AttributeError(f"{name} is part of upstream grilly's {part} and not of this package")
    return AttributeError(f"{place} has no attribute {name!r}")
