"""caBundle: without one that verifies, no call ever succeeds."""

import base64
import binascii
from collections.abc import Iterator
from datetime import timedelta
from typing import ClassVar, Final

from certs.errors import MalformedPEMError
from certs.pem import read_certificates
from webhook.lint.check import Surroundings, told
from webhook.lint.finding import Level, LintFinding
from webhook.lint.hook import Hook, mapping
from webhook.manifest.rendering import INJECTORS

_SOON: Final = timedelta(days=30)


class CaBundle:
    """See the module."""

    id: ClassVar[str] = "ca-bundle"
    reason: ClassVar[str] = (
        "the API server verifies a webhook by caBundle, or by its own roots without one "
        "(apiserver pkg/util/webhook/client.go); an expired one is an outage or a silent bypass"
    )

    def look(self, hook: Hook, around: Surroundings) -> Iterator[LintFinding]:
        """At most one finding a webhook."""
        client = mapping(hook.body.get("clientConfig"))
        bundle = client.get("caBundle")
        field = hook.field("clientConfig.caBundle")
        if not bundle:
            yield from self._missing(hook, around, field, by_url="url" in client)
            return
        try:
            # Go's decoder passes over line ends, which kustomize puts in.
            pem = base64.b64decode("".join(bundle.split()), validate=True)
            ends = [one.not_valid_after_utc for one in read_certificates(pem)]
        except (MalformedPEMError, binascii.Error, AttributeError, ValueError):
            message = "is no base64 of certificates in PEM: put the CA's certificate in its place"
            yield told(self, Level.ERROR, hook, field, message)
            return
        last, first = max(ends), min(ends)
        if last <= around.at:
            message = f"expired at {last:%FT%TZ}: put the certificate of the CA in use in its place"
            yield told(self, Level.ERROR, hook, field, message)
        elif last <= around.at + _SOON:
            message = f"expires at {last:%FT%TZ}: renew the CA, and keep the old one beside it"
            yield told(self, Level.WARNING, hook, field, message)
        elif first <= around.at:
            message = f"holds a CA that expired at {first:%FT%TZ}, beside one in force: remove it"
            yield told(self, Level.INFO, hook, field, message)

    def _missing(
        self, hook: Hook, around: Surroundings, field: str, *, by_url: bool
    ) -> Iterator[LintFinding]:
        injected = any(name in hook.annotations for name in INJECTORS)
        if around.live and not by_url:
            message = "is empty, so the webhook's certificate is not trusted: " + (
                "look why the CA injector does not fill it" if injected else "put the CA there"
            )
            yield told(self, Level.ERROR, hook, field, message)
        elif not injected and not by_url and not hook.own_phase:
            message = "is not in the file and nothing says who fills it: see that somebody does"
            yield told(self, Level.INFO, hook, field, message)
