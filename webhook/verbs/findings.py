"""What a connected server does about findings: it carries, rechecks and heals them."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING

from webhook.alerts.event import CreateEvent
from webhook.alerts.leader import Leadership
from webhook.detection.ledger import Ledger
from webhook.running import running
from webhook.server.detecting import Detecting
from webhook.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from webhook.cluster.rest import Rest


@asynccontextmanager
async def carried(
    rest: "Rest",
    where: tuple[str, str],
    detecting: Detecting,
    *,
    leadership: Leadership,
    metrics: Metrics,
) -> AsyncIterator[None]:
    """Restore the findings of a ConfigMap, and keep them there while the context is entered.

    where  its namespace and name
    """
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.saved_findings import FindingsConfigMap, FindingsPersister  # noqa: PLC0415

    carrying = FindingsPersister(detecting.detection.ledger, FindingsConfigMap(rest, *where))
    await carrying.load()
    async with carrying.running(leadership, detecting.know, metrics):
        yield


@asynccontextmanager
async def rechecked(
    rest: "Rest",
    ledger: Ledger,
    healer: Leadership | None,
    create: CreateEvent,
    metrics: Metrics,
) -> AsyncIterator[None]:
    """Look at damaged objects again and again while the context is entered.

    healer  says whether this replica heals what it finds; None where nothing is to be healed
    """
    from webhook.cluster.healing import Healing  # noqa: PLC0415
    from webhook.cluster.rechecking import Rechecking  # noqa: PLC0415
    from webhook.cluster.stored_objects import StoredObjects  # noqa: PLC0415

    objects = StoredObjects(rest)
    healing = None
    if healer is not None:
        healing = Healing(objects, healer, create)
        metrics.counts(
            "heals",
            "Attempts to put lost values back into stored objects.",
            ("result",),
            healing.counts,
        )
    rechecking = Rechecking(ledger, objects, healing)
    async with running((rechecking.run(),)):
        yield
