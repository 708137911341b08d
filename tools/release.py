"""Makes a release in dist/ and tries each of its files: `python -m tools.release VERSION`.

It writes the version, the repository and the day into the tree (published.py), builds with the
commands of the other `make` verbs, and runs what it has made as a user does. What this machine
cannot make is named at the end. With --push, image and chart are published, too.
"""

import argparse
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tests.controlplane.build import BuildError
from tools.binaries import binary
from tools.krew import PLATFORMS, PROGRAM, here, name_of, pack
from tools.published import FillError, Published, current, dated, fill_in, notes
from tools.wheel import ROOT, committed

DIST = ROOT / "dist"
PUSHED = ROOT / "build" / "pushed"
"""What was pushed, as `name=value`: the release workflow signs it."""
SUMS = "SHA256SUMS"
_NEEDED = re.compile(r"(PIP_|SSL_|[A-Z]+_PROXY$|[a-z]+_proxy$)")
"""Variables of this machine without which pip reaches no index of packages."""


class Release:
    """The making of one version.

    made      each file or image and how it was tried
    left_out  what this machine cannot make, and why
    """

    def __init__(self, now: Published, dist: Path = DIST, *, push: bool = False) -> None:
        self.now, self.dist, self._push = now, dist, push
        self.made: list[tuple[str, str]] = []
        self.left_out: list[str] = []
        self._pushed: dict[str, str] = {}

    def make(self, archives: Path | None) -> None:
        """Make and try everything. `archives` has krew archives of other platforms."""
        shutil.rmtree(self.dist, ignore_errors=True)
        self.dist.mkdir(parents=True)
        self._wheels()
        self._module("sbom", str(self.dist / "genguard.cdx.json"))
        self._manual()
        self._krew(archives)
        self._chart(self._image())
        (self.dist / "notes.md").write_text(notes(_changelog(), self.now))
        write_sums(self.dist)
        PUSHED.parent.mkdir(exist_ok=True)
        PUSHED.write_text("".join(f"{name}={value}\n" for name, value in self._pushed.items()))

    def _wheels(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            self._module("wheel", str(self.dist))
            self._module("wheel", folder)
            for again in Path(folder).glob("*.whl"):
                if again.read_bytes() != (self.dist / again.name).read_bytes():
                    raise ReleaseError(f"{again.name}, built again, is not the same bytes")
            use = "import genguard; print('genguard', genguard.__version__)"
            for start, used in (
                ("genguard_webhook-", ("bin/genguard", "version")),
                ("genguard-", ("bin/python", "-c", use)),
            ):
                (wheel,) = self.dist.glob(f"{start}*.whl")
                environment = Path(folder) / start
                run(sys.executable, "-m", "venv", str(environment))
                pip = (f"{environment}/bin/python", "-m", "pip", "install", "--quiet")
                run(*pip, str(wheel), env=bare(Path(folder)))
                program, *words = used
                self._says_version(f"{environment}/{program}", *words)
                self.made.append((wheel.name, "built twice, installed into a fresh venv, run"))

    def _manual(self) -> None:
        self._module("manual", str(self.dist))
        (archive,) = self.dist.glob("genguard-manual.tar.gz")
        with tarfile.open(archive) as tar:
            page = tar.extractfile("man1/genguard.1")
            if page is None or self.now.version not in page.read().decode():
                raise ReleaseError(f"{archive.name} is not of {self.now.version}")
        self.made.append((archive.name, "unpacked, of this version"))

    def _krew(self, archives: Path | None) -> None:
        for given in sorted(archives.glob(f"{PROGRAM}-*") if archives else ()):
            shutil.copy(given, self.dist)
        own = self.dist / name_of(*here())
        if not own.exists():
            self._module("krew", "archive", str(self.dist))
        with tempfile.TemporaryDirectory() as folder:
            with tarfile.open(own) as tar:
                tar.extractall(folder, filter="data")
            self._says_version(f"{folder}/{PROGRAM}", "version")
        self.made.append((own.name, "unpacked and run"))
        names = [name_of(*each) for each in PLATFORMS]
        missing = [name for name in names if not (self.dist / name).exists()]
        if missing:
            self.left_out.append(f"{', '.join(missing)}: each is made on such a machine")
        if missing or not self.now.is_known:
            self.left_out.append("genguard.yaml: krew needs the address and all archives")
            return
        self._module("krew", "manifest", self.now.address, str(self.dist))
        self.made.append(("genguard.yaml", "has the hash of each archive"))

    def _image(self) -> str:
        """Returns the digest of the image; "" where it was not pushed."""
        if shutil.which("docker") is None or _docker("info", check=False) is None:
            if self._push:
                raise ReleaseError("no docker runs here, and --push publishes an image")
            self.left_out.append(f"{self.now.image}: no docker runs here")
            return ""
        arguments = [f"--build-arg={label}={value}" for label, value in labels(self.now).items()]
        build = ("buildx", "build", ".", f"--tag={self.now.image}", *arguments)
        # With a builder in a container the second build only sends what the first has made.
        _docker(*(build if self._push else ("build", *build[2:])), *["--load"] * self._push)
        said = _docker("run", "--rm", "--read-only", "--tmpfs=/tmp", self.now.image, "version")
        self._check(self.now.image, said or "")
        self.made.append((self.now.image, "run"))
        self._module("image_sbom", self.now.image)
        self.made.append(("genguard-image.cdx.json", "read from the image"))
        if not self._push:
            return ""
        with tempfile.TemporaryDirectory() as folder:
            told = Path(folder) / "built.json"
            listed = ("--push", "--sbom=true", "--provenance=mode=max", f"--metadata-file={told}")
            _docker(*build, *listed)
            digest = str(json.loads(told.read_text())["containerimage.digest"])
        self._pushed |= {"image": self.now.registry, "image-digest": digest}
        return digest

    def _chart(self, digest: str) -> None:
        archive = self.dist / f"genguard-{self.now.version}.tgz"
        image = f"{self.now.registry}@{digest}" if digest else self.now.image
        with tempfile.TemporaryDirectory() as folder:
            self._module("chart", f"{folder}/genguard", digest)
            pack(Path(folder), archive)
        try:
            helm = str(binary("helm"))
        except BuildError as error:
            self.left_out.append(f"{archive.name} was not rendered: {error}")
            self.made.append((archive.name, "packed"))
            return
        rendered = run(helm, "template", "genguard", str(archive), "--set", "register=true")
        if image not in rendered:
            raise ReleaseError(f"{archive.name} does not install {image}")
        self.made.append((archive.name, "rendered by helm"))
        if self._push:
            place = f"{self.now.registry}/charts"
            logged_in = f"--registry-config={Path.home()}/.docker/config.json"
            said = run(helm, "push", str(archive), f"oci://{place}", logged_in, join=True)
            (digest,) = re.findall(r"^Digest: (\S+)$", said, re.MULTILINE)
            self._pushed |= {"chart": f"{place}/genguard", "chart-digest": digest}

    def _says_version(self, *command: str) -> None:
        with tempfile.TemporaryDirectory() as home:
            self._check(command[0], run(*command, env=bare(Path(home))))

    def _check(self, what: str, said: str) -> None:
        """`genguard 0.2.0, Kubernetes ...`."""
        if said.replace(",", " ").split()[:2] != ["genguard", self.now.version]:
            raise ReleaseError(f"{what} says it is {said.strip()!r}, not {self.now.version}")

    def _module(self, name: str, *words: str) -> None:
        """In a process of its own: modules read pyproject.toml when they are imported."""
        run(sys.executable, "-m", f"tools.{name}", *words)


class ReleaseError(Exception):
    """A file cannot be made, or does not work; the message says which."""


def labels(now: Published) -> dict[str, str]:
    """The arguments of the Dockerfile: which source and commit an image is of, and when."""
    when = datetime.fromtimestamp(committed(), UTC)
    return {
        "SOURCE": now.address if now.is_known else "",
        "REVISION": run("git", "rev-parse", "HEAD").strip(),
        "CREATED": when.strftime("%Y-%m-%dT%H:%M:%SZ"),
    }


def run(*command: str, env: Mapping[str, str] | None = None, join: bool = False) -> str:
    """What a command prints; raises ReleaseError where it fails. `join`: with what it complains."""
    done = subprocess.run(command, cwd=ROOT, env=env, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise ReleaseError(
            f"{' '.join(command[:4])} exited with {done.returncode}:\n{done.stdout}{done.stderr}"
        )
    return done.stdout + done.stderr if join else done.stdout


def bare(home: Path) -> dict[str, str]:
    """The environment of a user who has nothing but the system's programs."""
    needed = {name: value for name, value in os.environ.items() if _NEEDED.match(name)}
    return {"HOME": str(home), "PATH": "/usr/bin:/bin", "LANG": "C.UTF-8", **needed}


def write_sums(folder: Path) -> None:
    """Write the hashes of the other files of a folder, as `sha256sum --check` reads them."""
    files = sorted(path for path in folder.iterdir() if path.is_file() and path.name != SUMS)
    lines = [f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in files]
    (folder / SUMS).write_text("".join(lines))


def origin() -> str | None:
    """The repository on GitHub that this one was cloned from."""
    asked = ["git", "remote", "get-url", "origin"]
    said = subprocess.run(asked, cwd=ROOT, capture_output=True, text=True, check=False).stdout
    found = re.fullmatch(r".*github\.com[:/]([\w.-]+/[\w.-]+?)(?:\.git)?/?", said.strip())
    return found[1] if found else None


def prepare(now: Published) -> list[str]:
    """Write the values of the release into the tree. Returns the changed files."""
    text = _changelog()
    wanted = dated(text, now.version, datetime.now(UTC).date())
    notes(wanted, now)  # fails before anything is written
    changed = fill_in(now)
    if wanted != text:
        (ROOT / "CHANGELOG.md").write_text(wanted)
        changed.append("CHANGELOG.md")
    run(sys.executable, "-m", "tools.chart")
    return changed


def _changelog() -> str:
    return (ROOT / "CHANGELOG.md").read_text()


def _docker(*words: str, check: bool = True) -> str | None:
    """What docker prints; None where it fails and may."""
    done = subprocess.run(
        ["docker", *words],
        cwd=ROOT,
        env={**os.environ, "SOURCE_DATE_EPOCH": str(committed())},
        capture_output=True,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        if check:
            raise ReleaseError(f"docker {words[0]} exited with {done.returncode}:\n{done.stderr}")
        return None
    return done.stdout


def report(release: Release, changed: list[str]) -> None:
    """Say what there is now, how it was tried, and what comes next."""
    now = release.now
    width = max(len(name) for name, _ in release.made)
    print(f"\nRelease {now.version} is in {release.dist.name}/, with its {SUMS} and notes.md:")
    for name, tried in release.made:
        print(f"  {name:{width}}  {tried}")
    for line in release.left_out:
        print(f"  left out: {line}")
    if not now.is_known:
        print("  OWNER is not known: give REPOSITORY=owner/name, as on GitHub")
    if changed:
        print(f"Changed in the tree: {', '.join(changed)}, and the chart.")
        print(f"To publish: commit this, then git tag v{now.version} and push the tag.")


def main(arguments: list[str] | None = None) -> None:
    """Make a release; exits with 1 and one message where that fails."""
    parser = argparse.ArgumentParser(prog="make release")
    parser.add_argument("version", nargs="?", default="")
    parser.add_argument("--repository", default=None)
    parser.add_argument("--archives", type=Path, default=None)
    parser.add_argument("--push", action="store_true")
    given: Any = parser.parse_args(arguments)
    known = given.repository or origin() or current().repository
    release = Release(Published(given.version, known), push=given.push)
    changed: list[str] = []
    try:
        changed = prepare(release.now)
        release.make(given.archives)
    except (FillError, ReleaseError) as error:
        kept = f"\nThe tree already says {given.version}: `git diff` shows where." * bool(changed)
        sys.exit(f"release: {error}{kept}")
    report(release, changed)


if __name__ == "__main__":
    main()
