"""The Valkey that `install --ha` brings: its very command, run by this machine's server."""

import socket
import ssl
import subprocess
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest
import valkey

import manifests
from certs import PairSnapshot, installed_names, issue, write_files
from tests.controlplane.client import wait_until
from tests.controlplane.processes import ProcessGroup
from tests.store.binaries import PACKAGES
from tests.store.test_access import address
from tests.store.test_intents import Story
from tests.store.test_observations import examined, members
from tests.unit.manifest_files import REPOSITORY
from webhook.manifest.rendering import Choices, render

_PASSWORD = "made-by-install_0-9"  # noqa: S105
_NAMES = installed_names("genguard", "genguard-system")
_NO_PAIR = PairSnapshot(b"", b"", b"").files
(_VALKEY,) = (
    one
    for one in render(Choices(ha=True), manifests.read, _NO_PAIR)
    if one["kind"] == "StatefulSet"
)
(CONTAINER,) = _VALKEY["spec"]["template"]["spec"]["containers"]


class Container:
    """What the kubelet runs in the container, with the volumes in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        for mount in CONTAINER["volumeMounts"]:
            (folder / mount["name"]).mkdir()
        self.write_certificate()
        self._processes = ProcessGroup(folder)

    def write_certificate(self) -> None:
        """As after a renewal of the Secret."""
        pair = issue(names=_NAMES, at=datetime.now(UTC))
        write_files(self.folder / "tls", pair.files)

    def start(self) -> None:
        with socket.socket() as free:  # a new one each time: another process may take the old one
            free.bind(("127.0.0.1", 0))
            self.port = free.getsockname()[1]
        program, *flags = self.here(CONTAINER["command"])
        command = [PACKAGES.binary(program), *flags]
        self._processes.start("valkey", command, PACKAGES.environment(program))
        wait_until(self._answers, what="valkey serving")
        assert self.run(CONTAINER["lifecycle"]["postStart"]) == 0

    def stop(self) -> None:
        self._processes.stop()

    def restart(self) -> None:
        """As the kubelet does when the liveness probe fails; volumes stay."""
        self._processes.stop()
        self._processes = ProcessGroup(self.folder)
        self.start()

    def run(self, handler: dict[str, dict[str, list[str]]]) -> int:
        """The exit code of a probe or a hook."""
        return subprocess.run(self.here(handler["exec"]["command"]), check=False).returncode

    def here(self, words: list[str]) -> list[str]:
        """A command with this machine's paths, port and password."""
        found = [word.replace("$(PASSWORD)", _PASSWORD) for word in words]
        for mount in CONTAINER["volumeMounts"]:
            at = str(self.folder / mount["name"])
            found = [word.replace(mount["mountPath"], at) for word in found]
        return [str(self.port) if word == "6379" else word for word in found]

    def client(self, username: str, password: str) -> valkey.Valkey:
        cafile = str(self.folder / "tls" / "ca.crt")
        return valkey.Valkey(
            *("localhost", self.port),
            username=username,
            password=password,
            ssl=True,
            ssl_ca_certs=cafile,
        )

    def serial(self) -> int:
        """The number of the certificate that is served to who dials the Service's name."""
        context = ssl.create_default_context(cafile=str(self.folder / "tls" / "ca.crt"))
        with socket.create_connection(("127.0.0.1", self.port)) as plain:
            (name,) = (one for one in _NAMES if "valkey" in one)
            with context.wrap_socket(plain, server_hostname=name) as connection:
                shown = connection.getpeercert()
        assert shown is not None
        return int(str(shown["serialNumber"]), 16)

    def _answers(self) -> bool:
        with socket.socket() as dialled:
            return dialled.connect_ex(("127.0.0.1", self.port)) == 0


@pytest.fixture(scope="module")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    found = Container(tmp_path_factory.mktemp("valkey"))
    try:
        found.start()
        yield found
    finally:
        found.stop()


def test_its_one_user_has_the_documented_rights() -> None:
    (line,) = (
        line
        for line in (REPOSITORY / "docs" / "replicas.md").read_text().splitlines()
        if line.startswith("ACL SETUSER genguard")
    )
    words = CONTAINER["command"]
    user = words[words.index("genguard") :]
    assert user == ["genguard", "on", ">$(PASSWORD)", *line.split()[5:]]


async def test_replicas_share_it_over_tls_with_the_password(container: Container) -> None:
    (container.folder / "password").write_text(_PASSWORD)
    query = f"password-file={container.folder}/password&cafile={container.folder}/tls/ca.crt"
    async with members(
        address(f"valkeys://genguard@localhost:{container.port}/0?{query}"), 2
    ) as each:
        await Story(each).intend(0, 5)
        each[1].put("seen")
        await examined(each[0], ["seen"])


@pytest.mark.parametrize(
    ("user", "password"), [("default", ""), ("default", _PASSWORD), ("genguard", "guessed")]
)
def test_nobody_else_is_let_in(container: Container, user: str, password: str) -> None:
    with container.client(user, password) as client, pytest.raises(valkey.AuthenticationError):
        client.get("genguard:x")


def test_a_renewed_certificate_is_taken_up_by_a_restart(container: Container) -> None:
    before = container.serial()
    assert container.run(CONTAINER["livenessProbe"]) == 0
    container.write_certificate()
    assert container.run(CONTAINER["livenessProbe"]) != 0
    container.restart()
    assert container.serial() != before
    assert container.run(CONTAINER["livenessProbe"]) == 0
