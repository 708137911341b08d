"""Check that the API server trusts the server's certificate, and for how long."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import certs
from certs.errors import MalformedPEMError
from certs.inspect import explain_failure
from certs.pem import read_certificates
from genguard.linting.hook import mapping, text
from webhook.doctor.facts import Facts, Found
from webhook.doctor.result import CheckResult, fail, results_or_ok, warn

_SOON: Final = timedelta(days=30)


def ca_bundle(facts: Facts) -> Iterator[CheckResult]:
    """Every caBundle verifies the certificate in use, and will for 30 more days."""

    def problems() -> Iterator[CheckResult]:
        for found in facts.registered.values():
            message = _objection(found, facts)
            if message:
                where = found.hook.configuration
                yield fail("ca-bundle", f"the caBundle of {where} {message}", facts.install)
            elif (last := _last(found)) - facts.at < _SOON:
                message = f"the caBundle of {found.hook.configuration} expires at {last:%FT%TZ}"
                yield warn("ca-bundle", message, facts.install)

    if facts.registered:
        yield from results_or_ok(
            "ca-bundle", "the API server trusts the server's certificate", problems()
        )


def certificate(facts: Facts) -> Iterator[CheckResult]:
    """The certificate has the right names, its key, and time left."""
    if facts.pair is None:
        if not facts.outside:
            yield fail("certificate", "the Secret with the certificate is missing", facts.install)
        return
    pair, names = facts.pair, _names(facts)
    found = certs.inspect(pair.cert_pem, pair.key_pem, at=facts.at, names=names)
    # The key of a server outside the cluster is not known.
    problems = [one for one in found.problems if pair.key_pem or one.part != "key"]
    ends = found.facts.not_after if found.facts else facts.at
    yield from results_or_ok(
        "certificate",
        f"valid until {ends:%FT%TZ}, for {names[0]}",
        (
            (fail if one.severity == "error" else warn)("certificate", one.message, _renewal(facts))
            for one in problems
        ),
    )


def _renewal(facts: Facts) -> str:
    """A server outside the cluster renews the certificate that it has made."""
    return "genguard serve --cert-dir DIR" if facts.outside else facts.install


def _names(facts: Facts) -> tuple[str, ...]:
    if facts.outside:
        return (urlsplit(facts.outside).hostname or "",)
    return certs.service_names("genguard", facts.namespace)[:1]


def _objection(found: Found, facts: Facts) -> str:
    """Say why calls with this caBundle fail; "" if they succeed or no certificate is known."""
    bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
    if not bundle:
        return "is empty, so the API server trusts no certificate"
    try:
        trusted = read_certificates(base64.b64decode("".join(bundle.split()), validate=True))
    except (MalformedPEMError, binascii.Error, ValueError):
        return "is not base64 of PEM certificates"
    if all(one.not_valid_after_utc <= facts.at for one in trusted):
        last = max(one.not_valid_after_utc for one in trusted)
        return f"expired at {last:%FT%TZ}"
    try:
        leaf, *between = read_certificates(facts.pair.cert_pem if facts.pair else b"")
    except MalformedPEMError:
        return ""
    failure = explain_failure(leaf, between, trusted, facts.at)
    return f"does not verify the server's certificate: {failure}" if failure else ""


def _last(found: Found) -> datetime:
    bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
    trusted = read_certificates(base64.b64decode("".join(bundle.split())))
    return max(one.not_valid_after_utc for one in trusted)
