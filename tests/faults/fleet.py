"""Several genguards behind a Service: who is an endpoint of it changes as the test says."""

import itertools
import tempfile
from base64 import b64encode
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from datetime import UTC, datetime
from pathlib import Path
from types import TracebackType
from typing import Self

import certs
from tests.e2e.balancer import Balancer
from tests.e2e.genguard import Genguard
from tests.e2e.registrations import PHASES

REPLICAS = 3


class Fleet:
    """What `registered` asks of a Genguard. Each connection goes to the next endpoint.

    endpoints  where new connections go; those that are open stay where they are, as with a Service
    """

    def __init__(
        self,
        *flags: str,
        ca: bytes = b"",
        replicas: int = REPLICAS,
        within: Sequence[str] = (),
        environment: Mapping[str, str] | None = None,
    ) -> None:
        """`ca`: who has signed the certificate, where flags name one; else it is made.

        `within`, `environment`: as of a Genguard.
        """
        self._flags, self._ca, self._replicas = flags, ca, replicas
        self._within, self._environment = within, environment
        self._stack = ExitStack()
        self._count = itertools.count()
        self.endpoints: list[Genguard] = []

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            if not self._ca:
                folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="genguard-certs-"))
                made = certs.ensure(Path(folder), names=("localhost",), at=datetime.now(UTC))
                self._flags = (f"--cert-dir={folder}", *self._flags)
                self._ca = made.pair.ca_pem or b""
            self._ports = {
                phase: stack.enter_context(Balancer(self)) for phase in (*PHASES, "repair")
            }
            self._stack = stack
            for _ in range(self._replicas):
                self.add()
            self._stack = stack.pop_all()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._stack.__exit__(kind, error, trace)

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> int:
        """The port of the next endpoint. Balancers ask from threads of their own."""
        endpoints = self.endpoints
        return endpoints[next(self._count) % len(endpoints)].admission_port

    def add(self) -> Genguard:
        """Start one more, and make it an endpoint when it serves."""
        guard = self._stack.enter_context(
            Genguard(*self._flags, within=self._within, environment=self._environment)
        )
        self.take(guard)
        return guard

    def take(self, guard: Genguard) -> None:
        """It is an endpoint from now on."""
        self.endpoints = [*self.endpoints, guard]

    def remove(self, guard: Genguard) -> None:
        """It is no endpoint any more."""
        self.endpoints = [one for one in self.endpoints if one is not guard]

    @property
    def ca_bundle(self) -> str:
        return b64encode(self._ca).decode()

    def url(self, path: str) -> str:
        return f"https://127.0.0.1:{self._ports[path].port}/{path}"

    def metric(self, name: str, **labels: str) -> float:
        """Of all endpoints."""
        return sum(one.metric(name, **labels) for one in self.endpoints)
