"""Upstream's folder of this name: `grilly.backend.shader_registry`."""
