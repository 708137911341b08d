"""Holds the pair that was last seen in a Secret, for the server to serve."""

import asyncio
import contextlib
import time
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Final

from certs import CertificateError, PairFiles, PairSnapshot, UnusablePairError
from certs.files import CA_FILE, CERT_FILE, KEY_FILE
from certs.inspect import Part
from webhook.server.tls import ServingCertificate

_FILES: Final[Mapping[Part, str]] = {"certificate": CERT_FILE, "key": KEY_FILE, "ca": CA_FILE}


class HeldPair:
    """A PairSource. Until the Secret has been seen it is that of files, where they are given."""

    def __init__(self, secret: str, first: PairFiles | None) -> None:
        """`secret` is how kubectl names it: genguard-tls -n genguard-system."""
        self._secret: Final = secret
        self._first: Final = first
        self._held: Mapping[str, bytes] | None = None
        self._changed: Final = asyncio.Event()

    def take(self, held: Mapping[str, bytes]) -> None:
        """Remember what the Secret holds now."""
        self._held = held
        self._changed.set()

    async def changed(self, seconds: float) -> None:
        """Wait until there is something new, but no longer than this."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._changed.wait()
        self._changed.clear()

    def read(self) -> PairSnapshot:
        """As PairSource."""
        if self._held is None:
            if self._first is not None:
                return self._first.read()
            raise UnusablePairError([f"secret {self._secret} has not been seen yet"])
        for name in (CERT_FILE, KEY_FILE):
            if not self._held.get(name):
                raise UnusablePairError([f"secret {self._secret} has no {name}"])
        held = self._held
        return PairSnapshot(held[CERT_FILE], held[KEY_FILE], held.get(CA_FILE))

    def place(self, part: Part) -> str:
        """As PairSource."""
        if self._held is None and self._first is not None:
            return self._first.place(part)
        return f"secret {self._secret}: {_FILES[part]}"


async def until_good(pair: HeldPair, seconds: float) -> None:
    """Wait until a pair can be served; raises CertificateError where none can in time."""
    end = time.monotonic() + seconds
    while True:
        try:
            ServingCertificate(pair, at=datetime.now(UTC))
        except CertificateError:
            if time.monotonic() >= end:
                raise
        else:
            return
        await pair.changed(end - time.monotonic())
