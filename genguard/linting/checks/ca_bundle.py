"""caBundle: without a valid CA certificate every call of the webhook fails."""

import base64
import warnings
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final

from cryptography import x509
from cryptography.exceptions import UnsupportedAlgorithm

from genguard.linting.check import Check, Level, LintContext, Problem
from genguard.linting.hook import INJECTORS, Hook, mapping

_SOON: Final = timedelta(days=30)
_MALFORMED: Final = (ValueError, AttributeError, UnsupportedAlgorithm, x509.InvalidVersion)
"""What is raised for a caBundle that is not base64 of certificates."""


def find_problems(hook: Hook, context: LintContext) -> Iterator[Problem]:
    """Report a caBundle that is missing, unreadable, expired or about to expire."""
    client = mapping(hook.body.get("clientConfig"))
    bundle = client.get("caBundle")
    field = hook.field("clientConfig.caBundle")
    if not bundle:
        yield from _find_missing(hook, context, field, by_url="url" in client)
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


def _ends(bundle: str) -> list[datetime]:
    """Return when each certificate of a caBundle expires. Raises one of _MALFORMED."""
    # Go's decoder ignores line ends, which kustomize adds.
    pem = base64.b64decode("".join(bundle.split()), validate=True)
    with warnings.catch_warnings(action="ignore"):  # of serial 0, which OPA's cert-controller uses
        return [one.not_valid_after_utc for one in x509.load_pem_x509_certificates(pem)]


def _find_missing(
    hook: Hook, context: LintContext, field: str, *, by_url: bool
) -> Iterator[Problem]:
    injected = any(name in hook.annotations for name in INJECTORS)
    if context.live and not by_url:
        message = "is empty, so the API server does not trust the webhook's certificate: " + (
            "check why the CA injector does not fill it" if injected else "set it to the CA"
        )
        yield Problem(Level.ERROR, field, message)
    elif not injected and not by_url and not hook.own_phase:
        message = (
            "is not in the file, and no annotation says what fills it: make sure that it is set"
        )
        yield Problem(Level.INFO, field, message)


CHECK: Final = Check(
    "ca-bundle",
    "the API server verifies a webhook by caBundle, or by its own roots without one "
    "(apiserver pkg/util/webhook/client.go); after the CA expires, every call fails",
    find_problems,
)
