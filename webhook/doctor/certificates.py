"""Check that the API server trusts the server's certificate, and for how long."""

import base64
import binascii
from collections.abc import Iterator
from datetime import timedelta
from typing import Final
from urllib.parse import urlsplit

from cryptography import x509

import certs
from certs.inspect import explain_failure
from certs.pem import MalformedPEMError, read_certificates
from genguard.linting.hook import mapping, text
from webhook.doctor.facts import Facts, Source
from webhook.doctor.result import Line, check, fail, ok, warn

_SOON: Final = timedelta(days=30)


@check("ca-bundle", Source.REGISTRATIONS, Source.PAIR)
def ca_bundle(facts: Facts) -> Iterator[Line]:
    """Every caBundle verifies the certificate in use, and will for 30 more days."""
    for found in facts.registered.values():
        bundle = text(mapping(found.hook.body.get("clientConfig")).get("caBundle"))
        name = f"the caBundle of {found.hook.configuration}"
        if not bundle:
            message = f"{name} is empty, so the API server trusts no certificate"
            yield fail(message, facts.install)
            continue
        try:
            trusted = read_certificates(base64.b64decode("".join(bundle.split()), validate=True))
        except (MalformedPEMError, binascii.Error, ValueError):
            yield fail(f"{name} is not base64 of PEM certificates", facts.install)
            continue
        last = max(one.not_valid_after_utc for one in trusted)
        if last <= facts.at:
            yield fail(f"{name} expired at {last:%FT%TZ}", facts.install)
        elif failure := _failure(trusted, facts):
            message = f"{name} does not verify the server's certificate: {failure}"
            yield fail(message, facts.install)
        elif last - facts.at < _SOON:
            yield warn(f"{name} expires at {last:%FT%TZ}", facts.install)
    if facts.registered:
        yield ok("the API server trusts the server's certificate")


def _failure(trusted: tuple[x509.Certificate, ...], facts: Facts) -> str | None:
    """Say why these do not verify the server's certificate; None if they do, or it is not known."""
    try:
        leaf, *between = read_certificates(facts.pair.cert_pem if facts.pair else b"")
    except MalformedPEMError:
        return None
    return explain_failure(leaf, between, trusted, facts.at)


@check("certificate", Source.REGISTRATIONS, Source.PAIR)
def certificate(facts: Facts) -> Iterator[Line]:
    """The certificate has the right names, its key, and time left."""
    # A server outside the cluster renews the certificate that it has made; its key is not known.
    name = certs.service_names("genguard", facts.namespace)[0]
    renewal = facts.install
    if facts.outside:
        name, renewal = urlsplit(facts.outside).hostname or "", "genguard serve --cert-dir DIR"
    if facts.pair is None:
        if not facts.outside:
            yield fail("the Secret with the certificate is missing", facts.install)
        return
    found = certs.inspect(facts.pair.cert_pem, facts.pair.key_pem, at=facts.at, names=(name,))
    for one in found.problems:
        if facts.pair.key_pem or one.part != "key":
            yield (fail if one.severity == "error" else warn)(one.message, renewal)
    ends = found.facts.not_after if found.facts else facts.at
    yield ok(f"valid until {ends:%FT%TZ}, for {name}")
