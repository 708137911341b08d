"""`genguard serve` as a process of its own, and the API server's calls to it."""

import http.client
import json
import ssl
from base64 import b64decode
from typing import Any
from urllib.parse import urlsplit

from tests.controlplane.client import wait_until
from tests.e2e.genguard import Genguard
from tests.reviews import make_review
from tests.waiting import PATIENCE


class Replica(Genguard):
    """One of several that are given the same store."""

    def call(self, phase: str, review: dict[str, Any]) -> dict[str, Any]:
        """The `response` to one review."""
        trust = ssl.create_default_context(cafile=str(self.folder / "certs" / "ca.crt"))
        at = urlsplit(self.url(phase))
        connection = http.client.HTTPSConnection(at.netloc, timeout=PATIENCE, context=trust)
        try:
            body = json.dumps(review).encode()
            connection.request(
                "POST", f"{at.path}?timeout=30s", body, {"Content-Type": "application/json"}
            )
            answer = connection.getresponse()
            assert answer.status == 200
            response: dict[str, Any] = json.load(answer)["response"]
        finally:
            connection.close()
        assert response["allowed"]
        return response

    def ask(self, phase: str, name: str, status: dict[str, Any]) -> dict[str, Any]:
        """A write of status to an object that has none yet."""
        review = make_review(new={"status": status}, old={}, subresource="status", name=name)
        return self.call(phase, review)

    def restores(self, name: str) -> int | None:
        """A /mutate whose observedGeneration another webhook cleared: what is put back."""
        patch = self.ask("mutate", name, {}).get("patch")
        if patch is None:
            return None
        (operation,) = json.loads(b64decode(patch))
        assert operation["path"] == "/status/observedGeneration"
        value: int = operation["value"]
        return value

    def must_restore(self, name: str, value: int) -> None:
        """Asked until it does: on a busy machine even a good store is late at times."""
        wait_until(lambda: self.restores(name) == value, what=f"{value} restored")

    @property
    def has_store(self) -> bool:
        return self.metric("genguard_store_up") == 1

    def asked(self, operation: str, *results: str) -> float:
        """How many commands had one of these results."""
        name = "genguard_store_requests_total"
        return sum(self.metric(name, operation=operation, result=one) for one in results)

    def published(self, number: int) -> None:
        """Wait until so many intents have reached the store."""
        wait_until(lambda: self.asked("put", "ok") >= number, what="intents published")
