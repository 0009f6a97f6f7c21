"""`python -m grilly info`, `demo`, `train`, `demo-train`, `compile`, `kernels`, `export` and `models`."""

from __future__ import annotations

import json
import sys

USAGE = """usage: python -m grilly info [--json]   devices, capabilities, and the choice with its reason
       python -m grilly demo [OPTIONS]  embed a real text and answer queries (demo --help lists the options)
       python -m grilly train OPTIONS   train a transformer on a file (train --help lists the options)
       python -m grilly demo-train      train the smallest one on a real text (demo-train --help lists the options)
       python -m grilly compile FOLDER  compile GLSL shaders to SPIR-V (compile --help lists the options)
       python -m grilly kernels         names, formulas and options of the kernels
       python -m grilly export NAME     a kernel in another language, as files (export --help lists the options)
       python -m grilly models          models that load: families, classes, modules
       python -m grilly --version"""


def main(arguments: list[str]) -> int:
    """Runs a command and returns the exit status."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command == "info" and rest in ([], ["--json"]):
        from grilly.devices import format_info, info

        facts = info()
        print(json.dumps(facts, indent=2) if rest else format_info(facts))
        return 0
    if command == "demo":
        from grilly import demo

        status: int = demo.main(rest)
        return status
    if command == "train":
        from grilly.train import command as training

        return training.main(rest)
    if command == "demo-train":
        from grilly.train import demo as train_demo

        return train_demo.main(rest)
    if command == "compile":
        from grilly import compile_command

        return compile_command.main(rest)
    if command == "kernels" and not rest:
        from grilly import _core

        for name, formula, options in _core.kernel_rows():
            print(f"{name}: {formula}\n    options: {', '.join(options)}")
        return 0
    if command == "export":
        from grilly import export_command

        return export_command.main(rest)
    if command == "models" and not rest:
        from grilly import _core

        print("model_type in config.json: classes in transformers; for example")
        for family, start, examples in _core.model_rows():
            print(f"{family}: {start}Model, {start}For...; {examples}")
        print("\nmodules in modules.json: modes or activations")
        for module, choices in _core.module_rows():
            print(module + (f": {', '.join(choices)}" if choices else ""))
        return 0
    if command in ("-V", "--version") and not rest:
        import grilly

        print(f"grilly {grilly.__version__}")
        return 0
    print(USAGE, file=sys.stdout if command in ("-h", "--help", "help") else sys.stderr)
    return 0 if command in ("-h", "--help", "help") else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
