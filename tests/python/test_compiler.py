"""Users' shaders from Python: compiled, cached, refused with reasons, registered, and really run."""

import os
import signal
import subprocess
import sys
import textwrap
import time

import numpy as np
import pytest

import grilly
from grilly import ShaderCompiler, ShaderCompilerConfig, _core, testing
from grilly.backend import shader_registry

HEAD = """#version 460
#extension GL_GOOGLE_include_directive : require
layout(local_size_x = 64) in;
"""
TWICE = (
    HEAD
    + """layout(std430, binding = 0) readonly buffer X { float x[]; };
layout(std430, binding = 1) writeonly buffer Y { float y[]; };
void main() { y[gl_GlobalInvocationID.x] = FACTOR * x[gl_GlobalInvocationID.x]; }
"""
)
# Writes FACTOR into every element of the result.
MARK = (
    HEAD
    + """#include "attention-output-interface.glsl"
void main() {
    uint row = 64u * gl_WorkGroupID.x + gl_LocalInvocationIndex;
    if (row < push.q_len) {
        uint to = ((gl_WorkGroupID.z * push.q_len + row) * push.heads + gl_WorkGroupID.y) * push.head_dim;
        for (uint column = 0u; column < push.head_dim; column++) {
            y[to + column] = FACTOR;
        }
    }
}
"""
)


@pytest.fixture
def folder(tmp_path):
    shaders = tmp_path / "shaders"
    shaders.mkdir()
    (shaders / "twice.glsl").write_text(TWICE)
    (shaders / "mark.glsl").write_text(MARK)
    return shaders


@pytest.fixture
def config(folder, tmp_path):
    def make(**options) -> ShaderCompilerConfig:
        given = {"shader_directory": folder, "cache_directory": tmp_path / "cache", "defines": {"FACTOR": 2.0}}
        return ShaderCompilerConfig(**(given | options))

    return make


@pytest.fixture
def registered():
    """`registered(architecture, file, **options)`: an entry of attention-output, gone after the test."""
    names = []

    def register(architecture, file, compiler):
        names.append(architecture)
        shader_registry.register_architecture_shader("attention-output", architecture, file, compiler=compiler)

    yield register
    for name in names:
        shader_registry.unregister("attention-output", name)


def attention_output(weights, values, **attributes):
    engine = _core.engine("vulkan")
    operands = [engine.upload(np.ascontiguousarray(x, np.float32)) for x in (weights, values)]
    return engine.call("attention_output", operands, attributes).numpy()


def test_the_defaults_are_release_modes():
    config = ShaderCompilerConfig()
    assert config.enable_caching and config.fast_math and config.target_env == "vulkan1.3"
    assert config.debug_info is None and config.optimization_level is None and dict(config.defines) == {}


def test_a_compiled_function_tells_its_interface(config):
    compiled = ShaderCompiler(config()).compile_all_shaders()
    assert sorted(compiled) == ["mark", "twice"]
    twice = compiled["twice"]["main"]
    assert twice.bindings == [(0, "x", "readonly"), (1, "y", "writeonly")]
    assert twice.push_constants == [] and twice.constants == [] and twice.needs == []
    assert twice.local_size == (64, 1, 1) and twice.shared_bytes == 0
    assert twice.spirv[:4] == b"\x03\x02\x23\x07"
    mark = compiled["mark"]["main"]
    assert [name for name, _ in mark.push_constants] == ["batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim"]
    assert (1, "window", "uint") in mark.constants
    for name, message in (
        ("local_sizes", "ComputeFunction has no attribute 'local_sizes' to set; the nearest name is 'local_size';"),
        ("zzz", "ComputeFunction has no attribute 'zzz' to set; nothing of it may be set"),
        ("needs", "ComputeFunction.needs cannot be set; nothing of it may be set"),
    ):
        with pytest.raises(AttributeError, match=message):
            setattr(mark, name, 1)


def test_errors_are_the_classes_a_python_user_expects(config, folder):
    compiler = ShaderCompiler(config())
    with pytest.raises(FileNotFoundError, match=r"nothing\.glsl.*shader_directory") as missing:
        compiler.get_compute_function("nothing")
    assert isinstance(missing.value, grilly.ShaderNotFound)
    with pytest.raises(LookupError, match=r"'?\"?forward.*// function: forward") as unknown:
        compiler.get_compute_function("twice", "forward")
    assert isinstance(unknown.value, grilly.FunctionNotFound)
    (folder / "broken.glsl").write_text(TWICE.replace("void main() {", "void main() {\n    oops;"))
    (folder / "words.spv").write_bytes(b"four")
    with pytest.raises(ValueError, match=r"broken\.glsl:7: error: 'oops' : undeclared identifier") as broken:
        compiler.compile_all_shaders()
    assert isinstance(broken.value, grilly.CompilationFailed)
    assert "Failed to compile shader 'broken, words'" in str(broken.value) and "words.spv: error" in str(broken.value)
    # Those that are right are in the cache.
    compilations = compiler.compilations
    assert compiler.get_compute_function("twice").function == "main" and compiler.compilations == compilations
    assert issubclass(grilly.PipelineCreationFailed, RuntimeError)
    for wrong in (lambda: ShaderCompiler(str(folder)), lambda: ShaderCompiler(config(defines=None))):
        with pytest.raises(grilly.errors.InvalidTypeError):
            wrong()
    for options in ({"optimization_level": "most"}, {"target_env": "vulkan9"}, {"defines": {"": 1}}):
        with pytest.raises(ValueError):
            ShaderCompiler(config(**options))


def test_a_folder_that_is_not_there():
    compiler = ShaderCompiler(ShaderCompilerConfig("/nonexistent"))
    for read in (compiler.list_shaders, compiler.compile_all_shaders):
        with pytest.raises(grilly.ShaderNotFound, match="folder /nonexistent cannot be read: .*shader_directory"):
            read()
    with pytest.raises(TypeError, match="expected ShaderCompilerConfig; a folder of shaders is its shader_directory"):
        ShaderCompiler("/nonexistent")


HALF = "half a\ud800 character"


@pytest.mark.parametrize(
    "use",
    [
        lambda compiler: compiler.get_compute_function(HALF),
        lambda compiler: compiler.get_compute_function("twice", HALF),
        lambda compiler: compiler.list_functions(HALF),
        lambda compiler: compiler.compile_all_shaders([HALF]),
        lambda compiler: ShaderCompiler(ShaderCompilerConfig(HALF)),
        lambda compiler: ShaderCompiler(ShaderCompilerConfig(cache_directory=HALF)),
        lambda compiler: ShaderCompiler(ShaderCompilerConfig(optimization_level=HALF)),
        lambda compiler: ShaderCompiler(ShaderCompilerConfig(target_env=HALF)),
        lambda compiler: ShaderCompiler(ShaderCompilerConfig(defines={HALF: 1})),
        lambda compiler: ShaderCompiler(ShaderCompilerConfig(defines={"A": HALF})),
        lambda compiler: grilly.Compute(shader_dir=HALF),
        lambda compiler: shader_registry.register_generic_shader(HALF, "attention-output"),
        lambda compiler: shader_registry.register_generic_shader("attention-output", HALF),
        lambda compiler: shader_registry.register_architecture_shader("attention-output", HALF, "attention-output"),
        lambda compiler: shader_registry.register_architecture(HALF, "gpt"),
        lambda compiler: shader_registry.register_architecture("a", HALF),
        lambda compiler: shader_registry.unregister(HALF),
        lambda compiler: shader_registry.unregister("attention-output", HALF),
        lambda compiler: shader_registry.get_shader(HALF),
        lambda compiler: shader_registry.get_shader("attention-output", HALF),
        lambda compiler: shader_registry.get_registry().list_shaders(HALF),
        lambda compiler: grilly.functional.attention_output(
            np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1)), architecture=HALF
        ),
        lambda compiler: testing.inject_fault(HALF),
        lambda compiler: grilly.to_vulkan([1.0], HALF),
        lambda compiler: grilly.VulkanSentenceTransformer(HALF),
        lambda compiler: grilly.VulkanSentenceTransformer("all-MiniLM-L6-v2", cache_folder=HALF),
    ],
)
def test_names_that_utf_8_cannot_hold_are_refused(config, use):
    with pytest.raises(
        grilly.errors.InvalidArgumentError, match=r"half a\\ud800 character'.*lone surrogate"
    ) as refused:
        use(ShaderCompiler(config()))
    assert str(refused.value).isascii()


def test_what_is_no_name_and_no_path_is_refused_by_type(config):
    for wrong in (3, b"shaders"):
        for use in (
            lambda wrong: ShaderCompiler(ShaderCompilerConfig(wrong)),
            lambda wrong: ShaderCompiler(config()).get_compute_function(wrong),
            lambda wrong: shader_registry.register_generic_shader("attention-output", wrong),
            lambda wrong: grilly.Compute(shader_dir=wrong),
        ):
            with pytest.raises(grilly.errors.InvalidTypeError, match="expected str|not a path"):
                use(wrong)


@pytest.mark.parametrize("condition", ["(" * 500_000 + "1" + ")" * 500_000, "!" * 1_000_000 + "1"])
def test_a_condition_of_any_length_compiles(folder, run, condition):
    """In a process of its own: what the compiler walks by recursion ended it when the stack did."""
    (folder / "deep.glsl").write_text(f"{HEAD}#if {condition}\n#endif\nvoid main() {{}}\n")
    code = f"""
    from grilly import ShaderCompiler, ShaderCompilerConfig
    compiler = ShaderCompiler(ShaderCompilerConfig({str(folder)!r}, enable_caching=False))
    print(compiler.get_compute_function("deep").shader)
    """
    done = run(code)
    assert (done.status, done.output) == (0, "deep\n"), done.errors


def test_ctrl_c_stops_a_compilation(folder):
    doubling = "\n".join(f"#define A{n} A{n - 1} A{n - 1}" for n in range(1, 40))
    (folder / "bomb.glsl").write_text(f"{HEAD}#define A0 +1\n{doubling}\nvoid main() {{ int x = 0 A39; }}\n")
    code = f"""
    import resource, signal
    resource.setrlimit(resource.RLIMIT_AS, (8 << 30, 8 << 30))
    signal.signal(signal.SIGINT, signal.default_int_handler)
    from grilly import ShaderCompiler, ShaderCompilerConfig
    compiler = ShaderCompiler(ShaderCompilerConfig({str(folder)!r}, enable_caching=False, defines={{"FACTOR": 1}}))
    print("compiling", flush=True)
    try:
        compiler.get_compute_function("bomb")
    except KeyboardInterrupt:
        print(compiler.get_compute_function("twice").shader, flush=True)
    """
    process = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "compiling\n", process.stderr.read()
        time.sleep(1)
        process.send_signal(signal.SIGINT)
        output, errors = process.communicate(timeout=20)
    finally:
        process.kill()
    assert (process.returncode, output) == (0, "twice\n"), errors


def test_processes_share_a_cache(config, folder, tmp_path, run):
    cache = tmp_path / "cache"
    code = f"""
        from grilly import ShaderCompiler, ShaderCompilerConfig
        compiler = ShaderCompiler(ShaderCompilerConfig({str(folder)!r}, cache_directory={str(cache)!r},
                                                       defines={{"FACTOR": "2.0"}}))
        functions = compiler.compile_all_shaders()
        print(compiler.compilations, functions["twice"]["main"].spirv.hex())
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    release = {**os.environ, "GRILLY_DEBUG": "0"}
    started = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=release) for _ in range(4)]
    outputs = {process.communicate()[0].split()[1] for process in started}
    assert all(process.returncode == 0 for process in started) and len(outputs) == 1
    files = list(cache.iterdir())
    assert len(files) == 2 and all(file.suffix == ".bin" for file in files), "two shaders, nothing unfinished"
    done = run(code)
    assert done.output.split() == ["0", *outputs], done.errors
    files[0].write_bytes(files[0].read_bytes()[:-1])
    assert run(code).output.split()[0] == "1", "a torn file is compiled anew"


def test_the_command_compiles_a_folder(folder, tmp_path):
    def command(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "grilly", "compile", str(folder), *arguments], capture_output=True, text=True
        )
        return done.returncode, done.stdout, done.stderr

    status, output, errors = command("-D", "FACTOR=3.0", "--output", str(tmp_path / "out"), "--no-fast-math")
    assert status == 0 and "twice:main:" in output, errors
    assert (tmp_path / "out" / "twice.spv").read_bytes()[:4] == b"\x03\x02\x23\x07"
    for output in ("spv", "spv", "", ""):  # again, with what the first run wrote
        status, said, errors = command("-D", "FACTOR=3.0", "--output", str(folder / output))
        assert status == 0 and [line.split(":")[0] for line in said.splitlines()] == ["mark", "twice"], (said, errors)
    (folder / "stored.spv").write_bytes((folder / "twice.spv").read_bytes())
    (folder / "spv" / "own.glsl").write_text(TWICE)
    status, said, errors = command("-D", "FACTOR=3.0", "--output", str(folder / "spv"))
    assert [line.split(":")[0] for line in said.splitlines()] == ["mark", "spv/own", "stored", "twice"], (said, errors)
    status, output, errors = command()
    assert status == 1 and "twice.glsl:6: error: 'FACTOR' : undeclared identifier" in errors
    # Every bad file is named, and the others are written.
    (folder / "broken.glsl").write_text(TWICE.replace("void main() {", "void main() {\n    oops;"))
    (folder / "words.spv").write_bytes(b"four")
    status, said, errors = command("-D", "FACTOR=3.0", "--output", str(tmp_path / "rest"))
    assert status == 1 and "broken.glsl:7: error: 'oops'" in errors and "words.spv: error" in errors
    written = {str(path.relative_to(tmp_path / "rest")) for path in (tmp_path / "rest").rglob("*.spv")}
    assert {"mark.spv", "twice.spv"} <= written and not written & {"broken.spv", "words.spv"}


def test_a_registered_shader_is_the_one_that_runs(vulkan, config, registered):
    weights, values = np.full((2, 3, 70, 5), 0.2), np.ones((2, 5, 3, 4))
    np.testing.assert_allclose(attention_output(weights, values, architecture="marked"), 1, rtol=1e-6)
    registered("Marked", "mark", ShaderCompiler(config()))
    np.testing.assert_array_equal(attention_output(weights, values, architecture="marked"), np.full((2, 70, 3, 4), 2))
    # Registered anew, with other options; other architectures keep theirs.
    registered("marked", "mark", ShaderCompiler(config(defines={"FACTOR": 7})))
    np.testing.assert_array_equal(attention_output(weights, values, architecture="marked"), np.full((2, 70, 3, 4), 7))
    np.testing.assert_allclose(attention_output(weights, values), 1, rtol=1e-6)
    shader_registry.register_architecture("my_marked", "marked")
    assert attention_output(weights, values, architecture="my_marked")[0, 0, 0, 0] == 7


def test_a_precompiled_file_runs(vulkan, config, folder, registered):
    compiler = ShaderCompiler(config(defines={"FACTOR": 5}))
    (folder / "stored.spv").write_bytes(compiler.get_compute_function("mark").spirv)
    registered("stored", "stored", compiler)
    assert attention_output(np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1)), architecture="stored") == 5


def test_what_differs_from_the_interface_is_named(config, folder, registered):
    (folder / "wrong.glsl").write_text(TWICE)
    with pytest.raises(grilly.PipelineCreationFailed, match='binding 0 is called "x", expected "weights"'):
        registered("wrong", "wrong", ShaderCompiler(config()))
    assert shader_registry.get_shader("attention-output", "wrong") == "attention-output"
    with pytest.raises(grilly.ShaderNotFound):
        registered("wrong", "not-there", ShaderCompiler(config()))
    with pytest.raises(NotImplementedError, match='attention-concat-heads.*register "attention-output"'):
        shader_registry.register_generic_shader("attention-concat-heads", "twice", compiler=ShaderCompiler(config()))


def test_computes_folder_is_where_registrations_look(vulkan, registered, monkeypatch, tmp_path):
    monkeypatch.setattr("grilly.compiler._default_folder", ".")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine/filled.glsl").write_text(MARK.replace("FACTOR", "3.0"))
    with pytest.raises(grilly.ShaderNotFound, match="filled"):
        registered("folder", "filled", None)
    for wrong, error in (("no/such/folder", grilly.ShaderNotFound), (3, grilly.errors.InvalidTypeError)):
        with pytest.raises(error, match="shader_dir"):
            grilly.Compute(shader_dir=wrong)
    backend = grilly.Compute(shader_dir="mine")
    monkeypatch.chdir(tmp_path.parent)
    registered("folder", "filled", None)
    backend.set_architecture("folder")
    ones = np.ones((1, 1, 1, 1), np.float32)
    assert backend.attention.attention_output(ones, ones, 1, 1).item() == 3.0
    registered("folder", "attention-output-gpt", None)
    grilly.Compute()
    registered("folder", "filled", None)  # a Compute without a folder leaves it as it was


def test_a_limit_that_the_device_lacks_is_named(vulkan, config, folder, registered):
    most = next(d for d in grilly.info()["devices"] if d["position"] == 0)["limits"]["invocations"]
    (folder / "large.glsl").write_text(MARK.replace("local_size_x = 64", f"local_size_x = {most}, local_size_y = 2"))
    registered("large", "large", ShaderCompiler(config()))
    with pytest.raises(grilly.PipelineCreationFailed, match=f"needs {2 * most} invocations, .* has {most}"):
        attention_output(np.ones((1, 1, 1, 1)), np.ones((1, 1, 1, 1)), architecture="large")


def test_two_shaders_are_compared(vulkan, config, registered):
    causal = np.tril(np.random.default_rng(1).random((1, 2, 80, 80), np.float32))
    same = testing.compare_shaders("attention-output-gpt", weights=causal, rounds=1, repeats=1)
    assert same.same_bits and same.largest_difference == 0 and same.speedup > 0
    before = shader_registry.get_registry().list_shaders()
    found = testing.compare_shaders("mark", weights=causal, rounds=1, repeats=1, compiler=ShaderCompiler(config()))
    assert not found.same_bits and found.largest_difference > 0
    assert shader_registry.get_registry().list_shaders() == before
    assert shader_registry.get_shader("attention-output", "grilly.testing/specific") == "attention-output"


#: Marks column 3 of every row, with the interface of `layer-norm`.
NORM = (
    HEAD
    + """#include "counts.glsl"
        layout(std430, binding = 1) readonly buffer X { float x[]; };
        layout(std430, binding = 4) writeonly buffer Y { float y[]; };
        layout(push_constant) uniform Push { uint rows_of; uint rows; uint columns; float eps; } push;
        void main() {
            uint rows = batch_rows(push.rows_of, push.rows);
            for (uint row = 8u * gl_WorkGroupID.x; row < min(rows, 8u * gl_WorkGroupID.x + 8u); row++) {
                for (uint c = gl_LocalInvocationIndex; c < push.columns; c += 64u) {
                    y[row * push.columns + c] = c == 3u ? 1.0 : 0.0;
                }
            }
        }
        """
)


def test_a_generic_entry_serves_encode(vulkan, run, tiny_model, tmp_path):
    (tmp_path / "norm.glsl").write_text(NORM)
    done = run(
        """
        import sys
        import numpy as np
        from grilly import ShaderCompiler, ShaderCompilerConfig, VulkanSentenceTransformer
        from grilly.backend.shader_registry import register_generic_shader
        before = VulkanSentenceTransformer(sys.argv[1])
        first = before.encode("A text.")
        register_generic_shader("fnn-layernorm", "norm", compiler=ShaderCompiler(ShaderCompilerConfig(sys.argv[2])))
        after = VulkanSentenceTransformer(sys.argv[1])
        assert after.backend == "vulkan"
        marked = after.encode("A text.")
        assert marked.argmax() == 3 and marked[3] == 1 and not marked[:3].any(), marked
        assert np.array_equal(before.encode("A text."), first), "what was prepared keeps its shaders"
        print("served")
        """,
        tiny_model,
        tmp_path,
    )
    assert done.output.strip() == "served", done.errors


def test_an_architectures_entry_serves_compute(vulkan, run, tmp_path):
    (tmp_path / "norm.glsl").write_text(NORM)
    done = run(
        """
        import sys
        import numpy as np
        import grilly
        from grilly import ShaderCompiler, ShaderCompilerConfig
        from grilly.backend.shader_registry import register_architecture_shader
        compiler = ShaderCompiler(ShaderCompilerConfig(sys.argv[1]))
        register_architecture_shader("fnn-layernorm", "mine", "norm", compiler=compiler)
        backend, x = grilly.Compute(), np.arange(10.0).reshape(2, 5)
        plain = backend.layernorm(x)
        backend.set_architecture("mine")
        assert backend.layernorm(x).tolist() == backend.fnn.layernorm(x).tolist() == [[0, 0, 0, 1, 0]] * 2
        backend.set_architecture("gpt")
        assert np.array_equal(backend.layernorm(x), plain) and np.array_equal(grilly.Compute().layernorm(x), plain)
        print("served")
        """,
        tmp_path,
    )
    assert done.output.strip() == "served", done.errors
