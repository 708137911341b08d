"""The ConfigMap of our own namespace in which open findings wait for the pod that comes next."""

import base64
import binascii
from http import HTTPStatus
from typing import Any, Final, Protocol

from webhook.cluster.rest import RefusedError
from webhook.detection.carried import UnreadableFindingsError

_KEY: Final = "findings"
_DESCRIPTION: Final = (
    "Open findings of genguard, for its next pod: names, numbers and digests, no contents of "
    "objects. It may be deleted; genguard makes it again."
)


class Calls(Protocol):
    """What a Rest does."""

    async def call(self, method: str, path: str, body: Any = None) -> Any:
        """One request; raises RefusedError, or one of UNREACHED."""


class FindingsConfigMap:
    """Needs the rights to create ConfigMaps, and to get and update this one."""

    def __init__(self, calls: Calls, namespace: str, name: str) -> None:
        self._calls: Final = calls
        self._folder: Final = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path: Final = f"{self._folder}/{name}"
        self._metadata: dict[str, Any] = {}
        self._name: Final = {"name": name, "namespace": namespace}

    def __str__(self) -> str:
        return f"{self._name['namespace']}/{self._name['name']}"

    async def read(self) -> bytes | None:
        """What is in it; None when it is not there, or holds nothing.

        Raises RefusedError, one of UNREACHED, or UnreadableFindingsError.
        """
        try:
            found = await self._calls.call("GET", self._path)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND:
                raise
            self._metadata = {}
            return None
        self._metadata = found["metadata"]
        text = (found.get("binaryData") or {}).get(_KEY)
        if text is None:
            return None
        try:
            return base64.b64decode(text, validate=True)
        except binascii.Error as error:
            raise UnreadableFindingsError("no base64") from error

    async def write(self, data: bytes) -> None:
        """Replace what was read last, or make the ConfigMap where there was none.

        Raises RefusedError, with 409 or 404 when somebody else has changed it since; or one of
        UNREACHED.
        """
        labels = {"app.kubernetes.io/name": "genguard"}
        annotations = {"kubernetes.io/description": _DESCRIPTION}
        was = self._metadata
        body = {
            "apiVersion": "v1",
            "kind": "ConfigMap",
            "metadata": {
                **was,
                **self._name,
                "labels": (was.get("labels") or {}) | labels,
                "annotations": (was.get("annotations") or {}) | annotations,
            },
            "binaryData": {_KEY: base64.b64encode(data).decode()},
        }
        if was:
            written = await self._calls.call("PUT", self._path, body)
        else:
            written = await self._calls.call("POST", self._folder, body)
        self._metadata = written["metadata"]
