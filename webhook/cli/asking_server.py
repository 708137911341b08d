"""Asks a running `genguard serve`, by the JSON of its dashboard on the ops port."""

from collections.abc import Mapping
from http import HTTPStatus
from typing import Final, TypeVar

import aiohttp
import msgspec

from webhook.cli.following import NoServerError
from webhook.cli.options import USUAL_SERVER

_SECONDS: Final = 15.0
_Answer = TypeVar("_Answer")


async def ask(
    server: str, path: str, query: Mapping[str, str], form: type[_Answer]
) -> _Answer | None:
    """Return the answer to GET `path`; None where the server knows no such thing (404).

    server  the URL of its ops port

    Raises NoServerError.
    """
    timeout = aiohttp.ClientTimeout(total=_SECONDS)
    given = {name: value for name, value in query.items() if value}
    try:
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(f"{server.rstrip('/')}{path}", params=given) as response,
        ):
            if response.status == HTTPStatus.NOT_FOUND:
                _ = msgspec.json.decode(await response.read(), type=_NotFound)
                return None
            response.raise_for_status()
            return msgspec.json.decode(await response.read(), type=form)
    except (aiohttp.ClientError, TimeoutError, ValueError, msgspec.MsgspecError) as error:
        raise NoServerError(
            f"--server {server}: no answer from {path} ({type(error).__name__}); give the ops port "
            f"of genguard serve, such as {USUAL_SERVER}"
        ) from error


class _NotFound(msgspec.Struct):
    """How genguard says it: another server's 404 is an error."""

    error: str
