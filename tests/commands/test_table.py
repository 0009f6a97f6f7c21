"""The table of commands: usage, help, examples, errors, completion, pipes and signals."""

import importlib
import re
import shlex
import shutil
import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import pytest

from grilly.__main__ import entry, main
from grilly.commands import completion
from grilly.commands.table import arguments_of, known, overview, parser_of

ROOT = Path(__file__).parents[2]
COMMANDS = known()["commands"]


def test_the_console_script_is_the_module():
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    assert re.search(r'^\[project.scripts\]\ngrilly = "grilly.__main__:entry"$', text, re.MULTILINE) and callable(entry)


@pytest.mark.parametrize("name", COMMANDS)
def test_a_command_has_help_and_examples_that_parse(name, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([name, "--help"])
    told = capsys.readouterr().out
    assert all(option in told for names in arguments_of(name) for option in names.split() if option[0] == "-")
    examples = COMMANDS[name]["examples"]
    assert examples and all(example in told for example in examples)
    parsed = 0
    for part in (part for example in examples for part in example.partition("   #")[0].split("|")):
        words = shlex.split(part.removeprefix('eval "$(').removesuffix(')"').partition(">")[0])
        if words[0] == "grilly":
            parser_of(words[1]).parse_args(words[2:])
            parsed += words[1] == name
    assert parsed


def test_every_command_is_listed_and_has_its_module(capsys):
    assert main(["--help"]) == main(["help"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, own in COMMANDS.items():
        assert any(line.split()[:1] == [name] and own["summary"] in line for line in lines)
        assert callable(importlib.import_module(own["module"]).main)
    assert max(map(len, overview().splitlines())) <= 100


def test_the_version(capsys):
    import grilly

    assert main(["--version"]) == main(["-V"]) == 0
    assert capsys.readouterr().out == f"grilly {grilly.__version__}\n" * 2


def test_nothing_is_a_wrong_command_line(capsys):
    assert main([]) == 2
    captured = capsys.readouterr()
    assert captured.out == "" and captured.err.startswith("usage: grilly COMMAND")


@pytest.mark.parametrize(("wrong", "right"), [("serch", "search"), ("embedd", "embed"), ("chekc", "check")])
def test_an_unknown_command_names_the_nearest(wrong, right, capsys):
    assert main([wrong, "x"]) == 2
    assert capsys.readouterr().err.startswith(f"grilly: there is no command {wrong}; the nearest name is {right!r}\n")


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ("search --top_k 3 x", "there is no option --top_k; the nearest name is '--top-k'"),
        ("embed --modell=x", "there is no option --modell; the nearest name is '--model'"),
        ("search", "the following arguments are required: query"),
        ("convert a b --dtype float8", "invalid choice: 'float8'"),
        ("search x --top-k 0", "0 is not a positive number"),
        ("models x", "unrecognized arguments: x"),
        ("info --jsn", "there is no option --jsn; the nearest name is '--json'"),
    ],
)
def test_a_wrong_command_line(arguments, words, capsys):
    with pytest.raises(SystemExit, match="2"):
        main(arguments.split())
    errors = capsys.readouterr().err
    name = arguments.split()[0]
    assert errors.startswith(f"grilly {name}: ") and words in errors and f"grilly {name} --help" in errors


def test_the_reader_of_a_pipe_may_stop(shell):
    done = subprocess.run(
        ["bash", "-c", "set -o pipefail; grilly models | head -n 1"], env=shell, capture_output=True, text=True
    )
    assert done.returncode == 0 and done.stderr == "" and done.stdout.count("\n") == 1
    # Python keeps little output until its end: the pipe is closed before.
    done = subprocess.run(
        ["bash", "-c", "set -o pipefail; grilly --version | true"], env=shell, capture_output=True, text=True
    )
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other signals")
def test_ctrl_c_ends_without_a_traceback(shell, checkpoint, tmp_path):
    command = [sys.executable, "-m", "grilly", "embed", "-", "--output", "x.jsonl", "--model", checkpoint("base")]
    pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
    # A test run in the background of a shell ignores the signal, and would hand that down.
    heard = partial(signal.signal, signal.SIGINT, signal.SIG_DFL)
    process = subprocess.Popen(command, env=shell, cwd=tmp_path, text=True, preexec_fn=heard, **pipes)
    end = time.monotonic() + 60
    # It waits for texts once the file is there.
    while not (tmp_path / "x.jsonl").exists() and time.monotonic() < end:
        time.sleep(0.02)
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in errors


def test_commands_start_without_the_package_s_models():
    code = "import sys; from grilly.__main__ import main; main(['--help']); print('numpy' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.endswith("False\n")


@pytest.mark.parametrize("shell_name", ["bash", "zsh", "fish"])
def test_shells_take_the_script(shell_name, capsys, tmp_path):
    assert main(["completion", shell_name]) == 0
    text = capsys.readouterr().out
    assert all(re.search(rf"\b{name}\b", text) for name in COMMANDS)
    if shutil.which(shell_name):
        (tmp_path / "script").write_text(text)
        subprocess.run([shell_name, "-n", str(tmp_path / "script")], check=True)


@pytest.mark.parametrize(
    ("words", "expected"),
    [
        (["grilly", "sea"], ["search"]),
        (["grilly", "search", "--top"], ["--top-k"]),
        (["grilly", "search", "--dtype", "bf"], ["bfloat16"]),
        (["grilly", "completion", ""], ["bash", "zsh", "fish"]),
        (["grilly", "embed", "rea"], ["read.txt"]),
        (["grilly", "convert", "x", "--"], ["--help", "--dtype"]),
    ],
)
def test_bash_completes(words, expected, tmp_path):
    (tmp_path / "read.txt").write_text("")
    line = (
        f"COMP_WORDS=({shlex.join(words)}); COMP_CWORD={len(words) - 1}; _grilly; printf '%s\\n' \"${{COMPREPLY[@]}}\""
    )
    done = subprocess.run(
        ["bash", "-c", f"{completion.script('bash')}\n{line}"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert done.stdout.split() == expected


def test_fish_completes(tmp_path):
    if not shutil.which("fish"):
        pytest.skip("fish is not installed")
    (tmp_path / "grilly.fish").write_text(completion.script("fish"))

    def completed(line: str) -> list[str]:
        code = f"source grilly.fish; complete -C {shlex.quote(line)}"
        done = subprocess.run(["fish", "-c", code], cwd=tmp_path, capture_output=True, text=True, check=True)
        return [found.split("\t")[0] for found in done.stdout.splitlines()]

    assert completed("grilly sea") == ["search"]
    assert completed("grilly search --top") == ["--top-k"]
    assert completed("grilly search --dtype bf") == ["bfloat16"]
    assert set(completed("grilly completion ")) >= {"bash", "zsh", "fish"}
