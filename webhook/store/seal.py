"""Seals what replicas share, so that the store can neither read nor forge it.

AES-SIV (RFC 5297), under a key that the store never sees. The tag authenticates the content and its
place (key of the store), so that a value copied to another place does not open. Equal contents in
one place give equal bytes, which the scripts of the store compare (shared_writes.py). The content
is encrypted because facts hold digests: who reads a digest can test guesses of what was digested.
"""

import secrets
from collections.abc import Sequence
from hashlib import blake2b
from pathlib import Path
from typing import TYPE_CHECKING, Final, Protocol

from webhook.store.circuit_breaker import StoreLostError
from webhook.tasks.threads import in_thread
from webhook.telemetry.logs import LOGGER

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

SHORTEST: Final = 32
"""Characters of a key; who reads the store could try out every shorter key."""
_MARK: Final = b"\xc1"
"""First byte of a sealed value. MessagePack never uses it, so versions without seals drop it."""
_CIPHER_BYTES: Final = 64
_NAMES_BYTES: Final = 32
_REPAIR: Final = (
    f"it takes a key of {SHORTEST} or more characters in a line: openssl rand -hex 32; "
    "genguard install --ha puts one into secret/genguard-store"
)


class UnsealedError(ValueError):
    """Bytes that no replica with one of our keys has sealed for this place."""


class Seal(Protocol):
    """Seals and opens shared values. `names` is the secret for the digests of their names."""

    names: bytes

    def close(self, place: bytes, content: bytes) -> bytes:
        """Return the bytes to store for a content at a place."""

    def open(self, place: bytes, sealed: bytes) -> bytes:
        """Return the content of stored bytes. Raises UnsealedError."""


class Plain:
    """No seal, for a store without a key-file: values are stored as they are."""

    names = b""

    def close(self, place: bytes, content: bytes) -> bytes:
        """Return the content."""
        del place
        return content

    def open(self, place: bytes, sealed: bytes) -> bytes:
        """Return the content, whoever wrote it."""
        del place
        return sealed


class Sealed:
    """Seals with the first key and opens with each of them, so that a key can be renewed."""

    def __init__(self) -> None:
        """Use a random key until `use` gives the real ones."""
        self.names = b""
        self._ciphers: list[AESSIV] = []
        self.use((secrets.token_hex(),))

    def use(self, keys: Sequence[str]) -> None:
        """Use these keys from now on."""
        # Imported when needed: most servers share nothing.
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # noqa: PLC0415

        self._ciphers = [AESSIV(_derived(key, b"seal", _CIPHER_BYTES)) for key in keys]
        self.names = _derived(keys[0], b"names", _NAMES_BYTES)

    def close(self, place: bytes, content: bytes) -> bytes:
        """Seal a content with the first key."""
        return _MARK + self._ciphers[0].encrypt(content, [place])

    def open(self, place: bytes, sealed: bytes) -> bytes:
        """Return the content. Raises UnsealedError, and logs that."""
        from cryptography.exceptions import InvalidTag  # noqa: PLC0415 - as above

        if sealed.startswith(_MARK):
            for cipher in self._ciphers:
                try:
                    return cipher.decrypt(sealed[len(_MARK) :], [place])
                except InvalidTag:
                    continue
        facts = {
            "reason": "no key of the key-file has sealed it",
            "from": "a replica of another version or with another key, or an untrusted client",
        }
        LOGGER.warning("value of the store refused", extra={"facts": facts})
        raise UnsealedError


class KeyFile:
    """A file with one key on each line."""

    def __init__(self, path: Path) -> None:
        self._path: Final = path
        self._keys: tuple[str, ...] = ()
        self.seal: Final = Sealed()

    async def read(self) -> None:
        """Use the keys that are in the file now. Raises StoreLostError if it holds no good key."""
        try:
            content = await in_thread(self._path.read_text)
        except (OSError, UnicodeDecodeError):
            raise StoreLostError(f"the key-file cannot be read; {_REPAIR}") from None
        keys = tuple(content.split())
        if not keys or any(len(one) < SHORTEST for one in keys):
            raise StoreLostError(f"the key-file holds no key, or one that is too short; {_REPAIR}")
        if keys != self._keys:
            self.seal.use(keys)
            self._keys = keys
            LOGGER.info("keys of the store read", extra={"facts": {"keys": len(keys)}})


def _derived(key: str, use: bytes, size: int) -> bytes:
    """Derive the key for one use from a secret key."""
    return blake2b(key.encode(), digest_size=size, person=use).digest()
