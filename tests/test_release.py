"""The parts of `make release`, without a build: address and name, links, checksums, the list of libraries, notes."""

import re
import shutil
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest

tomllib = pytest.importorskip("tomllib")  # of Python 3.11
ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT / "scripts"))
import release  # noqa: E402

ADDRESS = "https://example.org/owner/grilly"
README = (ROOT / "README.md").read_text("utf-8")


def test_the_address_is_the_owners_to_fill_in():
    given = tomllib.loads((ROOT / "release.toml").read_text("utf-8"))
    assert set(given) == {"address", "distribution"} and given["distribution"] != "grilly"
    assert given["address"] == "" or re.fullmatch(r"https://\S+[^/]", given["address"])


@pytest.mark.parametrize("address", ["", "grilly", "http://example.org/a", "https://example.org", "https://a b/c"])
def test_no_release_without_an_address(address):
    with pytest.raises(SystemExit, match="address is .* in release.toml"):
        release.settings(f'address = "{address}"\ndistribution = "x"')


def test_no_release_without_a_name():
    with pytest.raises(SystemExit, match="distribution is"):
        release.settings(f'address = "{ADDRESS}"\ndistribution = "-x"')
    assert release.settings(f'address = "{ADDRESS}/"\ndistribution = "x"') == {"address": ADDRESS, "distribution": "x"}


def test_the_command_refuses(tmp_path):
    for name in ("scripts/release.py", "release.toml"):
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(re.sub('address = ".*"', 'address = ""', (ROOT / name).read_text("utf-8")), "utf-8")
    command = [sys.executable, tmp_path / "scripts" / "release.py", "source", tmp_path / "out"]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 1 and "address is ''" in done.stderr and not (tmp_path / "out").exists()


def test_links_become_addresses():
    text = "[a](#more) ![p](docs/p.svg) [b](docs/b.md#c) [d](examples/), [e](https://rustup.rs) ([f](LICENSE))"
    assert release.absolute(text, ADDRESS, "v1") == (
        f"[a](#more) ![p]({ADDRESS}/raw/v1/docs/p.svg) [b]({ADDRESS}/blob/v1/docs/b.md#c) "
        f"[d]({ADDRESS}/tree/v1/examples), [e](https://rustup.rs) ([f]({ADDRESS}/blob/v1/LICENSE))"
    )


def test_readme_and_metadata_as_they_are_published(tmp_path):
    for name in ("README.md", "pyproject.toml"):
        (tmp_path / name).write_text((ROOT / name).read_text("utf-8"), "utf-8")
    release.publish(tmp_path, "2.0.0", address=ADDRESS, distribution="of-another-name")
    readme = (tmp_path / "README.md").read_text("utf-8")
    targets = re.findall(r"\]\(([^)]*)\)", readme)
    assert len(targets) > 25 and all(target.startswith(("https://", "#")) for target in targets)
    ours = [target.removeprefix(f"{ADDRESS}/") for target in targets if target.startswith(ADDRESS)]
    assert all((ROOT / path.split("/", 2)[2].partition("#")[0]).exists() for path in ours)
    assert "```\npip install of-another-name\n```" in readme and "from a clone" not in readme.partition("## Install")[0]
    project = tomllib.loads((tmp_path / "pyproject.toml").read_text("utf-8"))["project"]
    before = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    assert project.pop("name") == "of-another-name" and before.pop("name") == "grilly"
    urls = project.pop("urls")
    assert project == before and urls["Repository"] == ADDRESS
    assert all(url.startswith(ADDRESS) for url in urls.values()) and set(urls) == {
        "Repository", "Documentation", "Issues", "Changelog",
    }  # fmt: skip


def test_in_a_clone_links_are_relative():
    assert "urls" not in tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    linked = re.findall(r"\]\((?!https:|#)([^)#]*)", README)
    assert len(linked) > 25 and all((ROOT / path).exists() for path in linked)


def test_notes_are_the_section_of_the_version():
    changelog = "# Changes\n\n## 2.0.0 (2026-12-01)\n\nNew.\n\n### Added\n\n- One.\n\n## 1.0.0\n\nOld.\n"
    assert release.notes(changelog, "2.0.0") == "# grilly 2.0.0\n\nNew.\n\n### Added\n\n- One.\n"
    assert release.notes(changelog, "1.0.0") == "# grilly 1.0.0\n\nOld.\n"
    for text, problem in ((changelog, "no section on 2.0"), ("## 2.0 (unreleased)\n\nNew.\n", "calls 2.0 unreleased")):
        with pytest.raises(SystemExit, match=problem):
            release.notes(text, "2.0")


def test_checksums_are_those_of_sha256sum(tmp_path):
    (tmp_path / "a.whl").write_bytes(b"abc")
    (tmp_path / "SHA256SUMS").write_text(release.checksums(tmp_path))
    assert (tmp_path / "SHA256SUMS").read_text() == (
        "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad  a.whl\n"  # of FIPS 180-2
    )
    subprocess.run(["sha256sum", "--check", "--quiet", "SHA256SUMS"], cwd=tmp_path, check=True)


def test_the_source_package_has_a_lock_of_what_is_in_it(tmp_path):
    """`pip install` of it builds with `--locked`, as pyproject.toml says."""
    for name in ("src", "build", "shaders", "python", "bitnet", "benches"):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("Cargo.toml", "Cargo.lock", "build.rs", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, tmp_path)
    (tmp_path / "THIRD-PARTY-NOTICES.txt").write_text("")
    before = (tmp_path / "Cargo.lock").read_text("utf-8")
    release.pack(tmp_path)  # asks cargo whether the lock is that of the package
    (package,) = (tmp_path / "dist").iterdir()
    with tarfile.open(package) as files:
        packed = files.extractfile(f"{package.name.removesuffix('.tar.gz')}/Cargo.lock").read().decode()
    whole, kept = (
        {(row["name"], row["version"]) for row in tomllib.loads(text)["package"]} for text in (before, packed)
    )
    assert kept < whole and {"criterion", "grilly-bitnet"} <= {name for name, _ in whole - kept}


def test_what_is_gathered_has_the_published_name(tmp_path):
    built = tmp_path / "built"
    (built / "dist" / "x").mkdir(parents=True)
    for name in ("pyproject.toml", "Cargo.toml"):
        text = (ROOT / name).read_text("utf-8").replace('name = "grilly"', 'name = "of-another-name"')
        (built / name).write_text(text, "utf-8")
    version = release.version_of(ROOT)
    (built / "dist" / f"of_another_name-{version}.tar.gz").touch()
    for wheel in (f"grilly-{version}", "of_another_name-1.0.0"):
        path = built / "dist" / "x" / f"{wheel}-cp310-abi3-linux_x86_64.whl"
        path.touch()
        with pytest.raises(
            SystemExit, match=f"{wheel}-cp310.* expected names that begin with of_another_name-{version}"
        ):
            release.gather(built, tmp_path / "out")
        path.unlink()


def test_libraries_are_listed_with_licence_and_checksum():
    lock = (ROOT / "Cargo.lock").read_text("utf-8")
    locked = {row["name"]: row for row in tomllib.loads(lock)["package"]}
    ash = {"name": "ash", "version": locked["ash"]["version"], "license": "MIT/Apache-2.0"}
    found = release.bill("of-another-name", "2.0.0", ["numpy>=1.24"], [ash], lock)
    rust, python = found["components"]
    assert rust["hashes"] == [{"alg": "SHA-256", "content": locked["ash"]["checksum"]}]
    assert rust["licenses"] == [{"expression": "MIT OR Apache-2.0"}]
    assert rust["purl"] == f"pkg:cargo/ash@{ash['version']}" and python["purl"] == "pkg:pypi/numpy"
    assert found["dependencies"][0]["dependsOn"] == [rust["purl"], python["purl"]]


def test_no_text_recommends_an_extra_of_a_name_that_is_anothers():
    files = [*(ROOT / "python").rglob("*.py"), *(ROOT / "python").rglob("*.json"), *(ROOT / "src").rglob("*.rs")]
    files += [ROOT / "README.md", *(ROOT / "docs").rglob("*.md")]
    assert len(files) > 300 and not [path for path in files if re.search(r"grilly\[[a-z]", path.read_text("utf-8"))]
