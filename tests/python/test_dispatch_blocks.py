"""Blocks of several members as dicts, uniform blocks, and buffers without names, given to a user's shader."""

import numpy as np
import pytest

from grilly import ShaderCompiler, ShaderCompilerConfig, functional, stats
from grilly.compiler import dispatch
from grilly.errors import CompilationFailed, InvalidArgumentError, InvalidTypeError

HEAD = "#version 460\nlayout(local_size_x = 1) in;\n"


@pytest.fixture
def function(vulkan, tmp_path):
    def compiled(text, head=HEAD):
        (tmp_path / "f.glsl").write_text(head + text)
        return ShaderCompiler(ShaderCompilerConfig(tmp_path, enable_caching=False)).get_compute_function("f")

    return compiled


TWICE = """
    layout(std430, binding = 0) buffer Y { uint n; float y[]; };
    void main() { for (uint i = 0; i < y.length(); i++) y[i] *= 2.0; n += y.length(); }"""


@pytest.mark.parametrize("key", ["Y", 0, (0, 0)])
@pytest.mark.parametrize("elements", [0, 1, 2, 3, 1000])
def test_a_count_and_an_array(function, key, elements):
    twice, y = function(TWICE), np.linspace(-1, 1, elements, dtype=np.float32)
    assert twice.bindings == [(0, "Y", "readwrite")] and twice.sets == [0]
    first = dispatch(twice, 1, {key: {"n": 5, "y": y}})
    assert list(first) == [key] and list(first[key]) == ["n", "y"]
    # Given on, it stays on the device.
    before = stats()
    second = dispatch(twice, 1, first)[key]
    assert all(stats()[name] == before[name] for name in ("bytes_up", "bytes_down"))
    assert np.array_equal(second["y"], 4 * y) and second["y"].dtype == np.float32 and second["y"].shape == (elements,)
    assert second["n"] == 5 + 2 * elements and second["n"].dtype == np.uint32
    assert np.array_equal(first[key]["y"], 2 * y) and first[key]["n"] == 5 + elements
    # A copy in other numbers is packed again.
    third = dispatch(twice, 1, {key: {"n": True, "y": second["y"].astype(np.int64)}})[key]
    assert third["n"] == 1 + elements and np.array_equal(third["y"], 2.0 * second["y"].astype(np.int64))


# Type, its value as it is given, and the expressions that give its numbers in the order of that value.
MEMBERS = {
    "a": ("float", 1.5, ["a"]),
    "b": ("vec3", [2, 3, 4], ["b.x", "b.y", "b.z"]),
    "c": ("uint", 7, ["c"]),
    "d": ("vec2", [0.5, -0.5], ["d.x", "d.y"]),
    "e": ("float[3]", [1, -2, 3], [f"e[{i}]" for i in range(3)]),
    "f": ("vec3[2]", [[1, 2, 3], [4, 5, 6]], [f"f[{i}][{j}]" for i in range(2) for j in range(3)]),
    "g": ("mat3", np.arange(9).reshape(3, 3), [f"g[{c}][{r}]" for r in range(3) for c in range(3)]),
    # Two columns of three rows.
    "h": ("mat2x3", np.arange(6).reshape(3, 2), [f"h[{c}][{r}]" for r in range(3) for c in range(2)]),
    "i": ("mat3x2[2]", np.arange(12).reshape(2, 2, 3), [
        f"i[{n}][{c}][{r}]" for n in range(2) for r in range(2) for c in range(3)
    ]),
    "j": ("bool", True, ["j"]),
    "k": ("ivec4", [-1, 2, -3, 4], [f"k[{i}]" for i in range(4)]),
    "l": ("float[2][3]", np.arange(6).reshape(2, 3), [f"l[{i}][{j}]" for i in range(2) for j in range(3)]),
    "m": ("Light", {"at": [1, 2, 3], "power": -4, "on": [True, False]},
          ["m.at.x", "m.at.y", "m.at.z", "m.power", "m.on.x", "m.on.y"]),
    "n": ("Light[2]", {"at": [[1, 2, 3], [4, 5, 6]], "power": [-4, 9], "on": [[1, 0], [0, 1]]}, [
        *[f"n[{i}].at[{j}]" for i in range(2) for j in range(3)], "n[0].power", "n[1].power",
        *[f"n[{i}].on[{j}]" for i in range(2) for j in range(2)],
    ]),
    "o": ("float", 0.25, ["o"]),
}  # fmt: skip


def flat(value) -> list[float]:
    if isinstance(value, dict):
        return [number for inner in value.values() for number in flat(inner)]
    return np.asarray(value, np.float64).ravel().tolist()


@pytest.mark.parametrize(
    "layout, kind, order, backwards",
    [
        ("std430", "readonly buffer", "", False),
        ("std430", "readonly buffer", "row_major", True),
        ("std140", "readonly buffer", "", True),
        ("std140", "uniform", "", False),
        ("std140", "uniform", "row_major", False),
    ],
)
def test_every_layout_is_read_as_it_is_declared(function, layout, kind, order, backwards):
    rows = [*reversed(MEMBERS.items())] if backwards else [*MEMBERS.items()]
    declared = "".join(f"{of} {name};\n" for name, (of, _, _) in rows)
    reads = [expression for _, (_, _, parts) in rows for expression in parts]
    f = function(f"""
        struct Light {{ vec3 at; int power; bvec2 on; }};
        layout({", ".join(filter(None, [layout, order]))}, binding = 0) {kind} Given {{ {declared} }};
        layout(std430, binding = 1) writeonly buffer Y {{ float y[]; }};
        void main() {{ {"".join(f"y[{at}] = float({read});" for at, read in enumerate(reads))} }}""")
    given = {name: value for name, (_, value, _) in rows}
    found = dispatch(f, 1, {"Given": given, "y": np.full(len(reads), 99.0)})
    assert list(found) == ["y"]
    assert found["y"].tolist() == [number for value in given.values() for number in flat(value)]


@pytest.mark.parametrize("layout", ["std430", "std140", "std430, row_major", "std140, row_major"])
def test_every_layout_is_written_as_it_is_declared(function, layout):
    declared = "".join(f"{of} {name};\n" for name, (of, _, _) in MEMBERS.items())
    writes = [expression for _, (_, _, parts) in MEMBERS.items() for expression in parts]
    kinds = ["bool" if ".on" in write or write == "j" else "float" for write in writes]
    kinds = ["uint" if write == "c" else "int" if write.startswith("k") or "power" in write else kind
             for write, kind in zip(writes, kinds, strict=True)]  # fmt: skip
    stores = [f"written.{write} = {kind}(x[{at}]);" for at, (write, kind) in enumerate(zip(writes, kinds, strict=True))]
    f = function(f"""
        struct Light {{ vec3 at; int power; bvec2 on; }};
        layout(std430, binding = 0) readonly buffer X {{ float x[]; }};
        layout({layout}, binding = 1) buffer Written {{ {declared} }} written;
        void main() {{ {"".join(stores)} }}""")
    expected = {name: value for name, (_, value, _) in MEMBERS.items()}
    zeros = {name: clear(value) for name, value in expected.items()}
    x = [number for value in expected.values() for number in flat(value)]
    found = dispatch(f, 1, {"x": x, "written": zeros})["written"]
    for name, value in expected.items():
        assert flat(found[name]) == flat(value), name
        assert list(found[name]) == list(value) if isinstance(value, dict) else found[name].shape == np.shape(value)


def clear(value):
    return (
        {name: clear(inner) for name, inner in value.items()}
        if isinstance(value, dict)
        else np.zeros(np.shape(value), bool)
    )


def test_an_array_of_structs_as_long_as_the_buffer(function):
    f = function("""
        struct Particle { vec3 at; float mass; vec2 speed[2]; };
        layout(std430, binding = 0) buffer All { float step; Particle particles[]; } all;
        void main() {
            for (uint i = 0; i < all.particles.length(); i++) {
                all.particles[i].at += all.step * vec3(all.particles[i].speed[1], all.particles[i].mass);
            }
        }""")
    numbers = np.random.default_rng(0)
    at, mass, speed = (numbers.random((33, *shape), np.float32) for shape in ((3,), (), (2, 2)))
    found = dispatch(f, 1, {"all": {"step": 2, "particles": {"at": at, "mass": mass, "speed": speed}}})["all"]
    moved = at + 2 * np.concatenate([speed[:, 1], mass[:, None]], axis=1)
    assert np.allclose(found["particles"]["at"], moved, rtol=1e-6)
    assert np.array_equal(found["particles"]["mass"], mass) and np.array_equal(found["particles"]["speed"], speed)
    assert functional.relu(found["particles"]["at"]).shape == (33, 3)


@pytest.mark.parametrize("kind, extension, dtype", [
    ("double", "", np.float64), ("int64_t", "int64", np.int64), ("uint64_t", "int64", np.uint64),
    ("float16_t", "float16", np.float16), ("int16_t", "int16", np.int16), ("uint8_t", "int8", np.uint8),
])  # fmt: skip
def test_numbers_of_other_widths(function, kind, extension, dtype):
    head = HEAD.replace(
        "\n", "\n#extension GL_EXT_shader_16bit_storage : enable\n#extension GL_EXT_shader_8bit_storage : enable\n", 1
    )
    if extension:
        head = head.replace("\n", f"\n#extension GL_EXT_shader_explicit_arithmetic_types_{extension} : enable\n", 1)
    f = function(f"""
        layout(std430, binding = 0) readonly buffer X {{ {kind} one; uint between; {kind} more[]; }};
        layout(std140, binding = 1) uniform U {{ {kind} pair[2]; }};
        layout(std430, binding = 2) buffer Y {{ uint count; {kind} y[]; }};
        void main() {{
            y[0] = one; y[1] = pair[0]; y[2] = pair[1];
            for (uint i = 0; i < more.length(); i++) y[3 + i] = more[i];
            count = between;
        }}""", head)  # fmt: skip
    from grilly import info

    [device] = [row for row in info()["devices"] if row["name"] == info()["choice"]["name"]][:1]
    if not set(f.needs) <= set(device["features"]):
        pytest.skip(f"{device['name']} has not {f.needs}")
    if dtype == np.float64:
        values = np.array([1 / 3, -1e300, 2.0**-1040, 0.1, 7], dtype)
    elif dtype == np.float16:
        values = np.array([1 / 3, -6e4, 6e-8, 0.1, 7], dtype)
    else:
        values = np.array([np.iinfo(dtype).max, np.iinfo(dtype).min, 3, 100, 7], dtype)
    given = {"X": {"one": values[0], "between": 9, "more": values[3:]}, "pair": {"pair": values[1:3]}}
    found = dispatch(f, 1, given | {"Y": {"count": 0, "y": np.zeros(5, dtype)}})["Y"]
    assert found["y"].dtype == dtype and found["y"].tobytes() == values.tobytes() and found["count"] == 9


def test_sizes_by_a_specialization_constant(function):
    f = function("""
        layout(constant_id = 0) const uint N = 2;
        layout(std430, binding = 0) buffer Y { float sum; float x[N]; };
        void main() { sum = 0.0; for (uint i = 0; i < N; i++) sum += x[i]; }""")
    assert dispatch(f, 1, {"Y": {"x": [1, 2], "sum": 0}})["Y"]["sum"] == 3
    assert dispatch(f, 1, {"Y": {"x": [1, 2, 3, 4, 5], "sum": 0}}, constants={"n": 5})["Y"]["sum"] == 15
    assert [row[3] for row in f.block("Y", {"n": 5.0}).members] == [[], [(5, 4)]]
    with pytest.raises(InvalidArgumentError, match=r"x has shape \(2,\), expected \(5,\)"):
        dispatch(f, 1, {"Y": {"x": [1, 2], "sum": 0}}, constants={"n": 5})
    with pytest.raises(InvalidArgumentError, match="its block at least 24"):
        dispatch(f, 1, {"Y": np.zeros(5, np.float32)}, constants={"n": 5})


def test_a_constant_that_makes_members_overlap_is_refused(function):
    # The offsets are those of the constant's default.
    f = function("""
        layout(constant_id = 0) const uint N = 2;
        layout(std430, binding = 0) buffer Y { float x[N]; float sum; };
        void main() { sum = x[N - 1]; }""")
    assert dispatch(f, 1, {"Y": {"x": [7], "sum": 0}}, constants={"n": 1})["Y"]["sum"] == 7
    for values in ({"x": [1, 2, 3], "sum": 0}, np.zeros(4, np.float32)):
        with pytest.raises(InvalidArgumentError, match="x overlaps sum"):
            dispatch(f, 1, {"Y": values}, constants={"n": 3})


NAMELESS = """
    layout(std430, SET0 binding = 3) readonly buffer A { float scale; float x[]; };
    layout(std430, SET1 binding = 1) buffer B { float shift; float y[]; };
    void main() { for (uint i = 0; i < x.length(); i++) y[i] = scale * x[i] + shift; }"""


@pytest.mark.parametrize("places", [(3, 1), ((2, 3), (5, 1)), ((0, 3), (7, 1))])
@pytest.mark.parametrize("form", ["glsl", "spv"])
def test_buffers_without_names(function, tmp_path, places, form):
    text = NAMELESS
    for number, place in enumerate(places):
        text = text.replace(f"SET{number}", f"set = {place[0]}," if isinstance(place, tuple) else "")
    f = function(text)
    assert {(set_, binding) for set_, (binding, _, _) in zip(f.sets, f.bindings, strict=True)} == {
        place if isinstance(place, tuple) else (0, place) for place in places
    }
    a, b = {"scale": 2, "x": [1, 2]}, {"shift": 1, "y": [0, 0]}
    keys = [places]
    if form == "spv":
        (tmp_path / "stripped.spv").write_bytes(f.spirv)
        f = ShaderCompiler(ShaderCompilerConfig(tmp_path)).get_compute_function("stripped.spv")
        # The module that runs has all buffers in set 0, by their order, and members by their numbers.
        order = sorted(place if isinstance(place, tuple) else (0, place) for place in places)
        named = {name for _, name, _ in f.bindings}
        if isinstance(places[0], tuple):
            keys = [tuple(order.index(place) for place in places)]
        if named == {""}:
            a, b = dict(enumerate(a.values())), dict(enumerate(b.values()))
    else:
        keys.append(("A", "B"))
    for first, second in keys:
        found = dispatch(f, 1, {first: a, second: b})
        assert list(found) == [second] and [*found[second].values()][1].tolist() == [3, 5]
    # The bytes as they are.
    raw = dispatch(f, 1, {keys[0][0]: np.float32([2, 1, 2]), keys[0][1]: np.float32([1, 0, 0])})
    assert raw[keys[0][1]].tolist() == [1, 3, 5]
    with pytest.raises(InvalidArgumentError, match="no buffer is called 9"):
        dispatch(f, 1, {keys[0][0]: a, keys[0][1]: b, 9: [1.0]})
    with pytest.raises(InvalidArgumentError, match="the buffer .* is missing"):
        dispatch(f, 1, {keys[0][0]: a})


FAULTS = """
    struct Light { vec3 at; float power; };
    layout(std430, binding = 0) buffer Y { uint n; Light light; Light lights[]; };
    layout(std140, binding = 1) uniform U { float scale; };
    void main() { n = uint(scale * light.power); }"""
LIGHT, LIGHTS = {"at": [1, 2, 3], "power": 1}, {"at": np.zeros((2, 3)), "power": np.zeros(2)}


@pytest.mark.parametrize("changed, error, text", [
    ({"n": -1}, InvalidArgumentError, "n has the value -1, which uint32 does not hold"),
    ({"n": 2**32}, InvalidArgumentError, "n has the value 4294967296"),
    ({"n": 0.5}, InvalidTypeError, "n is float64, and the shader reads uint32"),
    ({"n": "a"}, InvalidTypeError, "n is"),
    ({"n": [1]}, InvalidArgumentError, r"n has shape \(1,\), expected \(\)"),
    ({"m": 1}, InvalidArgumentError, r"m is none of the members, \['n', 'light', 'lights'\]"),
    ({"n": ...}, InvalidArgumentError, "n is missing"),
    ({"light": 1}, InvalidTypeError, r"light is of type int, expected a dict of \['at', 'power'\]"),
    ({"light": {"at": [1, 2], "power": 1}}, InvalidArgumentError, r"light.at has shape \(2,\), expected \(3,\)"),
    ({"light": {"at": [1, 2, 3]}}, InvalidArgumentError, "light.power is missing"),
    ({"lights": {**LIGHTS, "power": np.zeros(3)}}, InvalidArgumentError, "different numbers of elements"),
    ({"lights": {**LIGHTS, "at": np.zeros((2, 4))}}, InvalidArgumentError, r"expected \(any, 3\)"),
])  # fmt: skip
def test_members_that_do_not_fit(function, changed, error, text):
    f = function(FAULTS)
    block = {"n": 1, "light": LIGHT, "lights": LIGHTS} | changed
    block = {name: value for name, value in block.items() if value is not ...}
    with pytest.raises(error, match=text):
        dispatch(f, 1, {"Y": block, "U": {"scale": 1}})


@pytest.mark.parametrize("buffers, error, text", [
    ({"Y": np.zeros(7, np.uint32), "U": [1.0]}, InvalidArgumentError, "has 28 bytes, and its block at least 32"),
    ({"Y": np.zeros(8, np.uint32), "scale": []}, InvalidArgumentError, "has 0 bytes, and its block at least 4"),
    ({None: [1.0]}, InvalidTypeError, "the key None"),
    ({-1: [1.0]}, InvalidTypeError, "the key -1"),
    ({(0, 1, 2): [1.0]}, InvalidTypeError, "the key"),
    ({"Y": np.zeros(8, np.uint32), 0: np.zeros(8, np.uint32)}, InvalidArgumentError, "is given twice"),
    ({(1, 0): [1.0]}, InvalidArgumentError, r"no buffer is called \(1, 0\); there are"),
])  # fmt: skip
def test_buffers_that_do_not_fit(function, buffers, error, text):
    with pytest.raises(error, match=text):
        dispatch(function(FAULTS), 1, buffers)


def test_images_are_refused(function):
    with pytest.raises(CompilationFailed, match="is not a storage buffer"):
        function("layout(binding = 0, r32f) uniform image2D i; void main() { imageStore(i, ivec2(0), vec4(1)); }")


def test_a_registered_shader_has_its_buffers_in_set_0(vulkan, tmp_path):
    from grilly.backend.shader_registry import register_generic_shader, unregister
    from grilly.errors import PipelineCreationFailed

    (tmp_path / "mine.glsl").write_text(
        HEAD
        + """
        layout(std430, set = 1, binding = 0) readonly buffer X { float x[]; };
        layout(std430, set = 1, binding = 1) writeonly buffer Y { float y[]; };
        void main() { y[0] = x[0]; }"""
    )
    try:
        with pytest.raises(PipelineCreationFailed, match="is in set 1, expected set 0"):
            register_generic_shader("activation", "mine", compiler=ShaderCompiler(ShaderCompilerConfig(tmp_path)))
    finally:
        unregister("activation", None)
