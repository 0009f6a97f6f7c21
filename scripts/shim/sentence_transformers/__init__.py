"""grilly under the name of sentence-transformers: what is imported below is of grilly.compat.sentence_transformers."""

from grilly.compat.sentence_transformers import take

take()
