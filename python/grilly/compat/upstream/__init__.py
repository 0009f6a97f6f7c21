"""Upstream's `backend` and `utils`, which keep their names `grilly.backend` and `grilly.utils`, and its other names."""
