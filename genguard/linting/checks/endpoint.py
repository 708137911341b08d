"""Checks of the endpoint: where the API server calls a webhook, whom it trusts and how it asks."""

import base64
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import INJECTORS, Hook, items, mapping, text, texts

_DEFAULT_PORT: Final = 443
_SOON: Final = timedelta(days=30)
_MALFORMED: Final = (ValueError, AttributeError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What is raised for a caBundle that is not base64 of certificates."""


@webhook_check(
    "client-config",
    "admissionregistration.k8s.io/v1 WebhookClientConfig: exactly one of url and service; "
    "port is a port of the Service, 443 by default, not of its pods",
)
def client_config(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a clientConfig that names no address, or a port that the Service does not have."""
    client = mapping(hook.body.get("clientConfig"))
    service = mapping(client.get("service"))
    field = hook.field("clientConfig")
    if bool(service) == bool(text(client.get("url"))):
        message = "must have either url or service: set exactly one of them"
        yield Problem(Level.ERROR, field, message)
        return
    if not service:
        return
    key = text(service.get("namespace")), text(service.get("name"))
    port = service.get("port", _DEFAULT_PORT)
    found = context.services.get(key)
    if not all(key):
        message = "the service has no name or no namespace: set both"
        yield Problem(Level.ERROR, f"{field}.service", message)
    elif found is not None and port not in [
        mapping(one).get("port") for one in items(found.get("ports"))
    ]:
        message = f"the Service {key[0]}/{key[1]} has no port {port}: set one of its ports"
        yield Problem(Level.ERROR, f"{field}.service.port", message)


@webhook_check(
    "ca-bundle",
    "the API server verifies a webhook by caBundle, or by its own roots without one "
    "(apiserver pkg/util/webhook/client.go); after the CA expires, every call fails",
)
def ca_bundle(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a caBundle that is missing, unreadable, expired or about to expire."""
    client = mapping(hook.body.get("clientConfig"))
    bundle = client.get("caBundle")
    field = hook.field("clientConfig.caBundle")
    if not bundle:
        if "url" not in client:
            yield from _find_missing(hook, context, field)
        return
    try:
        ends = _ends(bundle)
    except _MALFORMED:
        message = "is not base64 of PEM certificates: set it to the CA certificate"
        yield Problem(Level.ERROR, field, message)
        return
    last, first = max(ends), min(ends)
    if last <= context.at:
        message = f"expired at {last:%FT%TZ}: replace it by the CA certificate that is in use"
        yield Problem(Level.ERROR, field, message)
    elif last <= context.at + _SOON:
        message = f"expires at {last:%FT%TZ}: renew the CA, and keep the old certificate beside it"
        yield Problem(Level.WARNING, field, message)
    elif first <= context.at:
        message = f"contains a CA that expired at {first:%FT%TZ} beside a valid one: remove it"
        yield Problem(Level.INFO, field, message)


def _find_missing(hook: Hook, context: LintContext, field: str) -> Iterator[Problem]:
    is_injected = any(name in hook.annotations for name in INJECTORS)
    if context.live:
        message = "is empty, so the API server does not trust the webhook's certificate: " + (
            "check why the CA injector does not fill it" if is_injected else "set it to the CA"
        )
        yield Problem(Level.ERROR, field, message)
    elif not is_injected and not hook.own_phase:
        message = (
            "is not in the file, and no annotation says what fills it: make sure that it is set"
        )
        yield Problem(Level.INFO, field, message)


def _ends(bundle: str) -> list[datetime]:
    """Return when each certificate of a caBundle expires. Raises one of _MALFORMED."""
    # Go's decoder ignores line ends, which kustomize adds.
    pem = base64.b64decode("".join(bundle.split()), validate=True)
    with warnings.catch_warnings(action="ignore"):  # of serial 0, which OPA's cert-controller uses
        return [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(pem)]


@webhook_check(
    "review-versions",
    "the API server uses the first version in the list that it knows "
    "(apiserver pkg/admission/plugin/webhook/request/admissionreview.go); v1beta1 checks less",
)
def review_versions(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report admissionReviewVersions without v1."""
    versions = texts(hook.body.get("admissionReviewVersions"))
    if "v1" not in versions:
        yield Problem(
            Level.WARNING if "v1beta1" in versions else Level.ERROR,
            hook.field("admissionReviewVersions"),
            f"has {', '.join(versions) or 'no version'} but not v1: support v1 and list it",
        )
