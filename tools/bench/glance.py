"""A look at every answer under load, cheap enough not to be what is measured."""

import json
from typing import Final

from tools.bench.connection import Response
from tools.bench.template import Filled

_LOOKED_INTO: Final = 64
_SHOWN: Final = 5


class Glance:
    """Called for every answer: status and uid of each, the whole of every 64th."""

    def __init__(self, constant_uid: str = "") -> None:
        """`constant_uid` is what a server answers that echoes none."""
        self._constant: Final = constant_uid.encode()
        self._seen = 0
        self.latencies: Final[list[float]] = []
        self.wrong: Final[list[str]] = []

    def __call__(self, request: Filled, response: Response, seconds: float) -> None:
        self.latencies.append(seconds)
        self._seen += 1
        uid = self._constant or request.uid
        if response.status != b"200" or uid not in response.body:
            self._note(f"status {response.status.decode()}, answered {response.body[:200]!r}")
        elif self._seen % _LOOKED_INTO == 0:
            found = json.loads(response.body)["response"]
            if found["uid"] != uid.decode() or found["allowed"] is not True:
                self._note(f"answered {response.body[:200]!r}")

    def _note(self, problem: str) -> None:
        if len(self.wrong) < _SHOWN:
            self.wrong.append(problem)
