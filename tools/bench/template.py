"""A recorded review made new for every request: another uid, another resourceVersion.

In a cluster each review has a uid of its own and each write meets a resourceVersion that no write
met before. A bench that repeated some 50 reviews to the letter would be answered out of memories
that never help, and never grow, in production.
"""

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from tools.bench.corpus import Recorded

_UID: Final = re.compile(rb'"request":\{"uid":"([0-9a-f-]{36})"')
_OBJECT: Final = re.compile(
    rb'"metadata":\{(?:"creationTimestamp":"[^"]*",|"generation":\d+,)*'  # of a custom resource
    rb'"name":"([^"]+)",(?:"(?:generateName|namespace|resourceVersion)":"[^"]*",)*'
    rb'"uid":"([0-9a-f-]{36})"'
)
_RESOURCE_VERSION: Final = re.compile(rb'("resourceVersion":")\d+"')
_DIGITS: Final = 12
_DIGITS_OF_OBJECT: Final = 5
MOST_OBJECTS: Final = 10**_DIGITS_OF_OBJECT
"""Of each template."""


class Filled(NamedTuple):
    """One HTTP request: the API server writes head and body one after the other, unjoined."""

    head: bytes
    body: bytes
    uid: bytes


@dataclass(frozen=True, slots=True)
class Template:
    """One review; `fill` makes the next of its kind, always of the same length."""

    head: bytes
    body: bytes = field(repr=False)
    uid_at: int
    versions_at: tuple[int, ...]
    objects_at: tuple[int, ...]

    def fill(
        self, number: int, object_number: int | None = None, version: int | None = None
    ) -> Filled:
        """Equal numbers give equal bytes; with `object_number`, of another object than recorded.

        `version` is what resourceVersions are made of, where several calls are of one write;
        otherwise `number` is.
        """
        uid = b"00000000-0000-4000-8000-%012x" % number
        body = bytearray(self.body)
        body[self.uid_at : self.uid_at + len(uid)] = uid
        least = 10 ** (_DIGITS - 1)
        digits = b"%0*d" % (_DIGITS, least + (number if version is None else version))
        for at in self.versions_at:
            body[at : at + _DIGITS] = digits
        if object_number is not None:
            name = b"%0*d" % (_DIGITS_OF_OBJECT, object_number)
            for at in self.objects_at:
                body[at : at + _DIGITS_OF_OBJECT] = name
        return Filled(self.head, bytes(body), uid)


def make_template(recorded: Recorded, path: str) -> Template:
    """The request as kube-apiserver 1.36 sends it, with the headers it has."""
    # Go's encoder ends the document with a line break, which a recording leaves out.
    body = _RESOURCE_VERSION.sub(rb'\g<1>%s"' % (b"0" * _DIGITS), recorded.body) + b"\n"
    found = _UID.search(body)
    if found is None:
        raise ValueError("a recorded review has no uid of 36 characters")
    head = (
        f"POST {path}?timeout=10s HTTP/1.1\r\n"
        "Host: 127.0.0.1:8443\r\n"
        "User-Agent: kube-apiserver-admission\r\n"
        f"Content-Length: {len(body)}\r\n"
        "Accept: application/json, */*\r\n"
        "Content-Type: application/json\r\n"
        "Accept-Encoding: gzip\r\n"
        "\r\n"
    )
    versions = tuple(match.end(1) for match in _RESOURCE_VERSION.finditer(body))
    return Template(head.encode(), body, found.start(1), versions, tuple(_objects(body)))


def _objects(body: bytes) -> Iterator[int]:
    """Where the ends of the object's name and uid are, which tell it from others."""
    found = _OBJECT.search(body)
    words = () if found is None else found.groups()
    for word in (one for one in words if len(one) > _DIGITS_OF_OBJECT):
        for match in re.finditer(b'"%s"' % re.escape(word), body):
            yield match.end() - 1 - _DIGITS_OF_OBJECT


def make_templates(corpus: Iterable[Recorded], path: str) -> tuple[Template, ...]:
    """One for each review, in recorded order."""
    return tuple(make_template(one, path) for one in corpus)
