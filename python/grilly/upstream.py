"""Names of upstream's package that this one leaves out, so that the error can say so."""

from __future__ import annotations

__all__ = ["missing", "part_of"]

PARTS = {
    "spiking networks": "SNNCompute snn lif_step gif_neuron_step hebbian_learning stdp_learning synapse_filter",
    "spike bridges": "continuous_to_spikes spikes_to_continuous bridge_temporal_weights",
    "Learning class": "Learning VulkanLearning",
    "capsule networks": "CapsuleMemory CapsuleTransformerConfig CognitiveFeatures MemoryType",
    "device managers": "get_device_manager get_vulkan_backend get_cuda_backend",
    "Hugging Face bridge": "HuggingFaceBridge get_huggingface_bridge",
    "Tensor facade": "Tensor tensor zeros ones randn add mul matmul relu gelu softmax layer_norm dropout conv2d "
    "max_pool2d avg_pool2d mse_loss cross_entropy_loss",
    "LoRA": "LoRAConfig LoRALinear LoRAEmbedding LoRAAttention LoRAModel apply_lora_to_linear calculate_lora_params",
    "convolutions": "Conv1d Conv2d MaxPool2d AvgPool2d BatchNorm1d BatchNorm2d",
    "recurrent layers": "LSTM LSTMCell GRU GRUCell",
    "Fourier transforms": "fft ifft fft_magnitude fft_power_spectrum fft_normalize",
    "vector search": "faiss_distance faiss_compute_distances faiss_topk faiss_ivf_filter faiss_kmeans_update "
    "faiss_quantize",
    "memory operations": "memory_read memory_write memory_context_aggregate memory_query_pooling memory_inject_concat "
    "memory_inject_gate memory_inject_residual",
    "place and time cells": "place_cell time_cell theta_gamma_encoding",
    "affect": "AffectAdam affect",
    "continual learning": "fisher_info ewc_penalty natural_gradient fisher_normalize NaturalGradient",
    "adaptive filters": "nlms_predict nlms_update nlms_ensemble nlms_metrics NLMS",
    "routing": "domain_route",
    "multimodal models": "multimodal",
    "prosody": "apply_prosody_modulation",
    "experimental modules": "experimental",
}


def part_of(name: str) -> str | None:
    """The part of upstream that `name` belongs to, if this package leaves it out.

    Example:
        >>> from grilly.upstream import part_of
        >>> part_of("HuggingFaceBridge")
        'Hugging Face bridge'
    """
    return next((part for part, names in PARTS.items() if name in names.split()), None)


def missing(place: str, name: str) -> AttributeError:
    """What `place.name` raises: for a name of upstream's that is left out, whose part it was.

    Example:
        >>> from grilly.upstream import missing
        >>> missing("grilly.functional", "fft")
        AttributeError("fft is part of upstream grilly's Fourier transforms and not of this package")
    """
    part = None if name.startswith("_") else part_of(name)
    if part is not None:
        return AttributeError(f"{name} is part of upstream grilly's {part} and not of this package")
    return AttributeError(f"{place} has no attribute {name!r}")
