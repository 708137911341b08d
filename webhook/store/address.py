"""Parses and checks the flag `--store` before anything is started.

    memory
    sqlite:PATH
    valkey://[user[:password]@]host[:port][/db][?prefix=P&password-file=F]
    valkeys://…[&cafile=F]                                                  over TLS

redis:// and rediss:// mean the same. User and password are percent-encoded. A password is never
repeated in an error, a log line or a repr.
"""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Final
from urllib.parse import parse_qsl, unquote, urlsplit

DEFAULT_PREFIX: Final = "genguard:"
_DEFAULT_PORT: Final = 6379
_TLS_BY_SCHEME: Final = {"valkey": False, "redis": False, "valkeys": True, "rediss": True}
_PARAMETERS: Final = frozenset({"prefix", "cafile", "password-file"})
_FORMS: Final = "memory, sqlite:PATH or valkey://[user[:password]@]host:port/db?prefix=P"


class BadStoreError(Exception):
    """A store that cannot be used; the message says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class ValkeyAddress:
    """A Valkey or Redis server that replicas share. `prefix` begins every key."""

    host: str
    port: int
    db: int = 0
    user: str | None = None
    password: str | None = field(default=None, repr=False)
    password_file: Path | None = None
    tls: bool = False
    cafile: Path | None = None
    prefix: str = DEFAULT_PREFIX

    def __str__(self) -> str:
        """Return the address for logs, without user and password."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"valkey{'s' if self.tls else ''}://{host}:{self.port}/{self.db}"


StoreAddress = ValkeyAddress | Path | None
"""A Path is that of a SQLite file on this machine; with None each process has its own memory."""


def parse_store(text: str) -> StoreAddress:
    """Parse the value of `--store`; no file is looked at. Raises BadStoreError."""
    if text == "memory":
        return None
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "sqlite":
        if not rest or rest.startswith("//"):
            raise BadStoreError("--store sqlite: takes a path: sqlite:/var/lib/genguard/state.db")
        return Path(rest)
    if scheme in _TLS_BY_SCHEME and rest.startswith("//"):
        return _valkey(text, tls=_TLS_BY_SCHEME[scheme])
    raise BadStoreError(f"--store: give {_FORMS}")


def _valkey(text: str, *, tls: bool) -> ValkeyAddress:
    try:
        url = urlsplit(text)
        port, db = url.port or _DEFAULT_PORT, int(url.path.strip("/") or 0)
    except ValueError:
        # Its message may quote the password.
        message = "host, port or number of a database cannot be read"
        raise _bad(f"{message}; write / @ : ? # in a password as %XX") from None
    if not url.hostname:
        raise _bad("the host is missing")
    if url.fragment:
        raise _bad("there is a #; write it as %23 in a password")
    given = dict(parse_qsl(url.query, keep_blank_values=True))
    if not given.keys() <= _PARAMETERS:
        # Not repeated: it may be the rest of a password with a ? in it.
        raise _bad(f"unknown parameter after ?; known are {', '.join(sorted(_PARAMETERS))}")
    files = {name: Path(given[name]) for name in ("password-file", "cafile") if name in given}
    password = None if url.password is None else unquote(url.password)
    if password is not None and "password-file" in files:
        raise _bad("give the password or password-file, not both")
    if url.username and password is None and "password-file" not in files:
        raise _bad("a user needs a password: user:password@, or password-file=")
    if "cafile" in files and not tls:
        raise _bad("cafile is for TLS: write valkeys://")
    return ValkeyAddress(
        host=url.hostname,
        port=port,
        db=db,
        user=unquote(url.username) if url.username else None,
        password=password,
        password_file=files.get("password-file"),
        tls=tls,
        cafile=files.get("cafile"),
        prefix=given.get("prefix") or DEFAULT_PREFIX,
    )


def _bad(what: str) -> BadStoreError:
    return BadStoreError(f"--store valkey://…: {what}")
