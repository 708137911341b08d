"""A webhook that runs in the cluster and clears observedGeneration, where and how it is told."""

import base64
import hashlib
import time
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from functools import cached_property

from certs import PairSnapshot, issue, service_names
from tests.kind.cluster import Cluster

NAMESPACE = "old-operator"
CONFIGURATION = "mmm-old-operator"
"""Sorts between genguard's two mutating registrations."""
WEBHOOK = "status.example.org"
ACTOR = f"{CONFIGURATION}/{WEBHOOK}"
"""What genguard should call it."""
_NAME = "culprit"
_SPREAD_SECONDS = 3.0  # each API server goes by its own copy of the registrations


class Culprit:
    """One pod behind a Service, on the control plane's node."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    @cached_property
    def _pair(self) -> PairSnapshot:
        return issue(names=service_names(_NAME, NAMESPACE), at=datetime.now(UTC))

    def run(self) -> None:
        """Start it, and wait until it is ready."""
        pair = self._pair
        self._cluster.namespace(NAMESPACE)
        self._cluster.apply_file(
            "culprit.yaml",
            digest=hashlib.sha256(pair.cert_pem).hexdigest(),
            crt=_base64(pair.cert_pem),
            key=_base64(pair.key_pem),
        )
        self._cluster.rolled_out(NAMESPACE, _NAME)

    @contextmanager
    def clearing(self, resource: str, *namespaces: str, how: str = "zero") -> Iterator[None]:
        """Registered for updates of a status: `deployments/status` of apps, or `pods/status`."""
        self._cluster.apply_file(
            "culprit_registered.yaml",
            group="" if resource.startswith("pods") else "apps",
            resource=resource,
            how=how,
            namespaces=", ".join(namespaces),
            ca=_base64(self._pair.ca_pem or b""),
        )
        time.sleep(_SPREAD_SECONDS)
        try:
            yield
        finally:
            words = ("delete", "mutatingwebhookconfiguration", CONFIGURATION)
            self._cluster.kubectl(*words, "--ignore-not-found")


def _base64(content: bytes) -> str:
    return base64.b64encode(content).decode()
