"""The image of the Dockerfile in Docker, as the README runs it."""

import http.client
import json
import secrets
import shlex
import ssl
import subprocess
import tomllib
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.controlplane.client import wait_until
from tests.reviews import make_review
from tools.image_sbom import text as sbom_of
from tools.wheel import ROOT

IMAGE = "genguard:image-test"
LARGEST_LAYER = 145_000_000
"""Bytes that genguard may add to its base image; it was 274 MB with what is left out now."""
LONGEST_START_CPU = 2.0
"""Seconds of processor time until it is ready: what a pod with 100m gets on a node with room."""
LABELS = {"SOURCE": "https://example.org/genguard", "REVISION": "abc", "CREATED": "2026-11-22"}
CA = "/tmp/.local/state/genguard/certs/ca.crt"
TOKEN = secrets.token_hex()


def docker(*words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
    """Run a docker command in the repository's top folder."""
    done = subprocess.run(
        ["docker", *words], cwd=ROOT, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0 or not check, f"docker {shlex.join(words)}:\n{done.stderr[-4000:]}"
    return done


@pytest.fixture(scope="module")
def image() -> Iterator[str]:
    """The name of the image; its name goes in the end, and its layers if nobody else has them."""
    arguments = [f"--build-arg={name}={value}" for name, value in LABELS.items()]
    docker("build", "-t", IMAGE, *arguments, ".")
    yield IMAGE
    docker("rmi", IMAGE)


class Container:
    """One that runs, and its published ports on 127.0.0.1."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.secure, self.ops = (self._port(port) for port in (8443, 8080))

    def _port(self, port: int) -> int:
        told = docker("port", self.name, f"{port}/tcp").stdout
        return int(told.splitlines()[0].rpartition(":")[2])

    def get(self, path: str, **headers: str) -> int:
        """The status of a GET at the ops port; 0 while nobody answers."""
        connection = http.client.HTTPConnection("127.0.0.1", self.ops, timeout=5)
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status
        except OSError:
            return 0
        finally:
            connection.close()

    def is_ready(self) -> bool:
        return self.get("/readyz") == 200

    def execute(self, *words: str, check: bool = True) -> subprocess.CompletedProcess[str]:
        return docker("exec", self.name, *words, check=check)


@contextmanager
def running(image: str, *flags: str, command: Sequence[str] = ()) -> Iterator[Container]:
    """With both ports published, once it is ready."""
    published = ("-p", "127.0.0.1::8443", "-p", "127.0.0.1::8080")
    name = docker("run", "-d", *published, *flags, image, *command).stdout.strip()
    try:
        container = Container(name)
        wait_until(container.is_ready, 60.0, what=f"ready: {docker('logs', name).stderr}")
        yield container
    finally:
        docker("rm", "-f", "-v", name)


@pytest.fixture(scope="module")
def container(image: str) -> Iterator[Container]:
    with running(image, "--read-only", "--tmpfs", "/tmp") as found:
        yield found


def test_a_published_port_answers_reviews(container: Container, tmp_path: Path) -> None:
    (tmp_path / "ca.crt").write_text(container.execute("cat", CA).stdout)
    trust = ssl.create_default_context(cafile=str(tmp_path / "ca.crt"))
    review = make_review(
        new={"status": {}}, old={"status": {"observedGeneration": 1}}, subresource="status"
    )
    connection = http.client.HTTPSConnection("localhost", container.secure, context=trust)
    connection.request("POST", "/mutate", json.dumps(review), {"Content-Type": "application/json"})
    response = json.load(connection.getresponse())["response"]
    connection.close()
    (operation,) = json.loads(b64decode(response["patch"]))
    assert operation == {"op": "add", "path": "/status/observedGeneration", "value": 1}


@pytest.mark.parametrize(
    ("path", "status"),
    [("/livez", 200), ("/readyz", 200), ("/metrics", 200), ("/", 403), ("/api/findings", 403)],
)
def test_a_published_port_shows_no_name_of_an_object(
    container: Container, path: str, status: int
) -> None:
    assert container.get(path, Host="localhost:8080") == status


def test_with_a_token_it_shows_the_dashboard(image: str, tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text(TOKEN)
    token.chmod(0o600)
    owner = token.stat()
    flags = ("--user", f"{owner.st_uid}:{owner.st_gid}", "-v", f"{token}:/run/token:ro")
    serve = ("serve", "--ops-auth", "token-file=/run/token")
    with running(image, *flags, command=serve) as found:
        assert found.get("/") == 401
        password = b64encode(f"anybody:{TOKEN}".encode()).decode()
        assert found.get("/", Authorization=f"Basic {password}") == 200


def test_it_is_not_root_and_writes_nothing_but_its_folder(container: Container) -> None:
    assert container.execute("id", "-u").stdout.strip() == "65532"
    assert container.execute("touch", "/opt/genguard/new", check=False).returncode != 0
    container.execute("touch", "/tmp/new")


@pytest.mark.parametrize("python", ["/opt/genguard/bin/python", "python3"])
@pytest.mark.parametrize("module", ["pip", "ensurepip"])
def test_nothing_can_be_installed_in_it(container: Container, python: str, module: str) -> None:
    path = "PATH=/usr/local/bin:/usr/bin:/bin"  # without genguard's own environment
    done = container.execute("env", path, python, "-m", module, "--version", check=False)
    assert f"No module named {module}" in done.stderr


def test_every_label_has_a_value(image: str) -> None:
    labels = json.loads(docker("inspect", "-f", "{{json .Config.Labels}}", image).stdout)
    found = {key.removeprefix("org.opencontainers.image."): labels[key] for key in labels}
    version = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
    assert found["version"] == version
    assert found["source"] == LABELS["SOURCE"]
    assert found["revision"] == LABELS["REVISION"]
    assert found["created"] == LABELS["CREATED"]
    assert all(found.values())


def test_genguard_adds_no_more_than_it_may_to_the_base_image(image: str) -> None:
    base = json.loads(docker("inspect", "-f", "{{json .Config.Labels}}", image).stdout)
    sizes = [
        int(docker("inspect", "-f", "{{.Size}}", name).stdout)
        for name in (image, base["org.opencontainers.image.base.name"])
    ]
    assert sizes[0] - sizes[1] < LARGEST_LAYER


def test_every_verb_runs_without_what_is_left_out(image: str) -> None:
    for verb in ("serve", "install", "doctor", "status", "trace", "lint", "replay", "explain"):
        assert "Usage:" in docker("run", "--rm", image, verb, "--help").stdout


def test_it_is_ready_after_little_processor_time(image: str) -> None:
    with running(image, "--cpu-shares", "102") as found:
        pid = docker("inspect", "-f", "{{.State.Pid}}", found.name).stdout.strip()
        spent = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[11:13]
    assert sum(map(int, spent)) / 100 < LONGEST_START_CPU  # in hundredths of a second


def test_its_sbom_lists_the_packages_of_debian_and_of_python(image: str) -> None:
    document = json.loads(sbom_of(image))
    purls = {one["purl"].partition("?")[0] for one in document["components"]}
    names = {purl.partition("@")[0] for purl in purls}
    assert {"pkg:pypi/aiohttp", "pkg:deb/debian/libc6", "pkg:generic/python"} <= names
    listed = docker("run", "--rm", "--entrypoint", "dpkg-query", image, "-W").stdout.splitlines()
    assert len([purl for purl in purls if purl.startswith("pkg:deb/")]) == len(listed)


def test_the_image_of_the_action_lints_what_is_mounted(tmp_path: Path) -> None:
    """As GitHub runs it; tests/supply/test_action.py runs its entry without Docker."""
    name, at = "genguard-action:image-test", "/github/workspace"
    (tmp_path / "broken.yaml").write_text("kind: [\n")
    docker("build", "-f", "Dockerfile.action", "-t", name, ".")
    flags = ("-v", f"{tmp_path}:{at}", "-w", at, "-e", f"GITHUB_OUTPUT={at}/output")
    done = docker("run", "--rm", *flags, name, "*.yaml", "error", check=False)
    docker("rmi", name)
    assert done.returncode == 1
    assert "broken.yaml" in done.stdout + done.stderr
