"""Families in float64 NumPy, text by text: GPT-2, LLaMA and T5, as in transformers, and mixtures with a liquid gate.

`factor` multiplies the weighted sums of every attention: what a shader of the user's may do.
"""

import json
import math
from pathlib import Path

import numpy as np

from . import safetensors_file
from .reference import ACTIVATIONS, layer_norm, softmax


def rms_norm(x, weight, eps):
    return x / np.sqrt((x * x).mean(axis=-1, keepdims=True) + eps) * weight


def heads_of(x, heads):
    """(tokens, heads * columns) as (heads, tokens, columns)."""
    return x.reshape(len(x), heads, -1).swapaxes(0, 1)


class Family:
    """Hidden states of one text from its token ids."""

    prefix = ""

    def __init__(self, folder: Path, factor: float = 1.0):
        self.factor = factor
        self.config = json.loads((folder / "config.json").read_text())
        tensors = safetensors_file.read_folder(folder)
        self.tensors = {name.removeprefix(self.prefix): array.astype(np.float64) for name, array in tensors.items()}

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"].T

    def mixed(self, q, k, v, bias=0.0, causal=False):
        """(heads, tokens, columns) each; keys and values may have fewer heads."""
        k, v = (np.repeat(x, len(q) // len(x), axis=0) for x in (k, v))
        scores = q @ k.swapaxes(1, 2) + bias
        if causal:
            scores = np.where(np.tri(*scores.shape[1:], dtype=bool), scores, -np.inf)
        sums = self.factor * (softmax(scores) @ v)
        return sums.swapaxes(0, 1).reshape(q.shape[1], -1)


class Gpt2(Family):
    prefix = "transformer."

    def linear(self, x, name):
        return x @ self.tensors[f"{name}.weight"] + self.tensors[f"{name}.bias"]

    def norm(self, x, name):
        eps = self.config["layer_norm_epsilon"]
        return layer_norm(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], eps)

    def __call__(self, ids):
        heads = self.config["n_head"]
        x = self.tensors["wte.weight"][ids] + self.tensors["wpe.weight"][: len(ids)]
        for layer in range(self.config["n_layer"]):
            own = f"h.{layer}."
            qkv = np.split(self.linear(self.norm(x, f"{own}ln_1"), f"{own}attn.c_attn"), 3, axis=1)
            q, k, v = (heads_of(part, heads) for part in qkv)
            x = x + self.linear(self.mixed(q / math.sqrt(q.shape[2]), k, v, causal=True), f"{own}attn.c_proj")
            inner = self.linear(self.norm(x, f"{own}ln_2"), f"{own}mlp.c_fc")
            x = x + self.linear(ACTIVATIONS[self.config["activation_function"]](inner), f"{own}mlp.c_proj")
        return self.norm(x, "ln_f")


class Llama(Family):
    prefix = "model."

    def frequencies(self):
        """Those of LLaMA 3.1: long waves are stretched, short ones are not, and what is between is interpolated."""
        rope = self.config["rope_parameters"]
        columns = self.config["head_dim"]
        usual = rope["rope_theta"] ** (-np.arange(0, columns, 2) / columns)
        turns = rope["original_max_position_embeddings"] * usual / (2 * math.pi)
        low, high = rope["low_freq_factor"], rope["high_freq_factor"]
        kept = np.clip((turns - low) / (high - low), 0, 1)
        return usual * (kept + (1 - kept) / rope["factor"])

    def turned(self, x):
        angles = np.arange(x.shape[1])[:, None] * self.frequencies()
        first, second = np.split(x, 2, axis=-1)
        cos, sin = np.cos(angles), np.sin(angles)
        return np.concatenate([first * cos - second * sin, second * cos + first * sin], axis=-1)

    def __call__(self, ids):
        config, eps = self.config, self.config["rms_norm_eps"]
        counts = [config["num_attention_heads"], *[config["num_key_value_heads"]] * 2]
        x = self.tensors["embed_tokens.weight"][ids]
        for layer in range(config["num_hidden_layers"]):
            own = f"layers.{layer}."
            normed = rms_norm(x, self.tensors[f"{own}input_layernorm.weight"], eps)
            parts = (self.linear(normed, f"{own}self_attn.{part}_proj") for part in "qkv")
            q, k, v = (heads_of(part, heads) for part, heads in zip(parts, counts, strict=True))
            q, k = self.turned(q) / math.sqrt(config["head_dim"]), self.turned(k)
            x = x + self.linear(self.mixed(q, k, v, causal=True), f"{own}self_attn.o_proj")
            normed = rms_norm(x, self.tensors[f"{own}post_attention_layernorm.weight"], eps)
            gate = ACTIVATIONS[config["hidden_act"]](self.linear(normed, f"{own}mlp.gate_proj"))
            x = x + self.linear(gate * self.linear(normed, f"{own}mlp.up_proj"), f"{own}mlp.down_proj")
        return rms_norm(x, self.tensors["norm.weight"], eps)


class T5(Family):
    """The encoder's states, or the decoder's, without a gate."""

    def bias(self, tokens, part):
        """Raffel et al. 2020: near distances have a bucket each; of an encoder half of all are for each direction."""
        config = self.config
        distance = np.arange(tokens) - np.arange(tokens)[:, None]
        buckets = config["relative_attention_num_buckets"] // (2 if part == "encoder" else 1)
        exact = buckets // 2
        length = np.abs(distance)
        ratio = np.log(np.maximum(length, 1) / exact) / math.log(config["relative_attention_max_distance"] / exact)
        far = np.minimum(exact + (ratio * (buckets - exact)).astype(int), buckets - 1)
        bucket = np.where(length < exact, length, far)
        # A decoder does not see what is after the query.
        bucket = np.where(distance > 0, bucket + buckets if part == "encoder" else 0, bucket)
        table = self.tensors[f"{part}.block.0.layer.0.SelfAttention.relative_attention_bias.weight"]
        return table[bucket].transpose(2, 0, 1)

    def norm(self, x, name):
        return rms_norm(x, self.tensors[f"{name}.weight"], self.config["layer_norm_epsilon"])

    def attention(self, x, keys, name, **scores):
        q, k, v = (
            heads_of(self.linear(of, f"{name}.{part}"), self.config["num_heads"])
            for of, part in ((x, "q"), (keys, "k"), (keys, "v"))
        )
        return self.linear(self.mixed(q, k, v, **scores), f"{name}.o")

    def stack(self, ids, part, blocks, states=None):
        x = self.tensors["shared.weight"][ids]
        scores = {"bias": self.bias(len(ids), part), "causal": part == "decoder"}
        for block in range(blocks):
            own = f"{part}.block.{block}.layer."
            normed = self.norm(x, f"{own}0.layer_norm")
            x = x + self.attention(normed, normed, f"{own}0.SelfAttention", **scores)
            if states is not None:
                x = x + self.attention(self.norm(x, f"{own}1.layer_norm"), states, f"{own}1.EncDecAttention")
            last = f"{own}{1 if states is None else 2}."
            inner = self.linear(self.norm(x, f"{last}layer_norm"), f"{last}DenseReluDense.wi")
            x = x + self.linear(ACTIVATIONS[self.config["dense_act_fn"]](inner), f"{last}DenseReluDense.wo")
        return self.norm(x, f"{part}.final_layer_norm")

    def __call__(self, ids):
        return self.stack(ids, "encoder", self.config["num_layers"])

    def decode(self, ids, decoder_ids):
        return self.stack(decoder_ids, "decoder", self.config["num_decoder_layers"], self(ids))


class LiquidMoe(Family):
    """BERT with rotary positions; in the second layer of each so many, experts chosen by the state of a liquid cell."""

    prefix = "bert."

    def linear(self, x, name):
        return super().linear(x, name) + self.tensors.get(f"{name}.bias", 0.0)

    def norm(self, x, name):
        eps = self.config["layer_norm_epsilon"]
        return layer_norm(x, self.tensors[f"{name}.weight"], self.tensors[f"{name}.bias"], eps)

    def turned(self, x):
        half = x.shape[2] // 2
        speeds = self.config["rotary_emb_base"] ** (-np.arange(half) / half)
        turns = np.exp(1j * np.arange(x.shape[1])[:, None] * speeds)
        y = (x[..., :half] + 1j * x[..., half:]) * turns
        return np.concatenate([y.real, y.imag], axis=-1)

    def state(self, x, name):
        """Of the cell at the end: dh/dt = (target - h) f - rate h, with f of a step's start and h of its end."""
        rate, target = self.tensors[f"{name}.rate"], self.tensors[f"{name}.target"]
        time = 1 / self.config["liquid_steps"]
        h = np.zeros((len(x), len(rate)))
        for _ in range(self.config["liquid_steps"]):
            f = 1 / (1 + np.exp(-self.linear(x, f"{name}.input") - self.linear(h, f"{name}.recurrent")))
            h = (h + time * f * target) / (1 + time * (rate + f))
        return h

    def mixture(self, x, name):
        shares = softmax(self.linear(self.state(x, f"{name}.router.cell"), f"{name}.router.layer"))
        matrices = (np.split(self.tensors[f"{name}.experts.mlp.{part}"], shares.shape[1]) for part in ("w1", "w2"))
        each = np.stack([ACTIVATIONS["gelu"](x @ w1.T) @ w2 for w1, w2 in zip(*matrices, strict=True)], axis=1)
        least = np.sort(shares, axis=1)[:, -self.config["moe_top_k"], None]
        kept = np.where(shares >= least, shares, 0.0)
        return (kept[:, :, None] * each).sum(axis=1) + self.tensors[f"{name}.experts.bias"]

    def __call__(self, ids):
        heads, segments = self.config["n_head"], self.tensors["embeddings.token_type_embeddings.weight"]
        x = self.norm(self.tensors["embeddings.word_embeddings.weight"][ids] + segments[0], "emb_ln")
        for layer in range(self.config["n_layer"]):
            own = f"encoder.layers.{layer}."
            parts = np.split(self.linear(x, f"{own}attn.Wqkv"), 3, axis=1)
            q, k, v = (heads_of(part, heads) for part in parts)
            mixed = self.mixed(self.turned(q) / math.sqrt(q.shape[2]), self.turned(k), v)
            x = self.norm(x + self.linear(mixed, f"{own}attn.out_proj"), f"{own}norm1")
            if layer % self.config["moe_every_n_layers"] == 1:
                y = self.mixture(x, f"{own}mlp")
            else:
                y = self.linear(ACTIVATIONS["gelu"](self.linear(x, f"{own}mlp.fc1")), f"{own}mlp.fc2")
            x = self.norm(x + y, f"{own}norm2")
        return x


#: By the fixture that it computes, with its pooling.
REFERENCES = {"gpt2": (Gpt2, "mean"), "llama": (Llama, "lasttoken"), "t5": (T5, "mean")}
