"""Random interfaces of users' shaders: `python tests/fuzz/interfaces.py`.

Buffers, push constants and specialization constants of random types, forms and numbers are compiled and dispatched:
with what they ask for the result is the one computed here, with something else it is an error of grilly. What not every
device or this package supports may be refused. Modules with other words are refused, or run.
"""

import shutil
import sys
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from fuzz import damage  # isort: skip
from fuzz.driver import Fault, main, pick  # isort: skip

NUMBERS = {"float": np.float32, "int": np.int32, "uint": np.uint32}
#: Elements: the type in GLSL, numbers in one, kind of number.
ELEMENTS = [(kind, 1, kind) for kind in ("float", "float", "int", "uint")]
ELEMENTS += [("vec2", 2, "float"), ("vec4", 4, "float"), ("uvec2", 2, "uint"), ("ivec4", 4, "int")]
#: Types that a block of push constants or a specialization constant may have, of which the latter are not sure.
MEMBERS = ["float", "int", "uint"]
UNSURE = ["vec2", "uvec4", "bool", "double", "mat4", "int64_t", "float16_t"]


@dataclass
class Buffer:
    binding: int
    block: str
    member: str
    type: str
    width: int
    kind: str
    access: str
    form: str
    values: np.ndarray

    @property
    def read(self):
        """Its element `i` as an int."""
        element = f"{self.owner}{self.member}[i % {self.length}]"
        return f"int({element}{'.x' if self.width > 1 else ''})"

    @property
    def owner(self):
        return "" if self.form in ("plain", "fixed", "set", "restrict") else f"of_{self.block}."

    @property
    def length(self):
        return f"uint({self.owner}{self.member}.length())"

    @property
    def lead(self):
        """Numbers before the array."""
        return 4 if self.form == "several" else 0

    @property
    def numbers(self):
        """Those of the array."""
        return self.values[self.lead :]

    @property
    def elements(self):
        return len(self.numbers) // self.width

    @property
    def text(self):
        size = self.elements if self.form == "fixed" else ""
        inner = f"{self.type} {self.member}[{size}];"
        name = "" if self.owner == "" else f" of_{self.block}"
        more = {"set": "set = 1, ", "arrayed": ""}.get(self.form, "")
        access = self.access + (" restrict coherent" if self.form == "restrict" else "")
        count = "[2]" if self.form == "arrayed" else ""
        if self.form == "several":
            inner = f"uint count; uint more; uint even; uint rest; {inner}"
        layout = f"layout({more}std430, binding = {self.binding}) {access}"
        return f"{layout} buffer {self.block} {{ {inner} }}{name}{count};"


@dataclass
class Program:
    """A shader and what it is dispatched with."""

    buffers: list = field(default_factory=list)
    push: dict = field(default_factory=dict)  # name: (type, value)
    constants: dict = field(default_factory=dict)  # name: (number, type, default, value or None)
    local: int = 1
    sure: bool = True

    @property
    def text(self):
        lines = ["#version 460", f"layout(local_size_x = {self.local}) in;"]
        types = {kind for kind, *_ in self.push.values()} | {kind for _, kind, *_ in self.constants.values()}
        if types & {"int64_t", "float16_t"}:
            lines.insert(1, "#extension GL_EXT_shader_explicit_arithmetic_types : require")
        for name, (number, kind, default, _) in self.constants.items():
            literal = str(bool(default)).lower() if kind == "bool" else f"{kind}({default})"
            lines.append(f"layout(constant_id = {number}) const {kind} {name} = {literal};")
        lines += [buffer.text for buffer in self.buffers]
        terms = ["3 * int(i)"]
        if self.push:
            lines.append("layout(push_constant) uniform Push {")
            lines += [f"    {kind} {name};" for name, (kind, _) in self.push.items()]
            lines.append("} push;")
            of = {"vec2": ".x", "uvec4": ".x", "mat4": "[0][0]"}
            terms += [f"int(push.{name}{of.get(kind, '')})" for name, (kind, _) in self.push.items()]
        terms += [f"int({name})" for name in self.constants]
        terms += [buffer.read for buffer in self.buffers if buffer.access == "readonly"]
        lines += ["void main() {", "    uint i = gl_GlobalInvocationID.x;", f"    int sum = {' + '.join(terms)};"]
        for n, buffer in enumerate(self.buffers):
            if buffer.access != "readonly":
                place = f"{buffer.owner}{buffer.member}[i]"
                value = f"{buffer.type}(sum + {n})" + (f" + {place}" if buffer.access == "" else "")
                lines.append(f"    if (i < {buffer.length}) {{ {place} = {value}; }}")
        return "\n".join([*lines, "}", ""])

    @property
    def groups(self):
        return max(-(-buffer.elements // self.local) for buffer in self.buffers)

    def expected(self):
        """The contents of each buffer that is written, by its binding."""
        i = np.arange(self.groups * self.local)
        total = 3 * i + sum(int(value) for _, value in self.push.values())
        for *_, default, value in self.constants.values():
            total = total + int(default if value is None else value)
        for buffer in self.buffers:
            if buffer.access == "readonly":
                total = total + buffer.numbers[:: buffer.width].astype(np.int64)[i % buffer.elements]
        found = {}
        for n, buffer in enumerate(self.buffers):
            if buffer.access != "readonly":
                rows = np.repeat((total + n)[: buffer.elements], buffer.width)
                rows = rows + (buffer.numbers.astype(np.int64) if buffer.access == "" else 0)
                found[buffer.binding] = np.concatenate([buffer.values[: buffer.lead], rows])
        return found


def draw(chance):
    """A random program, whose numbers are small enough for every type."""
    made, rare = Program(local=pick(chance, [1, 3, 32, 64])), chance.random() < 0.3
    bindings = chance.permutation(pick(chance, [4, 9, 40]))[: int(chance.integers(1, 5))].tolist()
    for n, binding in enumerate(bindings):
        element, width, kind = pick(chance, ELEMENTS)
        access = "writeonly" if n == 0 else pick(chance, ["readonly", "readonly", "writeonly", ""])
        form = pick(chance, ["plain", "plain", "owned", "fixed", "restrict"])
        if rare and chance.random() < 0.4:
            form, made.sure = pick(chance, ["several", "arrayed", "set"]), False
        size = width * pick(chance, [1, 2, 5, 64, 200]) + (4 if form == "several" else 0)
        values = chance.integers(0, 50, size=size).astype(NUMBERS[kind])
        made.buffers.append(Buffer(binding, f"B{n}", f"b{n}", element, width, kind, access, form, values))
    for n in range(int(chance.integers(4))):
        kind = pick(chance, MEMBERS)
        if rare and chance.random() < 0.3:
            kind, made.sure = pick(chance, UNSURE), False
        made.push[f"p{n}"] = (kind, int(chance.integers(2 if kind == "bool" else 100)))
    for n in range(int(chance.integers(3))):
        kind = pick(chance, MEMBERS)
        if rare and chance.random() < 0.3:
            kind, made.sure = pick(chance, ["bool", "double", "int64_t", "float16_t"]), False
        default, value = chance.integers(2 if kind == "bool" else 100, size=2).tolist()
        made.constants[f"C{n}"] = (3 * n + 1, kind, default, value if chance.random() < 0.5 else None)
    return made


def arguments(function, program):
    """What a program is dispatched with, by the names that the function tells."""
    names = {index: name for index, name, _ in function.bindings}
    return {
        "groups": program.groups,
        "buffers": {names.get(buffer.binding, buffer.member): buffer.values for buffer in program.buffers},
        "push": {name: value for name, (_, value) in program.push.items()},
        "constants": {name.lower(): value for name, (*_, value) in program.constants.items() if value is not None},
    }


class Shaders:
    """A folder of shaders and the compiler."""

    def __init__(self, folder):
        self.folder = folder / "shaders"
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir()

    def compiled(self, name, content, **options):
        from grilly import ShaderCompiler, ShaderCompilerConfig

        (self.folder / name).write_bytes(content)
        config = ShaderCompilerConfig(self.folder, enable_caching=False, **options)
        try:
            return ShaderCompiler(config).get_compute_function(name.removesuffix(".glsl"))
        finally:
            (self.folder / name).unlink()


def corpus(folder, given):
    return Shaders(folder)


def case(shaders, chance):
    """One program, with the right arguments and with others, or with other words in its module."""
    from grilly.compiler import dispatch
    from grilly.errors import GrillyError

    program = draw(chance)
    options = {"optimization_level": pick(chance, ["none", "size", "full"]), "debug_info": bool(chance.integers(2))}
    try:
        function = shaders.compiled("f.glsl", program.text.encode(), **options)
        if chance.random() < 0.3:
            return with_other_words(shaders, function, chance)
        given = arguments(function, program)
        found = {name: array.numpy() for name, array in dispatch(function, **given).items()}
    except GrillyError as error:
        if program.sure:
            raise Fault(f"{error!r} of\n{program.text}") from None
        return type(error).__name__
    names = {name: index for index, name, _ in function.bindings}
    for binding, values in program.expected().items():
        got = [array for name, array in found.items() if names[name] == binding]
        if not got or not np.array_equal(got[0].ravel(), values):
            raise Fault(f"binding {binding}: {got}, expected {values} of\n{program.text}")
    for _ in range(3):
        wrong(function, given, chance, program)
    return "right"


# ------------------------------------------------------------------------------------------------------ other arguments

#: Numbers that are none, or of no type of 32 bits.
NUMBERS_LEFT_OUT = [float("nan"), float("inf"), 2**32, -(2**31) - 1, 2**70, "a", None, [1], 1j, b"1"]
ARRAYS_LEFT_OUT = [None, "a", object(), [1j], np.array(["a"]), np.array([None]), {}, [[1.0], [1.0, 2.0]], 2**70]
GROUPS_LEFT_OUT = [-1, 1.5, "a", None, (), (1, 1, 1, 1), 2**32, (2**31, 2**31), [None], (1, -1), 10**30, np.float32(2)]


def wrong(function, given, chance, program):
    """Arguments of which one is wrong: an error of grilly."""
    from grilly.compiler import dispatch
    from grilly.errors import GrillyError

    given, must = {name: dict(part) if isinstance(part, dict) else part for name, part in given.items()}, True
    kind = int(chance.integers(9))
    part = pick(chance, [name for name in ("buffers", "push", "constants") if given[name]])
    name = pick(chance, list(given[part]))
    if kind == 0:
        del given[part][name]
        must = part != "constants"
    elif kind == 1:
        given[part]["other"] = np.ones(3, np.float32) if part == "buffers" else 1
    elif kind == 2 and part == "buffers":
        given[part][name] = pick(chance, ARRAYS_LEFT_OUT)
    elif kind == 2:
        value = given[part][name] = pick(chance, NUMBERS_LEFT_OUT)
        must = not isinstance(value, float | int)  # a float takes them
    elif kind == 3:
        given["groups"] = pick(chance, GROUPS_LEFT_OUT)
    elif kind == 4:
        given["device"] = pick(chance, ["cpu", "vulkan:99", "cuda", "", None, 3])
    elif kind == 5:
        given[part] = pick(chance, [[1], "a", 3, {3: 1}])
    elif kind == 6:
        # Of another size or type, each of which may be right.
        arrays = given["buffers"]
        name, must = pick(chance, list(arrays)), False
        dtype = pick(chance, [np.float16, np.float64, np.int8, np.uint8, np.int64, bool, ">f4", np.uint16, np.int32])
        size = pick(chance, [0, 1, 3, 4, 5, 4096])
        arrays[name] = pick(chance, [np.resize(arrays[name], size), arrays[name].astype(dtype), arrays[name][::-2]])
    elif kind == 7:
        given["groups"], must = pick(chance, [0, (1, 1, 1), [2], True, np.int64(1), (1, 3), 70000]), False
    else:
        given["buffers"] = {key.upper() + "x": value for key, value in given["buffers"].items()}
    try:
        for array in dispatch(function, **given).values():
            array.numpy()
    except GrillyError:
        return
    if must:
        raise Fault(f"not refused: {given} of\n{program.text}")


# -------------------------------------------------------------------------------------------------------- other modules

#: Instructions of SPIR-V that say what the interface is.
INTERFACE = {5, 6, 14, 15, 16, 17, 21, 22, 23, 28, 29, 30, 32, 43, 48, 49, 50, 59, 71, 72}


def with_other_words(shaders, function, chance):
    """A module with other words is refused, or is dispatched as it says it wants to be."""
    from grilly.compiler import dispatch
    from grilly.errors import GrillyError

    words = np.frombuffer(function.spirv, "<u4").copy()
    if chance.random() < 0.2:
        module = damage.of_bytes(function.spirv, chance)
    else:
        places, at = [], 5
        while at < len(words):
            count, code = int(words[at] >> 16), int(words[at] & 0xFFFF)
            places += range(at, at + count) if code in INTERFACE else []
            at += max(count, 1)
        for place in chance.choice(places, size=int(chance.integers(1, 3))).tolist():
            old = int(words[place])
            values = [0, 1, 2, 3, 4, 12, 33, 34, 35, 64, old ^ 1, old + 1, 2**31, 2**32 - 1, int(pick(chance, words))]
            words[place] = pick(chance, values) & 0xFFFFFFFF
        module = words.tobytes()
    try:
        changed = shaders.compiled("g.spv", module)
    except GrillyError as error:
        return f"module: {type(error).__name__}"
    for dtype in (np.float32, np.uint32):
        buffers = {name: np.ones(64, dtype) for _, name, _ in changed.bindings}
        try:
            dispatch(changed, 1, buffers, {name: 1 for name, _ in changed.push_constants})
        except GrillyError:
            continue
        return "module: runs"
    return "module: not dispatched"


if __name__ == "__main__":
    sys.exit(main(corpus, case))
