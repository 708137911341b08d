"""The ConfigMap in which the leader saves findings, for the next pod and the other replicas.

Without this (and without a file) findings would end with their pod, and with them the knowledge of
what is to be healed, while the damage stays.
"""

import base64
import binascii
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Any, ClassVar, Final

import msgspec
from zstandard import ZstdCompressor, ZstdDecompressor, ZstdError, get_frame_parameters

from genguard.detection.ledger import Row
from webhook.cluster.rest import UNREACHED, RefusedError, Rest, if_there
from webhook.store.persister import ChangedError, CorruptStoreError, NotSavedError
from webhook.tasks.threads import in_thread

_DESCRIPTION: Final = (
    "Findings of genguard, for its next pod: names, numbers, times and words of conditions; "
    "other values of objects only with --show-values. It may be deleted; genguard makes it again."
)
COUNT_SECONDS: Final = 60.0
"""The shortest pause between saves in which only counts have changed."""
MOST_BYTES_OF_BLOCK: Final = 384 * 1024
"""512 KiB as base64, half of what a ConfigMap takes."""
_MOST_UNPACKED: Final = 16 * 1024 * 1024
_MARGIN: Final = 0.9
"""Of the rows that seem to fit: they do not all compress alike."""
_CHANGED: Final = (HTTPStatus.CONFLICT, HTTPStatus.NOT_FOUND)


class FindingsConfigMap:
    """A storage of findings. Needs the rights to create ConfigMaps, get and update it."""

    seconds: ClassVar = COUNT_SECONDS
    room: ClassVar = MOST_BYTES_OF_BLOCK

    def __init__(self, calls: Rest, namespace: str, name: str) -> None:
        self._calls: Final = calls
        self._folder: Final = f"/api/v1/namespaces/{namespace}/configmaps"
        self._path: Final = f"{self._folder}/{name}"
        self._metadata: dict[str, Any] = {}
        self._read: str | None = None
        """The version whose rows were returned, or written, last."""
        self._name: Final = {"name": name, "namespace": namespace}

    def __str__(self) -> str:
        return f"{self._name['namespace']}/{self._name['name']}"

    async def load(self) -> Sequence[Row] | None:
        """Return its rows; none where the ConfigMap does not exist or is empty."""
        with _translated():
            found = await if_there(self._calls.call("GET", self._path))
        if found is None:
            self._metadata, self._read = {}, None
            return ()
        self._metadata = found["metadata"]
        version = self._metadata.get("resourceVersion")
        if version == self._read:
            return None
        text = (found.get("binaryData") or {}).get("findings", "")
        try:
            rows = await in_thread(unpack, base64.b64decode(text, validate=True)) if text else ()
        except binascii.Error as error:
            raise CorruptStoreError("no base64") from error
        self._read = version
        return rows

    async def save(self, rows: Sequence[Row], brief: Sequence[Row]) -> int:
        """Replace what was read last by these rows, or create the ConfigMap."""
        block, left_out = await in_thread(pack, rows, brief)
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
            "binaryData": {"findings": base64.b64encode(block).decode()},
        }
        method, path = ("PUT", self._path) if was else ("POST", self._folder)
        with _translated():
            written = await self._calls.call(method, path, body)
        self._metadata = written["metadata"]
        self._read = self._metadata.get("resourceVersion")
        return left_out


@contextmanager
def _translated() -> Iterator[None]:
    """Raise NotSavedError for what a call raises."""
    try:
        yield
    except RefusedError as error:
        kind = ChangedError if error.status in _CHANGED else NotSavedError
        raise kind(str(error.status)) from error
    except UNREACHED as error:
        raise NotSavedError(type(error).__name__) from error


class _Rows(msgspec.Struct, frozen=True, array_like=True, tag="findings1"):
    rows: tuple[Row, ...]


_block_decoder: Final = msgspec.msgpack.Decoder(_Rows)


def pack(rows: Sequence[Row], brief: Sequence[Row]) -> tuple[bytes, int]:
    """Compress rows; where not all have room, as many brief ones as have, from the first.

    Returns how many had no room as well.
    """
    kept, shorter = tuple(rows), tuple(brief)
    while True:
        plain = msgspec.msgpack.encode(_Rows(kept))
        data = ZstdCompressor().compress(plain)
        times = max(len(data) / MOST_BYTES_OF_BLOCK, len(plain) / _MOST_UNPACKED)
        if times <= 1:
            return data, len(rows) - len(kept)
        most = len(kept) if kept is not shorter else int(len(kept) * _MARGIN / times)
        kept = shorter = shorter[:most]


def unpack(data: bytes) -> tuple[Row, ...]:
    """Return the rows of a block. Raises CorruptStoreError."""
    try:
        if get_frame_parameters(data).content_size > _MOST_UNPACKED:
            raise CorruptStoreError("larger than any that is written")
        unpacked = ZstdDecompressor().decompress(data, max_output_size=_MOST_UNPACKED)
        return _block_decoder.decode(unpacked).rows
    except (ZstdError, msgspec.MsgspecError, UnicodeDecodeError, RecursionError) as error:
        raise CorruptStoreError("damaged, or of another version") from error
