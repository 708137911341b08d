"""A real Valkey or Redis server on a socket file, which can be killed, filled and locked."""

import shutil
import signal
import tempfile
from pathlib import Path
from typing import Any, Self

import valkey

from tests.controlplane.client import wait_until
from tests.controlplane.processes import ProcessGroup
from tests.store.binaries import PACKAGES

_NAME = "store"
_PROGRAM = "valkey-server"


class StoreServer:
    """A context manager. It keeps nothing on disk: a restarted one is empty."""

    def __init__(self, port: int = 0) -> None:
        """`port`: a port of 127.0.0.1 besides the socket file; 0 for none."""
        self._port = port
        self.folder = Path(tempfile.mkdtemp(prefix="genguard-store-"))
        self.socket = self.folder / "store.sock"
        self._processes: ProcessGroup | None = None

    def __enter__(self) -> Self:
        try:
            binary = PACKAGES.binary(_PROGRAM)
            self._command = [
                str(binary), "--bind", "127.0.0.1", "--port", str(self._port),
                "--unixsocket", str(self.socket), "--save", "",
            ]  # fmt: skip
            self._processes = ProcessGroup(self.folder)
            self.start()
        except BaseException as error:
            self.__exit__(type(error), error, error.__traceback__)
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._processes is not None:
            self._processes.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        assert self._processes is not None
        environment = PACKAGES.environment(_PROGRAM)
        self._server = self._processes.start(_NAME, self._command, environment)
        wait_until(self._ready, what="store ready")

    def kill(self) -> None:
        self._server.kill()
        self._server.wait()

    def pause(self) -> None:
        """It answers nobody, and who is connected stays connected."""
        self._server.send_signal(signal.SIGSTOP)

    def go_on(self) -> None:
        """Ends a pause."""
        self._server.send_signal(signal.SIGCONT)

    def run(self, *command: Any, password: str | None = None) -> Any:
        """One command of the administrator's."""
        client = valkey.Valkey(unix_socket_path=str(self.socket), password=password)
        with client:
            return client.execute_command(*command)

    def _ready(self) -> bool:
        assert self._processes is not None
        self._processes.check()
        try:
            return bool(self.run("PING"))
        except valkey.ConnectionError:
            return False
