"""`python -m grilly` and the name of a command, such as `info`, `demo`, `kernels` or `models`."""

import importlib
import json
import sys

from grilly.commands.table import known


def main(arguments: list[str]) -> int:
    """Runs a command and returns the exit status."""
    command, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if command == "info" and rest in ([], ["--json"]):
        from grilly.devices import format_info, info

        facts = info()
        print(json.dumps(facts, indent=2) if rest else format_info(facts))
        return 0
    if command in known()["commands"]:
        status: int = importlib.import_module(known()["commands"][command]["module"]).main(rest)
        return status
    if command == "kernels" and not rest:
        from grilly import _core

        for name, formula, options in _core.kernel_rows():
            print(f"{name}: {formula}\n    options: {', '.join(options)}")
        return 0
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
    asked = command in ("-h", "--help", "help")
    print("\n".join(known()["usage"]), file=sys.stdout if asked else sys.stderr)
    return 0 if asked else 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
