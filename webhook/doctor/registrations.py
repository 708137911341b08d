"""Check the registrations: all are there, for the whole cluster, and they block no write."""

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
from genguard.admission.review import Phase
from genguard.detection.matching import Writes
from genguard.detection.suspects import Suspects, read_configurations
from genguard.linting.checks.order import registrations_reverted
from genguard.linting.hook import FOLLOWED, items, mapping, text
from genguard.linting.lint import lint
from genguard.needed_phases import needs_of
from genguard.objects.shown import few
from webhook.doctor.facts import Call, Facts, Found, Line, Source, calls_of, check, fail, ok, warn
from webhook.install.registering import foreign, home_of, is_limited, removal_commands
from webhook.manifest.documents import FOLLOW, arguments_of, mode_of, title_of
from webhook.manifest.rendering import PHASES, REGISTRATIONS

_SOON: Final = timedelta(days=30)
_LONGEST_SECONDS: Final = 5
_SAME: Final = {
    "reinvocationPolicy": "so it may not see the changes of later webhooks",
    "matchPolicy": "so writes through another API version may be missed",
    "sideEffects": "so dry runs may fail",
}
_LEFT_OUT: Final = ("kube-system", "kube-node-lease")


@check("registered", Source.REGISTRATIONS, Source.LEFTOVERS)
def registered(facts: Facts) -> Iterator[Line]:
    """All three are registered, and for the whole cluster."""
    missing = [phase for phase in PHASES if phase not in facts.registered]
    if missing:
        what = "not registered" if len(missing) == len(PHASES) else "not all registered"
        yield fail(f"{what}: {', '.join(missing)} is missing", facts.install)
    limited = [one for one in facts.registered.values() if is_limited(one.registration)]
    for found in limited:
        message = f"{found.hook.configuration} covers only a trial namespace: "
        yield fail(f"{message}an installation was interrupted", facts.install)
    if facts.leftovers and not limited:
        names = ", ".join(str(one["metadata"]["name"]) for one in facts.leftovers)
        yield warn(f"left by an interrupted installation: {names}", facts.install)
    yield ok("intent, mutate and outcome, for the whole cluster")


@check("alone", Source.REGISTRATIONS)
def alone(facts: Facts) -> Iterator[Line]:
    """No other genguard is registered: both would repair and report the same writes."""
    others = foreign(facts.configurations, facts.namespace)
    taken = [one for one in others if (one["kind"], one["metadata"]["name"]) in REGISTRATIONS]
    if taken:
        home = home_of(taken[0])
        message = f"{few([title_of(one) for one in taken])} calls the genguard in namespace {home}"
        yield fail(f"{message}, not the one in {facts.namespace}", f"genguard doctor -n {home}")
    if more := [one for one in others if one not in taken]:
        message = f"another genguard is registered: {few([title_of(one) for one in more])}; "
        yield warn(f"{message}both repair and report the same writes", removal_commands(more))
    yield ok("no other genguard is registered")


@check("rules", Source.REGISTRATIONS)
def rules(facts: Facts) -> Iterator[Line]:
    """Every resource and operation of the manifests is registered."""
    watched = set()
    for found in facts.registered.values():
        calls = calls_of(found.hook.body)
        watched |= {resource for _, _, resource, _ in calls}
        if lost := sorted(_wanted(found, facts) - calls):
            names = [f"{call[3]} {call[2]}.{call[0]}".rstrip(".") for call in lost]
            message = f"{found.hook.configuration} is not called for {few(names)}"
            yield fail(message, facts.install)
        if any("*" in word for call in calls for word in call):
            message = f"{found.hook.configuration} has a wildcard, which also matches Leases"
            yield warn(message, facts.install)
    if facts.registered:
        yield ok(f"{len(watched)} resources and subresources are watched")


def _wanted(found: Found, facts: Facts) -> set[Call]:
    """Return what a phase must be called for: all, or what is needed where the server follows it.

    Policies are not read here, so more may be registered than this says.
    """
    calls = calls_of(found.expected)
    outcome = facts.registered.get(Phase.OUTCOME)
    if FOLLOWED not in found.hook.annotations or outcome is None:
        return calls
    needs = needs_of(
        items(outcome.hook.body.get("rules")),
        Suspects(read_configurations(facts.configurations)).may_change,
        enforcing=facts.deployment is not None and mode_of(facts.deployment) == "enforcing",
    )
    needed = {one.writes for one in needs if found.phase in one.phases}
    return {one for one in calls if Writes(one[0], one[2], one[3]) in needed}


@check("reverted", Source.REGISTRATIONS)
def reverted(facts: Facts) -> Iterator[Line]:
    """Nobody writes back the rules that the server keeps."""
    checks = (registrations_reverted,)
    for one in lint(facts.configurations, at=facts.at, live=True, checks=checks):
        name = one.webhook.partition("/")[0]
        yield warn(f"the rules of {name} {one.message}", f"{facts.install} --registrations fixed")
    is_followed = any(FOLLOWED in one.hook.annotations for one in facts.registered.values())
    if is_followed and facts.deployment and FOLLOW not in arguments_of(facts.deployment):
        message = f"phases are left out that the server does not add again: {FOLLOW} is gone"
        yield fail(message, facts.install)
    if is_followed:
        yield ok("the server registers only the phases that can show or repair something")
    elif facts.registered:
        yield ok("every phase is registered for all that is watched")


@check("settings", Source.REGISTRATIONS)
def settings(facts: Facts) -> Iterator[Line]:
    """No write fails or waits long while genguard is down."""
    for found in facts.registered.values():
        name, hook = found.hook.configuration, found.hook
        if hook.fails:
            message = f"{name} has failurePolicy Fail: writes fail while genguard is down"
            yield fail(message, facts.install)
        if hook.timeout > _LONGEST_SECONDS:
            message = f"{name} has timeoutSeconds {hook.timeout}: "
            yield warn(f"{message}a write may wait that many seconds", facts.install)
        yield from _selectors(found, facts)
        for field, why in _SAME.items():
            now, wanted = hook.body.get(field), found.expected.get(field)
            if now != wanted:
                yield warn(f"{name} has {field} {now} instead of {wanted}, {why}", facts.install)
    if facts.registered:
        yield ok("failurePolicy Ignore, short timeouts, kube-system excluded")


def _selectors(found: Found, facts: Facts) -> Iterator[Line]:
    name, hook = found.hook.configuration, found.hook
    watched = [one for one in (*_LEFT_OUT, facts.namespace) if hook.selects_namespace(one)]
    if watched and not is_limited(found.registration):
        message = f"{name} watches {', '.join(watched)}, which the cluster or genguard itself "
        yield fail(f"{message}depends on", facts.install)
    if hook.selects_objects:
        message = f"{name} has an objectSelector: a writer who sets labels can avoid it"
        yield warn(message, facts.install)
    conditions = {
        mapping(one).get("name"): mapping(one).get("expression")
        for one in items(hook.body.get("matchConditions"))
    }
    for wanted in found.expected["matchConditions"]:
        condition = wanted["name"]
        if condition not in conditions:
            message = f"{name} has lost the matchCondition {condition}: "
            yield warn(f"{message}genguard may wait for its own writes", facts.install)
        elif conditions[condition] != wanted["expression"]:
            message = f"{name} has a changed matchCondition {condition}, which protects the writes "
            yield warn(f"{message}of genguard itself", facts.install)


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
