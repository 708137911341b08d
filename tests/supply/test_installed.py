"""The wheel, installed as the Dockerfile does it, serves where it can write nothing."""

import http.client
import json
import ssl
import subprocess
from base64 import b64decode
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from tests.reviews import clobbered
from tests.supply.sandbox import USER, Sandbox
from tools.wheel import ROOT
from webhook import __version__

_SECONDS = 240.0
PROBE = """
import errno, json, os, sys
def refused(path):
    try:
        open(path, "w").close()
    except OSError as error:
        return errno.errorcode[error.errno]
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
print(json.dumps({
    "user": os.getuid(), "group": os.getgid(), "capabilities": int(status["CapEff"], 16),
    "root": refused("/new"), "own": refused(f"{sys.prefix}/new"), "system": refused("/usr/new"),
    "tmp": refused("/tmp/new"), "repository": os.path.exists(sys.argv[1]),
}))
"""


@pytest.fixture(scope="module")
def sandbox(environment: Path, tmp_path_factory: pytest.TempPathFactory) -> Sandbox:
    return Sandbox(environment, tmp_path_factory.mktemp("certs"))


def run(*command: str, env: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=_SECONDS, env=env, check=False
    )
    assert done.returncode == 0, f"{command}: {done.returncode}\n{done.stdout}{done.stderr}"
    return done.stdout


def test_it_is_a_sandbox(sandbox: Sandbox) -> None:
    assert json.loads(
        run(*sandbox.command("python", "-c", PROBE, str(ROOT)), env=sandbox.env())
    ) == {
        "user": USER,
        "group": USER,
        "capabilities": 0,
        "root": "EROFS",
        "own": "EROFS",
        "system": "EROFS",
        "tmp": None,
        "repository": False,
    }


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("version",), f"genguard {__version__}"),
        (("explain", "deployments"), "deployments"),
        (("install", "--audit-only", "-o", "yaml"), "zzzzzz-genguard-mutate"),
    ],
)
def test_verbs_find_the_tables_and_manifests_that_they_read(
    sandbox: Sandbox, words: tuple[str, ...], said: str
) -> None:
    assert said in run(*sandbox.command("genguard", *words), env=sandbox.env())


@pytest.fixture(scope="module")
def served(sandbox: Sandbox) -> Iterator[dict[str, str]]:
    ports = ("--secure-port=0", "--ops-port=0", "--cert-dir=/tmp/certs")
    command = sandbox.command("genguard", "serve", *ports)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=sandbox.env()) as server:
        assert server.stderr is not None
        lines = []
        try:
            for line in server.stderr:
                lines.append(line)
                if '"serving"' in line:
                    yield json.loads(line)
                    break
            else:
                pytest.fail(f"it ended: {''.join(lines)}")
        finally:
            server.kill()


def test_it_answers_a_review(sandbox: Sandbox, served: dict[str, str]) -> None:
    trust = ssl.create_default_context(cafile=str(sandbox.certs / "ca.crt"))
    port = urlsplit(served["admission"]).port
    connection = http.client.HTTPSConnection("localhost", port, timeout=30, context=trust)
    headers = {"Content-Type": "application/json"}
    connection.request("POST", "/mutate?timeout=2s", json.dumps(clobbered()), headers)
    answer = json.loads(connection.getresponse().read())["response"]
    connection.close()
    assert answer["allowed"] is True
    (operation,) = json.loads(b64decode(answer["patch"]))
    assert (operation["path"], operation["value"]) == ("/status/observedGeneration", 3)


@pytest.mark.parametrize("path", ["/livez", "/readyz", "/metrics", "/api/findings", "/"])
def test_the_ops_port_shows_what_it_has(served: dict[str, str], path: str) -> None:
    connection = http.client.HTTPConnection(urlsplit(served["ops"]).netloc, timeout=30)
    connection.request("GET", path)
    assert connection.getresponse().status == 200
    connection.close()
