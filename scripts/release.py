"""What is published of a version: `make release` runs this before and after it builds the wheels. Nothing is uploaded.

usage: python scripts/release.py source FOLDER         the last commit, with the address and the name of release.toml
       python scripts/release.py pack SOURCE           the source package of that, in its folder dist
       python scripts/release.py gather SOURCE FOLDER  what was built there, with libraries, checksums and notes
"""

import hashlib
import json
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

import tomllib

ROOT = Path(__file__).resolve().parent.parent
# Of README.md as a clone has it, and what an index shows in its place.
CLONED = (
    ("make wheel && pip install dist/grilly-*.whl  # from a clone", "pip install {distribution}"),
    ("This one is\nbuilt from a clone.", "This one is\n`{distribution}`."),
)
LINK = re.compile(r"(!?)\[([^]]*)\]\((?![a-z]+:|#)([^)#\s]*)(#[^)\s]*)?\)")


def settings(text: str) -> dict[str, str]:
    """Address and distribution of release.toml."""
    read = tomllib.loads(text)
    address, distribution = read["address"].rstrip("/"), read["distribution"]
    if not re.fullmatch(r"https://[^/\s]+/\S+", address):
        sys.exit(
            f"release.py: address is {address!r} in release.toml, expected one such as https://github.com/OWNER/grilly"
        )
    if not re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", distribution):
        sys.exit(f"release.py: distribution is {distribution!r} in release.toml, which is not a name of a package")
    return {"address": address, "distribution": distribution}


def absolute(readme: str, address: str, tag: str) -> str:
    """README.md with addresses in place of links to files, folders and pictures of the repository."""

    def place(found: re.Match[str]) -> str:
        picture, text, path, part = found.groups()
        kind = "raw" if picture else "tree" if path.endswith("/") else "blob"
        return f"{picture}[{text}]({address}/{kind}/{tag}/{path.rstrip('/')}{part or ''})"

    return LINK.sub(place, readme)


def installed(readme: str, distribution: str) -> str:
    """README.md with the name to install in place of a clone's commands."""
    for cloned, published in CLONED:
        if cloned not in readme:
            sys.exit(f"release.py: README.md has no {cloned!r}")
        readme = readme.replace(cloned, published.format(distribution=distribution))
    return readme


def described(pyproject: str, address: str, distribution: str, tag: str) -> str:
    """pyproject.toml with the name and the addresses of the project."""
    named, count = re.subn(r'(?m)^name = "grilly"$', f'name = "{distribution}"', pyproject)
    before, table, after = named.partition("\n[project.optional-dependencies]\n")
    if count != 1 or not table:
        sys.exit('release.py: pyproject.toml has no name = "grilly", or no [project.optional-dependencies]')
    pages = {
        "Repository": "",
        "Documentation": f"/tree/{tag}/docs",
        "Issues": "/issues",
        "Changelog": f"/blob/{tag}/CHANGELOG.md",
    }
    urls = "\n".join(f'{page} = "{address}{path}"' for page, path in pages.items())
    return f"{before}\n[project.urls]\n{urls}\n{table}{after}"


def notes(changelog: str, version: str) -> str:
    """The section of CHANGELOG.md about a version."""
    found = re.search(rf"(?ms)^## {re.escape(version)}( \([^)\n]*\))?\n(.*?)(?=^## |\Z)", changelog)
    if found is None:
        sys.exit(f"release.py: CHANGELOG.md has no section on {version}")
    if "unreleased" in (found[1] or ""):
        sys.exit(f"release.py: CHANGELOG.md calls {version} unreleased; its heading needs the date")
    return f"# grilly {version}\n\n{found[2].strip()}\n"


def bill(name: str, version: str, python: list[str], crates: list[dict[str, Any]], lock: str) -> dict[str, Any]:
    """The libraries of the wheel, as CycloneDX 1.6: what is compiled into it, and what an installer brings with it."""
    checksums = {(row["name"], row["version"]): row.get("checksum") for row in tomllib.loads(lock)["package"]}
    components = []
    for crate in crates:
        purl = f"pkg:cargo/{crate['name']}@{crate['version']}"
        row = {"type": "library", "bom-ref": purl, "name": crate["name"], "version": crate["version"], "purl": purl}
        if crate["license"]:
            row["licenses"] = [{"expression": crate["license"].replace("/", " OR ")}]
        if checksum := checksums.get((crate["name"], crate["version"])):
            row["hashes"] = [{"alg": "SHA-256", "content": checksum}]
        components.append(row)
    for requirement in python:
        other = re.split(r"[<>=!~ ;\[]", requirement)[0]
        purl = f"pkg:pypi/{other}"
        components.append({"type": "library", "bom-ref": purl, "name": other, "purl": purl, "description": requirement})
    own = f"pkg:pypi/{name}@{version}"
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {"component": {"type": "library", "bom-ref": own, "name": name, "version": version, "purl": own}},
        "components": components,
        "dependencies": [{"ref": own, "dependsOn": [row["bom-ref"] for row in components]}],
    }


def checksums(folder: Path) -> str:
    """The SHA-256 of each file of a folder, as `sha256sum --check` reads it."""
    files = sorted(path for path in folder.iterdir() if path.name != "SHA256SUMS")
    return "".join(f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files)


def version_of(root: Path) -> str:
    return str(tomllib.loads((root / "Cargo.toml").read_text("utf-8"))["workspace"]["package"]["version"])


def source(folder: Path) -> None:
    """Writes the last commit to a folder, as it is published."""
    given = settings((ROOT / "release.toml").read_text("utf-8"))
    version = version_of(ROOT)
    notes((ROOT / "CHANGELOG.md").read_text("utf-8"), version)
    if changed := subprocess.check_output(["git", "status", "--porcelain"], cwd=ROOT, text=True):
        sys.exit(f"release.py: commit these first:\n{changed}")
    shutil.rmtree(folder, ignore_errors=True)
    with subprocess.Popen(["git", "archive", "HEAD"], cwd=ROOT, stdout=subprocess.PIPE) as archive:
        with tarfile.open(fileobj=archive.stdout, mode="r|") as files:
            files.extractall(folder, filter="data")
    publish(folder, version, **given)
    # Built with the tools that are there, and beside what is compiled already.
    for name in (".venv", "target"):
        (ROOT / name).mkdir(exist_ok=True)
        (folder / name).symlink_to(ROOT / name, target_is_directory=True)


def publish(folder: Path, version: str, address: str, distribution: str) -> None:
    """Writes address and name into a copy of the repository."""
    for name, change in {
        "README.md": lambda text: absolute(installed(text, distribution), address, f"v{version}"),
        "pyproject.toml": lambda text: described(text, address, distribution, f"v{version}"),
    }.items():
        path = folder / name
        path.write_text(change(path.read_text("utf-8")), "utf-8")


def alone(manifest: str) -> str:
    """Cargo.toml whose workspace has the extension module alone, as maturin packs it."""
    lines, count = re.subn(r"(?m)^members = \[.*\]\ndefault-members = \[.*\]$", 'members = ["python"]', manifest)
    if count != 1:
        sys.exit("release.py: Cargo.toml has no members, with default-members in the next line")
    return lines


def pack(source: Path) -> None:
    """Writes the source package, with a lock of what is in it: with the whole one, no build of it is `--locked`."""
    manifest, made = source / "Cargo.toml", source / "dist"
    manifest.write_text(alone(manifest.read_text("utf-8")), "utf-8")
    lock = ["cargo", "update", "--workspace", "--offline", "--quiet"]
    subprocess.run(lock, cwd=source, check=True)
    subprocess.run([Path(sys.executable).with_name("maturin"), "sdist", "--out", made], cwd=source, check=True)
    (package,) = made.glob("*.tar.gz")
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(package) as files:
            files.extractall(folder, filter="data")
        (root,) = Path(folder).iterdir()
        subprocess.run([*lock, "--locked"], cwd=root, check=True)  # fails where the lock would change


def gather(built: Path, folder: Path) -> None:
    """Puts what was built from `source` into one folder, with what belongs to it."""
    from notices import shipped_crates

    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir(parents=True)
    made = [*built.glob("dist/*/*.whl"), *built.glob("dist/*.tar.gz")]
    if len({path.suffix for path in made}) < 2:
        sys.exit(f"release.py: {built}/dist has no wheels, or no source")
    project = tomllib.loads((built / "pyproject.toml").read_text("utf-8"))["project"]
    name, version = project["name"], version_of(built)
    start = f"{re.sub('[-_.]+', '_', name).lower()}-{version}"
    if others := [path.name for path in made if not path.name.startswith((f"{start}-", f"{start}.tar"))]:
        sys.exit(f"release.py: {', '.join(others)} in {built}/dist, expected names that begin with {start}")
    for path in made:
        shutil.copy2(path, folder)
    libraries = bill(
        name, version, project["dependencies"], shipped_crates(), (built / "Cargo.lock").read_text("utf-8")
    )
    (folder / f"{name}-{version}.cdx.json").write_text(json.dumps(libraries, indent=1) + "\n", "utf-8")
    (folder / "NOTES.md").write_text(notes((built / "CHANGELOG.md").read_text("utf-8"), version), "utf-8")
    (folder / "SHA256SUMS").write_text(checksums(folder), "utf-8")
    print((folder / "SHA256SUMS").read_text("utf-8"), end="")
    print(
        f"{folder}: nothing was uploaded. Wheels and source are for the index (twine upload), all of it for v{version}."
    )


if __name__ == "__main__":
    if len(sys.argv) == 3 and sys.argv[1] == "source":
        source(Path(sys.argv[2]).resolve())
    elif len(sys.argv) == 3 and sys.argv[1] == "pack":
        pack(Path(sys.argv[2]).resolve())
    elif len(sys.argv) == 4 and sys.argv[1] == "gather":
        gather(Path(sys.argv[2]).resolve(), Path(sys.argv[3]).resolve())
    else:
        sys.exit(__doc__)
