"""What a genguard server has seen of objects before anybody asked: GET /api/objects."""

from collections.abc import Mapping
from typing import Final, NamedTuple

import aiohttp
import msgspec

_SECONDS: Final = 15.0
_PAGE: Final = "1000"


class NoServerError(Exception):
    """The server does not answer as a genguard does; the message says what to do."""


class Memory(NamedTuple):
    """Of one object."""

    reconciled_generation: int | None
    ready_flips: int


class _Object(msgspec.Struct, rename="camel"):
    uid: str
    reconciled_generation: int | None
    ready_flips: int


class _Page(msgspec.Struct, rename={"next": "continue"}):
    objects: tuple[_Object, ...]
    next: str


async def memories(server: str, namespace: str) -> Mapping[str, Memory]:
    """By uid, of one namespace or with "" of all; `server` is the URL of an ops port.

    Raises NoServerError.
    """
    found: dict[str, Memory] = {}
    query = {"limit": _PAGE} | ({"namespace": namespace} if namespace else {})
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    try:
        async with aiohttp.ClientSession(timeout=timeout, raise_for_status=True) as session:
            while True:
                async with session.get(f"{server}/api/objects", params=query) as response:
                    page = msgspec.json.decode(await response.read(), type=_Page)
                for one in page.objects:
                    found[one.uid] = Memory(one.reconciled_generation, one.ready_flips)
                if not page.next:
                    return found
                query["continue"] = page.next
    except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
        raise NoServerError(
            f"--server {server}: no answer from /api/objects ({type(error).__name__}); give the "
            "ops port of genguard serve, such as http://127.0.0.1:8080"
        ) from error
