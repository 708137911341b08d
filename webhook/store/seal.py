"""Seals what replicas share, so that the store can neither read it nor make any of it.

AES-SIV (RFC 5297), under a key that the store never sees. Its tag authenticates the content and
the place where it stands, so that a value is good nowhere else. Equal contents in one place give
equal bytes, which the store compares (scripts.py). The content is encrypted: with the digests of a
fact at hand, anybody could try guesses of what was digested.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from webhook.store.circuit import LostError
from webhook.telemetry.logs import LOGGER
from webhook.threads import in_thread

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

SHORTEST: Final = 32
"""Characters of a key; who reads the store could try shorter ones out."""
_MARK: Final = b"\xc1"
"""Begins what is sealed, and nothing in MessagePack: versions that know no seals drop it unread."""
_CIPHER_BYTES: Final = 64
_NAMES_BYTES: Final = 32
_MEND: Final = (
    f"it takes a key of {SHORTEST} or more characters in a line: openssl rand -hex 32; "
    "genguard install --ha puts one into secret/genguard-store"
)


class UnsealedError(ValueError):
    """Bytes that no replica with a key of ours has sealed for this place."""


class Seal(Protocol):
    """What is done to each value that is shared. `names` is the key of their names' digests."""

    names: bytes

    def close(self, place: bytes, content: bytes) -> bytes:
        """What the store is given."""

    def open(self, place: bytes, sealed: bytes) -> bytes:
        """What was closed. Raises UnsealedError."""


class Plain:
    """Of a store without a key-file: values are as they are."""

    names = b""

    def close(self, place: bytes, content: bytes) -> bytes:
        """The content."""
        del place
        return content

    def open(self, place: bytes, sealed: bytes) -> bytes:
        """The content, whoever wrote it."""
        del place
        return sealed


class Sealed:
    """The first key seals, and each of them opens: so a key can be renewed."""

    def __init__(self) -> None:
        """Until there is a key, by one that nobody has."""
        self.names = b""
        self._ciphers: list[AESSIV] = []
        self.use((secrets.token_hex(),))

    def use(self, keys: Sequence[str]) -> None:
        """Go by these keys from now on."""
        # Imported when wanted: most servers share nothing.
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415

        self._ciphers = [AESSIV(_derived(key, b"seal", _CIPHER_BYTES)) for key in keys]
        self.names = _derived(keys[0], b"names", _NAMES_BYTES)

    def close(self, place: bytes, content: bytes) -> bytes:
        """Sealed by the first key."""
        return _MARK + self._ciphers[0].encrypt(content, [place])

    def open(self, place: bytes, sealed: bytes) -> bytes:
        """The content. Raises UnsealedError."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        if sealed.startswith(_MARK):
            for cipher in self._ciphers:
                try:
                    return cipher.decrypt(sealed[len(_MARK) :], [place])
                except InvalidTag:
                    continue
        facts = {
            "reason": "no key of the key-file has sealed it",
            "from": "a replica of another version or with another key, or a stranger",
        }
        LOGGER.warning("value of the store refused", extra={"facts": facts})
        raise UnsealedError


class KeyFile:
    """Keys in a file, one a line."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._keys: tuple[str, ...] = ()
        self.seal: Final = Sealed()

    async def read(self) -> None:
        """Go by what is in the file now. Raises LostError where that is no key."""
        try:
            content = await in_thread(self._path.read_text)
        except (OSError, UnicodeDecodeError):
            raise LostError(f"the key-file cannot be read; {_MEND}") from None
        keys = tuple(content.split())
        if not keys or any(len(one) < SHORTEST for one in keys):
            raise LostError(f"the key-file holds no key, or one that is too short; {_MEND}")
        if keys != self._keys:
            self.seal.use(keys)
            self._keys = keys
            LOGGER.info("keys of the store read", extra={"facts": {"keys": len(keys)}})


def _derived(key: str, use: bytes, size: int) -> bytes:
    """A key for each use, from one that is not guessed."""
    return blake2b(key.encode(), digest_size=size, person=use).digest()
