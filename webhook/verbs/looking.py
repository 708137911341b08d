"""One look at what is asked for in a cluster, or one after every change."""

from collections.abc import Callable
from dataclasses import dataclass
from http import HTTPStatus
from typing import Final

from webhook.cluster.connection import connected
from webhook.cluster.discovery import discover
from webhook.cluster.rest import RefusedError, Rest
from webhook.objects.served import Served, UnknownTargetError
from webhook.status.targets import RequestedTarget, WatchTarget, resolve_targets
from webhook.verbs.following import Sight, Tell, following
from webhook.verbs.remembering import memories

_TICK: Final = 1.0
"""Seconds after which time alone may have changed the answer."""


@dataclass(frozen=True, slots=True)
class LookOptions:
    """What the flags say."""

    kubeconfig: str
    context: str | None
    asked: tuple[RequestedTarget, ...]
    namespace: str
    selector: str
    server: str | None
    everything: bool
    """Kinds were not named: those that are not there, or not to be read, are passed over."""


async def look(
    options: LookOptions, show: Callable[[Sight], None], tell: Tell, *, watch: bool
) -> list[WatchTarget]:
    """Show what is there, and with `watch` again after each change and each second, for ever.

    Gives the objects that do not exist. Raises NoClusterError, UnknownTargetError, RefusedError,
    NoServerError or one of UNREACHED.
    """
    async with connected(options.kubeconfig, options.context) as api:
        rest = Rest(api)
        kinds = await discover(rest)
        found = await _readable(rest, options, kinds, tell)
        known = await memories(options.server, options.namespace) if options.server else {}
        async with following(rest, kinds, found, tell, known) as objects:
            while True:
                sight = await objects.sight(_TICK)
                if sight is not None:
                    show(sight)
                    if not watch:
                        return [one for one in found if one.name and not sight.there[one]]


async def _readable(
    rest: Rest, options: LookOptions, kinds: list[Served], tell: Tell
) -> list[WatchTarget]:
    """What is wanted, as far as it is served and may be read."""
    found = []
    for asked in options.asked:
        try:
            (one,) = resolve_targets([asked], kinds, options.namespace, options.selector)
            await rest.get(one.served.path(one.namespace), limit="1", **one.list_parameters)
        except UnknownTargetError:
            if not options.everything:
                raise
        except RefusedError as error:
            if not options.everything or error.status != HTTPStatus.FORBIDDEN:
                raise
            tell(str(error))
        else:
            found.append(one)
    return found
