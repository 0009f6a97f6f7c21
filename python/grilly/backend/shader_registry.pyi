from grilly.compat.upstream.backend.shader_registry import *
