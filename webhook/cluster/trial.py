"""Probes sent through the API server, again and again until they are seen or time is over."""

import secrets
import time
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from webhook.admission.probe import Seen, read_answers
from webhook.cluster.rest import Rest
from webhook.cluster.until import until
from webhook.install.probing import missing, probe
from webhook.install.where import collection_of

_REFUSED_SECONDS: Final = 10.0
"""Registrations spread within a second or two: what refuses probes for longer refuses them all."""


class Probed(NamedTuple):
    """What came back of one probe: the phases that have seen it, and what refused it."""

    seen: Mapping[str, Seen]
    status: int
    refusal: str
    date: str


async def send_probe(rest: Rest, namespace: str, run: str = "") -> Probed:
    """One dry run. Raises one of UNREACHED."""
    value = secrets.token_hex(8)
    document = probe(value, namespace, run)
    told = await rest.tell("POST", collection_of(document), document, params={"dryRun": "All"})
    refusal = told.message if told.status >= HTTPStatus.BAD_REQUEST else ""
    return Probed(read_answers(told.warnings, value), told.status, refusal, told.date)


async def until_seen(
    rest: Rest,
    namespace: str,
    phases: Collection[str],
    seconds: float,
    run: str = "",
    *,
    refused_seconds: float = _REFUSED_SECONDS,
) -> str:
    """Wait until every one of the phases has seen a probe.

    Gives "", or what refuses every probe where none gets through: a policy, say. Raises
    NotInTimeError.
    """
    refused: list[str] = []
    end = time.monotonic() + refused_seconds

    async def look() -> str:
        probed = await send_probe(rest, namespace, run)
        absent = missing(probed.seen, phases)
        if not absent:
            return ""
        told = probed.refusal or f"a dry run in {namespace} passed, not seen by {', '.join(absent)}"
        if _is_others(probed) and time.monotonic() >= end:
            refused.append(told)
            return ""
        return told

    await until(look, seconds)
    return refused[0] if refused else ""


def _is_others(probed: Probed) -> bool:
    """Refused by somebody, and not for a webhook of ours that cannot be called (500)."""
    is_refused = HTTPStatus.BAD_REQUEST <= probed.status < HTTPStatus.INTERNAL_SERVER_ERROR
    return is_refused and probed.status != HTTPStatus.NOT_FOUND
