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
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit

DEFAULT_PREFIX: Final = "genguard:"
_DEFAULT_PORT: Final = 6379
_TLS_BY_SCHEME: Final = {"valkey": False, "redis": False, "valkeys": True, "rediss": True}
_PARAMETERS: Final = frozenset({"prefix", "cafile", "password-file"})
_FORMS: Final = "memory, sqlite:PATH or valkey://[user[:password]@]host:port/db?prefix=P"
_LONGEST_PREFIX: Final = 128


class BadStoreError(Exception):
    """A store that cannot be used; the message says what is wrong, where, and what to do."""


@dataclass(frozen=True, slots=True)
class MemoryAddress:
    """Each process uses its own memory; nothing is shared or kept."""


@dataclass(frozen=True, slots=True)
class SqliteAddress:
    """A SQLite file on this machine."""

    path: Path


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


StoreAddress = MemoryAddress | SqliteAddress | ValkeyAddress


def parse_store(text: str, *, is_here: bool = True) -> StoreAddress:
    """Parse the value of `--store`. Raises BadStoreError.

    is_here  the store is used on this machine, so the files that it names must exist here
    """
    if text == "memory":
        return MemoryAddress()
    scheme, colon, rest = text.partition(":")
    if colon and scheme == "sqlite":
        if not rest or rest.startswith("//"):
            raise BadStoreError("--store sqlite: takes a path: sqlite:/var/lib/genguard/state.db")
        return SqliteAddress(Path(rest))
    if scheme in _TLS_BY_SCHEME and rest.startswith("//"):
        return _valkey(text, tls=_TLS_BY_SCHEME[scheme], is_here=is_here)
    raise BadStoreError(f"--store: give {_FORMS}")


def _valkey(text: str, *, tls: bool, is_here: bool) -> ValkeyAddress:
    try:
        url = urlsplit(text)
        port = url.port or _DEFAULT_PORT
    except ValueError:
        # Its message may quote the password.
        raise _bad("host and port cannot be read; write / @ : ? # in a password as %XX") from None
    if not url.hostname:
        raise _bad("the host is missing")
    if url.fragment:
        raise _bad("there is a #; write it as %23 in a password")
    given = _parameters(url)
    password = None if url.password is None else unquote(url.password)
    password_file = given.get("password-file")
    if password is not None and password_file is not None:
        raise _bad("give the password or password-file, not both")
    if url.username and password is None and password_file is None:
        raise _bad("a user needs a password: user:password@, or password-file=")
    if given.get("cafile") is not None and not tls:
        raise _bad("cafile is for TLS: write valkeys://")
    return ValkeyAddress(
        host=url.hostname,
        port=port,
        db=_db(url),
        user=unquote(url.username) if url.username else None,
        password=password,
        password_file=_file("password-file", password_file, is_here=is_here),
        tls=tls,
        cafile=_file("cafile", given.get("cafile"), is_here=is_here),
        prefix=_prefix(given.get("prefix", DEFAULT_PREFIX)),
    )


def _parameters(url: SplitResult) -> dict[str, str]:
    given: dict[str, str] = {}
    for name, value in parse_qsl(url.query, keep_blank_values=True):
        if name not in _PARAMETERS:
            # Not repeated: it may be the rest of a password with a ? in it.
            raise _bad(f"unknown parameter after ?; known are {', '.join(sorted(_PARAMETERS))}")
        if name in given:
            raise _bad(f"{name} is given twice")
        given[name] = value
    return given


def _db(url: SplitResult) -> int:
    text = url.path.strip("/")
    if not text:
        return 0
    if not (text.isascii() and text.isdigit()):
        raise _bad("after the host comes the number of a database, such as /0")
    return int(text)


def _file(name: str, value: str | None, *, is_here: bool) -> Path | None:
    if value is None:
        return None
    path = Path(value)
    if is_here and not path.is_file():
        raise _bad(f"{name} {value}: there is no such file")
    return path


def _prefix(text: str) -> str:
    if not text or len(text) > _LONGEST_PREFIX or not text.isascii() or not text.isprintable():
        raise _bad(f"prefix takes 1 to {_LONGEST_PREFIX} printable ASCII characters")
    return text


def _bad(what: str) -> BadStoreError:
    return BadStoreError(f"--store valkey://…: {what}")
