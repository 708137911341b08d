"""`genguard serve` as a process of its own, and the API server's calls to it."""

import json
from contextlib import closing
from typing import Any

from tests.e2e.genguard import Genguard


class Replica(Genguard):
    """One of several that are given the same store."""

    def call(self, phase: str, review: dict[str, Any]) -> dict[str, Any]:
        """The `response` to one review."""
        with closing(self.admission()) as connection:
            body = json.dumps(review).encode()
            path = f"/{phase}?timeout=30s"
            connection.request("POST", path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            assert answer.status == 200
            response: dict[str, Any] = json.load(answer)["response"]
        assert response["allowed"]
        return response

    @property
    def has_store(self) -> bool:
        return self.metric("genguard_store_up") == 1

    def asked(self, operation: str, *results: str) -> float:
        """How many commands had one of these results."""
        name = "genguard_store_requests_total"
        return sum(self.metric(name, operation=operation, result=one) for one in results)
