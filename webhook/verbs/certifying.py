"""Serves the certificate of a Secret, and renews it while this replica leads."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final

import certs
from webhook.alerts.leader import Leadership
from webhook.server.options import ServerOptions
from webhook.server.tls import HeldPair, until_good
from webhook.telemetry.metrics import Metrics

if TYPE_CHECKING:
    from webhook.cluster.rest import Rest

_FIRST_SECONDS: Final = 50.0
"""Less than the manifests give a pod to start, and enough to renew what is spoilt."""
_SERVICE: Final = "genguard"


@asynccontextmanager
async def certified(
    rest: "Rest",
    namespace: str,
    secret: str,
    options: ServerOptions,
    *,
    leadership: Leadership,
    metrics: Metrics,
) -> AsyncIterator[HeldPair]:
    """The pair to serve, followed while the context is entered.

    Files of the options are served until the Secret has been seen. Waits until there is something
    to serve; raises CertificateError where there is nothing in time.
    """
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.certificate_rotation import (  # noqa: PLC0415
        RotatedSecret,
        Rotation,
        Rotator,
        follow_secret,
    )
    from webhook.running import running  # noqa: PLC0415

    names = (*certs.installed_names(_SERVICE, namespace), *options.names)
    rotated = RotatedSecret(namespace, secret, names, options.lifetime)
    rotation = Rotation(Rotator(rest, rotated, _now), leadership, _now)
    metrics.gauge(
        "certificate_rotation_failing",
        "1 on the leader while it cannot look after the certificate.",
        lambda: float(rotation.is_failing),
    )
    first = None
    if options.cert_file is not None and options.key_file is not None:
        first = certs.PairFiles.beside(options.cert_file, options.key_file)
    held = HeldPair(f"{secret} -n {namespace}", first)

    def seen(files: dict[str, bytes]) -> None:
        held.take(files)
        rotation.wake()

    async with follow_secret(rest, namespace, secret, seen), running((rotation.run(),)):
        await until_good(held, _FIRST_SECONDS)
        yield held


def _now() -> datetime:
    return datetime.now(UTC)
