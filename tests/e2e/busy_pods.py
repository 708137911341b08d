"""Pods of one namespace that are watched from the beginning, and one that is always updated."""

import threading
import time
from typing import Any

from tests.controlplane.client import STRATEGIC_MERGE_PATCH, Client, WatchEvent, wait_until
from tests.e2e.culprits import is_ready

UPDATES = 500
LAST = "last"
"""The pod that ends the watch."""
_EVERY_SECONDS = 0.1


class Pods:
    """`events` grows while `watching` runs; `updating` writes to the pod `busy`."""

    def __init__(self, client: Client, path: str) -> None:
        self.client, self.path = client, path
        self.events: list[WatchEvent] = []
        start = client.get(path).body["metadata"]["resourceVersion"]
        self.watching = threading.Thread(target=self._watch, args=(start,))
        self.updating = threading.Thread(target=self._update)

    def get(self, name: str) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get(f"{self.path}/{name}").body
        return found

    def generation(self, name: str) -> int:
        number: int = self.get(name)["metadata"]["generation"]
        return number

    def run(self, body: dict[str, Any]) -> str:
        name: str = self.client.post(self.path, body).body["metadata"]["name"]
        wait_until(lambda: is_ready(self.get(name)), what=f"{name} ready")
        return name

    def change(self, name: str, subresource: str = "", **spec: Any) -> None:
        at = "/".join(filter(None, (self.path, name, subresource)))
        self.client.patch(at, {"spec": spec}, content_type=STRATEGIC_MERGE_PATCH)

    def observes(self, name: str, number: int) -> None:
        def observed() -> bool:
            found = self.get(name)
            seen = found["status"].get("observedGeneration"), found["metadata"]["generation"]
            return seen == (number, number)

        wait_until(observed, what=f"generation {number} of {name} observed")

    def _watch(self, start: str) -> None:
        for event in self.client.watch(self.path, params={"resourceVersion": start}, timeout=200):
            self.events.append(event)
            if event.object["metadata"]["name"] == LAST:
                return

    def _update(self) -> None:
        began = time.monotonic()
        for number in range(UPDATES):
            time.sleep(max(0.0, began + number * _EVERY_SECONDS - time.monotonic()))
            self.change("busy", activeDeadlineSeconds=100_000 - number)
