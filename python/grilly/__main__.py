"""`grilly COMMAND`, and `python -m grilly COMMAND`: commands/table.json has the commands."""

import os
import sys


def main(arguments: list[str]) -> int:
    """Runs a command and returns the exit status: 0, 1 after an error, 2 for a wrong command line."""
    from grilly.commands import table

    name, rest = (arguments[0], arguments[1:]) if arguments else ("", [])
    if name in ("-h", "--help", "help"):
        print(table.overview())
        return 0
    if name in ("-V", "--version") and not rest:
        from grilly import _core

        print(f"grilly {_core.__version__}")
        return 0
    if name in table.known()["commands"]:
        return table.run(name, rest)
    if name:
        from grilly.nearest import nearest

        near = nearest(name, [*table.known()["commands"], "--help", "--version"])
        print(f"grilly: there is no command {name}{near}\ngrilly --help lists the commands", file=sys.stderr)
    else:
        print(table.overview(), file=sys.stderr)
    return 2


def entry() -> int:
    """What the console script calls: `main` with the process' arguments, quiet where a reader or the user stops it."""
    try:
        status = main(sys.argv[1:])
        sys.stdout.flush()
        return status
    except BrokenPipeError:
        # The reader has what it wanted, as `head` does; Python flushes stdout again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except KeyboardInterrupt:
        return 130


if __name__ == "__main__":
    sys.exit(entry())
