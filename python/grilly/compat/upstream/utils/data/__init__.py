"""Datasets, samplers, transforms and batches with upstream's signatures, which are those of `torch.utils.data`."""

from grilly.compat.upstream.utils.data.datasets import (
    ArrayDataset,
    ConcatDataset,
    Dataset,
    Subset,
    TensorDataset,
    random_split,
)
from grilly.compat.upstream.utils.data.loader import DataLoader, default_collate
from grilly.compat.upstream.utils.data.samplers import BatchSampler, RandomSampler, SequentialSampler
from grilly.compat.upstream.utils.data.transforms import (
    Compose,
    Flatten,
    Lambda,
    Normalize,
    OneHot,
    RandomFlip,
    RandomNoise,
    ToFloat32,
)

__all__ = [
    "ArrayDataset",
    "BatchSampler",
    "Compose",
    "ConcatDataset",
    "DataLoader",
    "Dataset",
    "Flatten",
    "Lambda",
    "Normalize",
    "OneHot",
    "RandomFlip",
    "RandomNoise",
    "RandomSampler",
    "SequentialSampler",
    "Subset",
    "TensorDataset",
    "ToFloat32",
    "default_collate",
    "random_split",
]
