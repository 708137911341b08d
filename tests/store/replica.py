"""`genguard serve` as a process of its own, and the API server's calls to it."""

import http.client
import json
import ssl
from typing import Any
from urllib.parse import urlsplit

from tests.e2e.genguard import Genguard
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

    @property
    def has_store(self) -> bool:
        return self.metric("genguard_store_up") == 1

    def asked(self, operation: str, *results: str) -> float:
        """How many commands had one of these results."""
        name = "genguard_store_requests_total"
        return sum(self.metric(name, operation=operation, result=one) for one in results)
