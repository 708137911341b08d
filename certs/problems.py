"""What is wrong with a certificate, each in a sentence: what, where, and what to do about it.

An error means that the pair must not be served, since the API server would refuse it. A warning
means that somebody should act before it becomes an error. No sentence counts seconds: the same
problem reads the same at every look, so a log can drop the repetitions.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final, Literal, TypeAlias

from certs.facts import CertificateFacts
from certs.names import covers

Part: TypeAlias = Literal["certificate", "key", "ca"]
Severity: TypeAlias = Literal["error", "warning"]

_REFUSED_HASHES: Final = {"md5", "sha1"}  # Go 1.18 and newer verify neither


@dataclass(frozen=True, slots=True)
class Problem:
    """One thing that is wrong, and in which of the three inputs."""

    code: str
    severity: Severity
    part: Part
    message: str


def find_problems(facts: CertificateFacts, at: datetime, names: Sequence[str]) -> Iterator[Problem]:
    """Every problem that the facts show to a client that dials one of the names."""
    yield from _of_pair(facts)
    yield from _of_time(facts, at)
    yield from _of_use(facts, names)


def _of_pair(facts: CertificateFacts) -> Iterator[Problem]:
    if facts.key_matches is False:
        yield Problem(
            "key-mismatch",
            "error",
            "key",
            f"the private key does not belong to the certificate {facts.fingerprint[:16]}: "
            "put the key it was issued for beside it",
        )
    if facts.chain_failure is not None:
        yield _error(
            "chain-unverified",
            f"does not verify against the CA bundle, {facts.chain_failure}: "
            "issue it from an authority in the bundle, or add its authority there",
        )


def _of_time(facts: CertificateFacts, at: datetime) -> Iterator[Problem]:
    begins, ends, due = facts.not_before, facts.not_after, facts.renew_from
    if at >= ends:
        yield _error("expired", f"expired at {ends:%FT%TZ}: issue a new one")
    elif at < begins:
        yield _error(
            "not-yet-valid",
            f"is not valid before {begins:%FT%TZ}: check the clock of this machine, or wait",
        )
    elif at >= due:
        yield Problem(
            "near-expiry",
            "warning",
            "certificate",
            f"the certificate expires at {ends:%FT%TZ} and was due for renewal from "
            f"{due:%FT%TZ}: issue a new one",
        )


def _of_use(facts: CertificateFacts, names: Sequence[str]) -> Iterator[Problem]:
    if not facts.sans:
        yield _error(
            "no-names",
            "has no names in subjectAltName, and Go ignores the common name: "
            "issue one with the Service's name, <service>.<namespace>.svc",
        )
    elif missing := [name for name in names if not covers(facts.sans, name)]:
        yield _error(
            "name-missing",
            f"does not cover {', '.join(missing)}, only {', '.join(facts.sans)}: "
            "issue one with the names that clients dial",
        )
    if not facts.for_servers:
        yield _error(
            "not-for-servers", "is not for servers: issue one with extended key usage serverAuth"
        )
    if facts.signature_hash in _REFUSED_HASHES:
        yield _error(
            "refused-signature", f"is signed with {facts.signature_hash}: issue one with SHA-256"
        )


def _error(code: str, predicate: str) -> Problem:
    return Problem(code, "error", "certificate", f"the certificate {predicate}")
