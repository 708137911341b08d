"""What programs ask about this server: its state, and how controllers use observedGeneration."""

from collections.abc import Mapping
from datetime import UTC

import msgspec

from genguard.detection.honesty import WriterHonesty
from webhook.dashboard.page import PageContext, PageData, check_parameters
from webhook.tasks.supervisor import FailingTask


class ServerState(msgspec.Struct, frozen=True, rename="camel"):
    """The state of one replica; `missing` says why it is not ready, null if it is."""

    missing: str | None
    about: dict[str, str]
    not_after: str
    fingerprint: str
    watches: dict[str, bool]
    failing: tuple[FailingTask, ...]


class Controllers(msgspec.Struct, frozen=True):
    """How controllers use observedGeneration; `judged`: writes are judged by this replica."""

    controllers: tuple[WriterHonesty, ...]
    judged: bool


async def load(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return the state of this replica."""
    check_parameters(query, ())
    sources, server = context.sources, context.server
    state = ServerState(
        missing=server.missing(),
        about=dict(sources.about()),
        not_after=server.not_after.astimezone(UTC).isoformat().replace("+00:00", "Z"),
        fingerprint=server.fingerprint,
        watches=dict(sources.watching.states()),
        failing=sources.failing(),
    )
    return PageData(state, {})


async def load_controllers(context: PageContext, query: Mapping[str, str], _: float) -> PageData:
    """Return all controllers, those who are wrong most often first."""
    check_parameters(query, ())
    detecting = context.sources.detecting
    writers = tuple(detecting.detection.honesty.writers())
    return PageData(Controllers(writers, detecting.judges), {})
