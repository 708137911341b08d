"""Somebody of a cluster who is not there, played by a thread that looks and acts."""

import threading
from types import TracebackType
from typing import Self

from tests.controlplane.client import ApiError, Client
from tests.controlplane.plane import ControlPlane

_APART_SECONDS = 0.3


class Player:
    """`with Player(plane):`; looks again and again until left. Others say what there is to do."""

    def __init__(self, plane: ControlPlane) -> None:
        self._plane = plane
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run)

    def begin(self) -> None:
        """What is there before the first look."""

    def look(self, client: Client) -> None:
        """See what there is to do, and do it."""
        raise NotImplementedError

    def end(self) -> None:
        """What is taken away after the last look."""

    def __enter__(self) -> Self:
        self.begin()
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._over.set()
        self._thread.join()
        self.end()

    def _run(self) -> None:
        client = self._plane.client_of("admin")
        while not self._over.wait(_APART_SECONDS):
            try:
                self.look(client)
            except ApiError as error:
                if error.status not in (404, 409):  # gone, or changed since it was listed
                    raise
        client.close()
