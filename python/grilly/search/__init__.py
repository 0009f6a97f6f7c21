"""Exact search: the nearest rows of many vectors, or texts with a vector for each token."""

from grilly.search.index import Found, Index

__all__ = ["Found", "Index"]
