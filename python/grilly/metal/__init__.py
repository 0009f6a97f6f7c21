"""BitNet's functions as a library for Metal: `.metal` files, and a Swift package of them.

No compiler of Apple's has seen them and no GPU has run them; tests run them on a CPU through a stand-in for Metal's
library, and compare with float64.
"""

import re
from dataclasses import dataclass
from pathlib import Path

from grilly import _core
from grilly.closed import closed

__all__ = ["Function", "functions", "write"]

HERE = Path(__file__).parent
SHADERS = ("bitlinear", "quantization", "activation")
SOURCES, TESTS = "Sources/BitNetShaders", "BitNetShadersTests"

KERNEL = re.compile(r"^kernel void (\w+)\((.*?)\)\n\{", re.DOTALL | re.MULTILINE)
BUFFER = re.compile(r"((?:const )?device \w+\*|constant \w+&) (\w+) \[\[buffer\((\d+)\)\]\]")
BLOCK = re.compile(r"^struct (\w+)_parameters \{\n(.*?)^\};", re.DOTALL | re.MULTILINE)
MEMBER = re.compile(r"^    (uint|float) (\w+);(?: *// .*?)??(?: *//.*default ([\d.e-]+))?$", re.MULTILINE)
#: What the head of a file marks as a buffer that may be left out.
OPTIONAL = re.compile(r"^//   \d+  (\w+)\?", re.MULTILINE)


@closed()
@dataclass(frozen=True)
class Function:
    """A function of the library.

    Attributes:
        name: Its name.
        shader: Its file, without `.metal`.
        buffers: Name and type of each, by index; the name of one that may be left out ends with `?`. The block of
            parameters has the next index.
        parameters: Name, type (`"uint"` or `"float"`, of 4 bytes) and default, if there is one, of each in the block.

    Example:
        >>> from grilly import metal
        >>> relu = next(function for function in metal.functions() if function.name == "relu_forward")
        >>> relu.buffers, relu.parameters
        ((('input', 'const float*'), ('output', 'float*')), (('count', 'uint', None),))
    """

    name: str
    shader: str
    buffers: tuple[tuple[str, str], ...]
    parameters: tuple[tuple[str, str, str | None], ...]


def functions() -> list[Function]:
    """The 27 functions, in the order of the files.

    Example:
        >>> from grilly import metal
        >>> [function.name for function in metal.functions()][:2]
        ['bitlinear_forward', 'bitlinear_backward_input']
    """
    found = []
    for shader in SHADERS:
        text = _text(f"{shader}.metal")
        heads = dict(re.findall(r"^// (\w+): .*\n((?://   \d.*\n)+)", text, re.MULTILINE))
        blocks = {name: MEMBER.findall(members) for name, members in BLOCK.findall(text)}
        for name, signature in KERNEL.findall(text):
            optional = OPTIONAL.findall(heads[name])
            *buffers, _ = [
                (buffer + "?" * (buffer in optional), kind.replace("device ", ""))
                for kind, buffer, _ in BUFFER.findall(signature)
            ]
            members = tuple((member, kind, default or None) for kind, member, default in blocks[name])
            found.append(Function(name, shader, tuple(buffers), members))
    return found


def write(folder: str | Path, overwrite: bool = False) -> list[Path]:
    """Writes the library: three `.metal` files, a Swift package of them, and a README.md that tells their use.

    Args:
        folder: Made if it is missing.
        overwrite: Whether files of these names may be replaced; default False.

    Returns:
        The files.

    Raises:
        InvalidArgumentError: A file is there already or cannot be written; nothing is written then.

    Example:
        >>> import tempfile
        >>> from grilly import metal
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     files = metal.write(folder)
        >>> [file.name for file in files][:3]
        ['bitlinear.metal', 'quantization.metal', 'activation.metal']
    """
    files = [(name, name) for name in (*(f"{shader}.metal" for shader in SHADERS), "README.md", "Package.swift")]
    files += [
        (f"{SOURCES}/BitNetShaders.swift", "BitNetShaders.swift"),
        (f"Tests/{TESTS}/{TESTS}.swift", f"{TESTS}.swift"),
    ]
    texts = [(name, _text(own)) for name, own in files] + [(f"{SOURCES}/Functions.swift", _swift())]
    _core.write_files(Path(folder), [(name, text.encode()) for name, text in texts], overwrite)
    return [Path(folder) / name for name, _ in texts]


def _text(name: str) -> str:
    return (HERE / name).read_text(encoding="utf-8")


def _camel(name: str) -> str:
    first, *rest = name.rstrip("?").split("_")
    return first + "".join(word.capitalize() for word in rest)


def _swift() -> str:
    """The names of the functions in Swift, an encoder and a dispatch of each."""
    every = functions()
    cases = [f'    case {_camel(function.name)} = "{function.name}"' for function in every]
    own = {shader: [f".{_camel(one.name)}" for one in every if one.shader == shader] for shader in SHADERS}
    join = ",\n             ".join
    shaders = [f'        case {join(names)}:\n            return "{shader}"' for shader, names in own.items()]
    head = (
        "// The functions by name. Written by grilly from the heads of the .metal files; MIT licence.\n//\n"
        "// Not compiled by Apple's compiler and not run on a GPU.\n\nimport Metal\n\n"
        "/// A function, by its name in Metal.\npublic enum BitNetShaderFunction: String, CaseIterable {\n"
    )
    switch = "    /// Its file, without the ending.\n    public var shader: String {\n        switch self {\n"
    enum = "\n".join([head + "\n".join(cases), "", switch + "\n".join(shaders), "        }", "    }", "}", ""])
    return enum + "".join(map(_by_name, every))


def _by_name(function: Function) -> str:
    """An encoder and a dispatch of one function."""
    name = _camel(function.name)
    title = name[0].upper() + name[1:]
    arguments = ["_ encoder: MTLComputeCommandEncoder"]
    given, words = [], []
    for buffer, _ in function.buffers:
        may_be_nil = buffer.endswith("?")
        arguments.append(f"{_camel(buffer)}: MTLBuffer" + "? = nil" * may_be_nil)
        # One that is left out is any other, which the function does not read.
        given.append(_camel(buffer) + f" ?? {_camel(function.buffers[0][0])}" * may_be_nil)
    for parameter, kind, default in function.parameters:
        if parameter.startswith("has_"):
            words.append(f"{_camel(parameter[4:])} == nil ? 0 : 1")
            continue
        swift = {"uint": "UInt32", "float": "Float"}[kind]
        arguments.append(f"{_camel(parameter)}: {swift}{'' if default is None else f' = {default}'}")
        word = _camel(parameter) + ".bitPattern" * (kind == "float")
        words.append(f"weightScale == nil ? 0 : {word}" if parameter == "scale_count" else word)
    arguments += ["threads: MTLSize", "threadgroup: MTLSize"]
    lines = ",\n".join(f"    {argument}" for argument in arguments)
    join = ",\n        ".join
    return f"""
/// An encoder with the pipeline of `{function.name}`.
public func create{title}Encoder(
    _ shaders: BitNetShaders, _ commandBuffer: MTLCommandBuffer
) throws -> MTLComputeCommandEncoder {{
    try shaders.createComputeEncoderWithPipeline(commandBuffer, .{name})
}}

/// Adds a command of `{function.name}`; its head in {function.shader}.metal says what buffers and numbers are.
public func dispatch{title}(
{lines}
) {{
    let parameters: [UInt32] = [
        {join(words)},
    ]
    dispatch(encoder, [{", ".join(given)}], parameters, threads, threadgroup)
}}
"""
