"""Somebody of a cluster who is not there, played by a thread that looks and acts."""

from typing import Self

from tests.beside import Beside
from tests.controlplane.client import ApiError, Client
from tests.controlplane.plane import ControlPlane

_APART_SECONDS = 0.3


class Player(Beside):
    """`with Player(plane):`; looks again and again until left. Others say what there is to do."""

    def __init__(self, plane: ControlPlane) -> None:
        super().__init__()
        self._plane = plane

    def begin(self) -> None:
        """What is there before the first look."""

    def look(self, client: Client) -> None:
        """See what there is to do, and do it."""
        raise NotImplementedError

    def end(self) -> None:
        """What is taken away after the last look."""

    def __enter__(self) -> Self:
        try:
            self.begin()
            return super().__enter__()
        except BaseException:
            self.end()
            raise

    def __exit__(self, *_: object) -> None:
        super().__exit__()
        self.end()

    def _run(self) -> None:
        client = self._plane.client_of("admin")
        while not self._over.wait(_APART_SECONDS):
            try:
                self.look(client)
            except ApiError as error:
                # Gone, or changed since it was listed, or its namespace is to go.
                if error.status not in (404, 409) and "being terminated" not in str(error):
                    raise
        client.close()
