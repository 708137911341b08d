"""The recorded reviews: `corpus.ndjson.gz` beside this file, recording lines as `replay` reads.

`genguard serve --audit-only --record` kept what an API server sent of made-up pods of a namespace:
12 creations, 8 updates, 30 of status and 6 deletions. It stays as it is, or figures of two runs
could not be compared.
"""

import gzip
from collections.abc import Iterable
from pathlib import Path
from typing import Final

import msgspec

from genguard.admission.review import Phase

FILE: Final = Path(__file__).with_name("corpus.ndjson.gz")


class _Request(msgspec.Struct, rename="camel"):
    operation: str
    sub_resource: str = ""


class _Review(msgspec.Struct):
    request: _Request


class _Line(msgspec.Struct):
    time: str
    review: msgspec.Raw
    phase: Phase = Phase.MUTATE


class Recorded(msgspec.Struct, frozen=True):
    """One review, byte for byte as the API server sent it, and what tells it from others."""

    time: str
    phase: Phase
    body: bytes
    operation: str
    subresource: str

    @property
    def write(self) -> str:
        """`CREATE`, `UPDATE`, `UPDATE status`, `DELETE`."""
        return f"{self.operation} {self.subresource}".strip()


def read_corpus(path: Path = FILE) -> tuple[Recorded, ...]:
    """Every review of a recording, packed or not. Raises OSError and msgspec.MsgspecError."""
    content = path.read_bytes()
    if path.suffix == ".gz":
        content = gzip.decompress(content)
    return tuple(_recorded(line) for line in content.splitlines())


def _recorded(content: bytes) -> Recorded:
    line = _line_decoder.decode(content)
    body = bytes(line.review)
    request = _review_decoder.decode(body).request
    return Recorded(line.time, line.phase, body, request.operation, request.sub_resource)


_line_decoder: Final = msgspec.json.Decoder(_Line)
_review_decoder: Final = msgspec.json.Decoder(_Review)


def mean_bytes(reviews: Iterable[Recorded]) -> float:
    """The mean size of the bodies."""
    sizes = [len(one.body) for one in reviews]
    return sum(sizes) / len(sizes)
