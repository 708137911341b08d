"""Whether the API server trusts what the server shows, and for how long."""

import base64
import binascii
from collections.abc import Iterator
from datetime import datetime, timedelta
from typing import Final
from urllib.parse import urlsplit

import certs
from certs.chain import explain_failure
from certs.errors import MalformedPEMError
from certs.pem import read_certificates
from webhook.doctor.facts import Facts, Found
from webhook.doctor.line import Line, fail, warn, well
from webhook.lint.hook import mapping, text

_SOON: Final = timedelta(days=30)


def ca_bundle(facts: Facts) -> Iterator[Line]:
    """Every caBundle verifies the certificate in use, and goes on doing so."""

    def look() -> Iterator[Line]:
        for found in facts.registered.values():
            told = _objection(found, facts)
            if told:
                where = found.hook.configuration
                yield fail("ca-bundle", f"the caBundle of {where} {told}", facts.install)
            elif (last := _last(found)) - facts.at < _SOON:
                told = f"the caBundle of {found.hook.configuration} expires at {last:%FT%TZ}"
                yield warn("ca-bundle", told, facts.install)

    if facts.registered:
        yield from well("ca-bundle", "the API server trusts the server's certificate", look())


def certificate(facts: Facts) -> Iterator[Line]:
    """The certificate itself: its names, its key, its end."""
    if facts.pair is None:
        if not facts.outside and "secret" not in facts.unread:
            yield fail("certificate", "there is no Secret with a certificate", facts.install)
        return
    pair, names = facts.pair, _names(facts)
    found = certs.inspect(pair.cert_pem, pair.key_pem, at=facts.at, names=names)
    # What an outside server serves comes without its key.
    problems = [one for one in found.problems if pair.key_pem or one.part != "key"]
    ends = found.facts.not_after if found.facts else facts.at
    yield from well(
        "certificate",
        f"valid until {ends:%FT%TZ}, for {names[0]}",
        (
            (fail if one.severity == "error" else warn)("certificate", one.message, _renewal(facts))
            for one in problems
        ),
    )


def _renewal(facts: Facts) -> str:
    """A server outside renews by itself what it made itself."""
    return "genguard serve --cert-dir DIR" if facts.outside else facts.install


def _names(facts: Facts) -> tuple[str, ...]:
    if facts.outside:
        return (urlsplit(facts.outside).hostname or "",)
    return certs.service_names("genguard", facts.namespace)[:1]


def _objection(found: Found, facts: Facts) -> str:
    """Why calls by this bundle fail; "" when they do not, or when nothing is served."""
    bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
    if not bundle:
        return "is empty: the API server trusts nobody there"
    try:
        trusted = read_certificates(base64.b64decode("".join(bundle.split()), validate=True))
    except (MalformedPEMError, binascii.Error, ValueError):
        return "is no base64 of certificates in PEM"
    if all(one.not_valid_after_utc <= facts.at for one in trusted):
        last = max(one.not_valid_after_utc for one in trusted)
        return f"expired at {last:%FT%TZ}"
    try:
        leaf, *between = read_certificates(facts.pair.cert_pem if facts.pair else b"")
    except MalformedPEMError:
        return ""
    failure = explain_failure(leaf, between, trusted, facts.at)
    return f"is not the server's: {failure}" if failure else ""


def _last(found: Found) -> datetime:
    bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
    trusted = read_certificates(base64.b64decode("".join(bundle.split())))
    return max(one.not_valid_after_utc for one in trusted)
