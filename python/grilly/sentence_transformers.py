"""The classes of models by the name of the package whose interface they have.

Libraries tell that package's models from other objects by `sentence_transformers` in the name of their class, and take
an object of an unknown class for none at all: BERTopic and KeyBERT then load another model without a word. So the
classes say that they are from this module.
"""

from grilly.cross_encoder import CrossEncoder
from grilly.hybrid_encoder import HybridEncoder
from grilly.multi_vector_encoder import MultiVectorEncoder
from grilly.sentence_transformer import SentenceTransformer, VulkanSentenceTransformer
from grilly.sparse_encoder import SparseEncoder

__all__ = [
    "CrossEncoder",
    "HybridEncoder",
    "MultiVectorEncoder",
    "SentenceTransformer",
    "SparseEncoder",
    "VulkanSentenceTransformer",
]
