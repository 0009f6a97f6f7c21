"""`grilly.backend.shader_registry`: names, defaults, and upstream's own samples."""

from grilly.backend import shader_registry


def test_names_and_defaults_of_the_registry():
    registry = shader_registry.ShaderRegistry()
    for name in ("gpt", "GPT", "gpt2", "gpt_neox", "granite"):
        assert registry.get_shader("attention-output", name) == "attention-output-gpt"
    assert registry.get_shader("attention-output", architecture="t5") == "attention-output-t5"
    assert registry.get_shader("attention-output", architecture="bert") == "attention-output"
    assert registry.get_shader("attention-output") == "attention-output"
    names = registry.list_shaders()
    assert names == sorted(names) and names == registry.list_shaders("gpt")
    for name in ("activation-gelu", "attention-concat-heads", "embedding-normalize", "embedding-pool", "rope"):
        assert name in names
    registry.register_generic("new", "new-file")
    assert registry.get_shader("new", "gpt") == "new-file"
    assert "new" not in shader_registry.get_registry().list_shaders(), "a registry of one's own changes no other"


def test_an_unknown_shader_is_none_with_a_warning(caplog):
    with caplog.at_level("WARNING", logger="grilly"):
        assert shader_registry.get_shader("nonsense", "gpt") is None
    assert "'nonsense'" in caplog.text


def test_the_samples_of_upstreams_guide_run():
    # Code of upstream's guide, as it stands there.
    from grilly.backend.shader_registry import (
        _registry,
        get_shader,
        register_architecture_shader,
        register_generic_shader,
    )

    register_generic_shader("attention-output", "attention-output")
    register_architecture_shader("attention-output", "gpt", "attention-output-gpt")
    _registry.register_architecture_specific(
        "attention-output",  # Base shader name
        "gpt",  # Architecture
        "attention-output-gpt",  # Shader file name (without .glsl)
    )
    _registry.register_architecture_specific("attention-output", "llama", "attention-output-llama")
    shader_name = get_shader("attention-output", architecture="gpt")
    assert shader_name == "attention-output-gpt"
    assert get_shader("attention-output") == "attention-output"
