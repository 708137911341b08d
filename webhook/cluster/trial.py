"""Probes sent through the API server, again and again until they are seen or time is over."""

import asyncio
import secrets
import time
from collections.abc import Collection, Mapping
from http import HTTPStatus
from typing import Final, NamedTuple

from webhook.admission.probe import Seen, read_answers
from webhook.cluster.rest import Rest
from webhook.cluster.until import until
from webhook.install.registering import missing, probe
from webhook.manifest.documents import collection_of

_AT_ONCE: Final = 8
"""Probes that need connections of their own: an idle one leads to the pod that it led to before."""
_ROUNDS: Final = 3
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


async def send_probes(rest: Rest, namespace: str, count: int) -> tuple[Probed, ...]:
    """So many dry runs at once. Raises one of UNREACHED."""
    return tuple(await asyncio.gather(*(send_probe(rest, namespace) for _ in range(count))))


async def until_mode(rest: Rest, namespace: str, mode: str, seconds: float) -> None:
    """Wait until nobody answers a probe in another mode, in several rounds one after the other.

    Who does not answer is in no mode. Raises NotInTimeError.
    """
    rounds = 0

    async def look() -> str:
        nonlocal rounds
        others = {
            seen.facts.get("instance", "a pod"): told
            for probed in await send_probes(rest, namespace, _AT_ONCE)
            for seen in probed.seen.values()
            if (told := seen.facts.get("mode", mode)) != mode
        }
        rounds = 0 if others else rounds + 1
        if others:
            return ", ".join(f"{who} still answers as {told}" for who, told in others.items())
        return "" if rounds >= _ROUNDS else f"{mode} in {rounds} of {_ROUNDS} rounds"

    await until(look, seconds)


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
