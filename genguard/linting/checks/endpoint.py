"""Checks of the endpoint: where the API server calls a webhook, whom it trusts and how it asks."""

import base64
import re
import warnings
from collections.abc import Iterator
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from genguard.linting.check import Level, LintContext, Problem, webhook_check
from genguard.linting.hook import INJECTORS, Hook, texts
from genguard.objects.fields import items, mapping, text

_DEFAULT_PORT: Final = 443
_SOON: Final = timedelta(days=30)
_PLACEHOLDER: Final = re.compile(
    r"(\\[nrt]|[\W_])*|\W*(\{\{|<|\$).*|.*(placeholder|replace|change.?me|ca.?bundle).*",
    re.IGNORECASE | re.DOTALL,
)
_MALFORMED: Final = (ValueError, AttributeError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What is raised for a caBundle that is not base64 of certificates."""


@webhook_check
def client_config(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a clientConfig that names no address, or a port that the Service does not have."""
    client = mapping(hook.body.get("clientConfig"))
    service = mapping(client.get("service"))
    field = hook.field("clientConfig")
    if bool(service) == bool(text(client.get("url"))):
        yield Problem(Level.ERROR, field, "both")
    elif service:
        key = text(service.get("namespace")), text(service.get("name"))
        port, found = service.get("port", _DEFAULT_PORT), context.services.get(key)
        ports = items(mapping(found).get("ports"))
        if not all(key):
            yield Problem(Level.ERROR, f"{field}.service", "unnamed")
        elif found is not None and port not in [mapping(port).get("port") for port in ports]:
            named = {"service": "/".join(key), "port": port}
            yield Problem(Level.ERROR, f"{field}.service.port", "port", named)


@webhook_check
def ca_bundle(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a caBundle that is missing, unreadable, expired or about to expire."""
    client = mapping(hook.body.get("clientConfig"))
    bundle = client.get("caBundle")
    field = hook.field("clientConfig.caBundle")
    if not bundle or _is_placeholder(bundle):
        if "url" not in client:
            yield from _find_missing(hook, context, field)
        return
    try:
        ends = _ends(bundle)
    except _MALFORMED:
        yield Problem(Level.ERROR, field, "malformed")
        return
    first, last = (f"{end:%FT%TZ}" for end in (min(ends), max(ends)))
    if max(ends) <= context.at:
        yield Problem(Level.ERROR, field, "expired", {"at": last})
    elif max(ends) <= context.at + _SOON:
        yield Problem(Level.WARNING, field, "expires", {"at": last})
    elif min(ends) <= context.at:
        yield Problem(Level.INFO, field, "beside", {"at": first})


def _find_missing(hook: Hook, context: LintContext, field: str) -> Iterator[Problem]:
    is_injected = any(name in hook.annotations for name in INJECTORS)
    if context.live:
        yield Problem(Level.ERROR, field, "not-injected" if is_injected else "empty")
    elif not is_injected and not hook.own_phase:
        yield Problem(Level.INFO, field, "not-in-file")


def _is_placeholder(bundle: Any) -> bool:
    """Whether it stands for a value that is filled in later, in base64 or not: `Cg==` is a line."""
    given = text(bundle)
    with suppress(ValueError):
        given = base64.b64decode("".join(given.split()), validate=True).decode()
    return _PLACEHOLDER.fullmatch(given) is not None


def _ends(bundle: str) -> list[datetime]:
    """Return when each certificate of a caBundle expires. Raises one of _MALFORMED."""
    # Go's decoder ignores line ends, which kustomize adds.
    pem = base64.b64decode("".join(bundle.split()), validate=True)
    with warnings.catch_warnings(action="ignore"):  # of serial 0, which OPA's cert-controller uses
        return [
            certificate.not_valid_after_utc for certificate in x509.load_pem_x509_certificates(pem)
        ]


@webhook_check
def review_versions(hook: Hook, _: LintContext) -> Iterator[Problem]:
    """Report admissionReviewVersions without v1."""
    versions = texts(hook.body.get("admissionReviewVersions"))
    if "v1" not in versions:
        level = Level.WARNING if "v1beta1" in versions else Level.ERROR
        named = {"versions": ", ".join(versions) or "no version"}
        yield Problem(level, hook.field("admissionReviewVersions"), "lacks", named)
