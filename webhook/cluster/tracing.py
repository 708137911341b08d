"""Registers the observers of a trace for one object, and removes them whatever happens.

Reads    every MutatingWebhookConfiguration with the label of a trace
Acts on  none without it
Result   when `remove` returns, none of this run is left; otherwise
         StillRegisteredError says how to remove them by hand
Relies on the label: a registration whose answer was lost is found by it

A killed process cannot clean up. So each registration names the process that made it, and a later
run on the same machine removes those whose process has ended; all others expire.

`send_dry_runs` sends merge patches as dry runs, so that webhooks are called at once. They are
empty, but for an observedGeneration that the stored object has lost: without it in the request
nobody could be seen to clear it. A dry run reaches every webhook: the API server accepts only those
whose sideEffects are None or NoneOnDryRun.
"""

import asyncio
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from http import HTTPStatus
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final
from urllib.parse import quote, urlsplit

from genguard.admission.matching import Registration
from genguard.converge.creation import Site, Tried, copy_of, lost_fields, samples_of, sites, taken
from genguard.objects.served import Served, collection_path, find, split_target
from genguard.trace.passes import status_as_reported
from genguard.trace.plan import OWNER, RUN_LABEL, Traced, acting, has_expired, is_observer
from webhook.cluster.cluster_watch import server_version
from webhook.cluster.discovery import absent, discover
from webhook.cluster.reconcile import NotInTimeError, until
from webhook.cluster.rest import MERGE_PATCH, UNREACHED, RefusedError, Rest, ask, if_there

CONFIGURATIONS: Final = "/apis/admissionregistration.k8s.io/v1/mutatingwebhookconfigurations"
_NEEDED: Final = ("list", "create", "delete")
_SLICE: Final = "/apis/discovery.k8s.io/v1/namespaces/default/endpointslices/kubernetes"
"""The addresses of API servers; each writes its own (controlplane/instance.go)."""
_PATIENCE_SECONDS: Final = 60.0
_EVERY_SECONDS: Final = 0.5
_AT_ONCE: Final = 4
_NO_RIGHT: Final = "you may not create them, so who strips fields is not known"
_PARAMS: Final = {
    "dryRun": "All",
    "fieldManager": "genguard-trace",
    "fieldValidation": "Ignore",  # not every kind keeps an observedGeneration in each condition
}
_NOT_OF_THIS_TYPE: Final = (HTTPStatus.BAD_REQUEST, HTTPStatus.UNPROCESSABLE_ENTITY)


class NoTargetError(Exception):
    """An object may not be traced; the message says why."""


async def resolve(rest: Rest, text: str, namespace: str) -> Traced:
    """Find the object of KIND/NAME. Raises UnknownTargetError or RefusedError."""
    kind, name = split_target(text)
    served = find(kind, await discover(rest))
    traced = Traced(served, namespace if served.namespaced else "", name)
    found = await if_there(rest.get(traced.path(), kind=served.kind))
    if found is None:
        raise await absent(rest, served, traced.namespace, name)
    return replace(traced, uid=found["metadata"]["uid"])


async def advertised_url(rest: Rest, url: str) -> str:
    """Return the API server's URL as pods see it, if `url` has a loopback address.

    kind, minikube and tunnels forward a local port to an API server that runs in a container or
    elsewhere: it cannot reach this machine's loopback address. Return `url` itself where no better
    one is known.
    """
    host = urlsplit(url).hostname or ""
    try:
        if host != "localhost" and not ip_address(host).is_loopback:
            return url
        found = await rest.get(_SLICE)
        address = ip_address(found["endpoints"][0]["addresses"][0])
        port = int(found["ports"][0]["port"])
    except (RefusedError, LookupError, TypeError, ValueError):
        return url
    return f"https://[{address}]:{port}" if address.version == 6 else f"https://{address}:{port}"  # noqa: PLR2004


async def configurations(rest: Rest) -> list[dict[str, Any]]:
    """Return every MutatingWebhookConfiguration, with the kind that lists omit."""
    return await rest.list_all(CONFIGURATIONS, kind="MutatingWebhookConfiguration")


async def read_called(rest: Rest, traced: Traced) -> dict[str, tuple[str, ...]]:
    """Return who may change its writes, by subresource; {} where webhooks may not be listed."""
    with suppress(RefusedError):
        documents = await configurations(rest)
        called = acting(documents, traced, "CREATE", "UPDATE")
        return {"": called, "status": acting(documents, traced, "UPDATE", subresource="status")}
    return {}


async def check_rights(rest: Rest) -> None:
    """Raise NoTargetError unless all that a trace does with registrations is allowed.

    Checked before the first is created: without the right to delete, it would be left behind.
    """
    group, resource = "admissionregistration.k8s.io", "mutatingwebhookconfigurations"
    missing = []
    for verb in _NEEDED:
        attributes = {"verb": verb, "group": group, "resource": resource}
        answer = await ask(rest, "SelfSubjectAccessReview", {"resourceAttributes": attributes})
        if not answer.get("allowed"):
            missing.append(verb)
    if missing:
        wanted = "a trace must list, create and delete them"
        raise NoTargetError(f"you may not {' or '.join(missing)} {resource}.{group}; {wanted}")


def this_process() -> str:
    """Return the identity of this process: boot of the machine, namespace of pids, and pid.

    "" where that is not known, as on macOS.
    """
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        return f"{boot} {Path('/proc/self/ns/pid').readlink()} {os.getpid()}"
    except OSError:
        return ""


def has_ended(owner: str) -> bool:
    """Whether a process is known to have ended; False when that is unknown."""
    where, _, pid = owner.rpartition(" ")
    if not where or where != this_process().rpartition(" ")[0] or not pid.isdigit():
        return False
    try:
        os.kill(int(pid), 0)
    except OSError as error:  # not permitted: it is another user's
        return isinstance(error, ProcessLookupError)
    return False


class StillRegisteredError(Exception):
    """Registrations of a trace could not be removed; the message says how to remove them."""

    def __init__(self, run: str, reason: str) -> None:
        super().__init__(
            f"registrations are left behind ({reason}); they change nothing and hold up writes of "
            "this object at most for seconds. Remove them with: "
            f"kubectl delete mutatingwebhookconfigurations -l {RUN_LABEL}={run}"
        )


async def remove(rest: Rest, run: str, patience: float = _PATIENCE_SECONDS) -> None:
    """Delete all registrations of a run, again and again, until a list shows none.

    Raises StillRegisteredError.
    """

    async def left() -> str:
        # List again after each deletion: only an empty list proves it.
        found = await rest.list_all(CONFIGURATIONS, {"labelSelector": f"{RUN_LABEL}={run}"})
        return "they do not go away" if await delete(rest, found) else ""

    try:
        await until(left, patience)
    except (NotInTimeError, RefusedError) as error:
        raise StillRegisteredError(run, str(error)) from error


async def clean_up(rest: Rest, *, everything: bool = False) -> list[str]:
    """Delete registrations that other runs left behind; return their names.

    One that has expired, or whose process has ended, is left behind; with `everything`, each of
    them is.
    """
    now = datetime.now(UTC)

    def is_leftover(document: dict[str, Any]) -> bool:
        owner = (document["metadata"].get("annotations") or {}).get(OWNER, "")
        return everything or has_expired(document, now) or has_ended(owner)

    found = [
        configuration
        for configuration in await configurations(rest)
        if is_observer(configuration) and is_leftover(configuration)
    ]
    return await delete(rest, found)


async def delete(rest: Rest, documents: Iterable[Mapping[str, Any]]) -> list[str]:
    """Delete these objects, by uid; return their names. Raises RefusedError or UNREACHED."""
    names = []
    for document in documents:
        metadata = document["metadata"]
        options = {"preconditions": {"uid": metadata["uid"]}}
        try:
            await rest.call("DELETE", f"{CONFIGURATIONS}/{metadata['name']}", options)
        except RefusedError as error:
            if error.status not in (HTTPStatus.NOT_FOUND, HTTPStatus.CONFLICT):
                raise
        names.append(metadata["name"])
    return names


async def send_dry_runs(
    rest: Rest, traced: Traced, tell: Callable[[str], None], over: asyncio.Event
) -> None:
    """Send dry runs to the object and its status until it is `over`; `tell` each new refusal once.

    Again and again: the API server takes a moment to know the observers.
    """
    reported = ""
    while not over.is_set():
        for subresource in traced.subresources:
            try:
                await _send_dry_run(rest, traced, subresource)
            except (RefusedError, *UNREACHED) as error:
                reason = f"--poke: {str(error) or type(error).__name__}"
                if reason != reported:
                    tell(reason)
                reported = reason
        with suppress(TimeoutError):
            async with asyncio.timeout(_EVERY_SECONDS):
                await over.wait()


async def try_creation(rest: Rest, traced: Traced) -> dict[str, Any]:
    """Create a copy as a dry run; return the `fields` that are not kept, or why it is `refused`."""
    path = traced.served.path(traced.namespace)
    try:
        stored = await rest.get(traced.path(), kind=traced.served.kind)
        sent = copy_of(stored, await _workload_of(rest, stored["metadata"]))
        made = await rest.call("POST", path, sent, params={"dryRun": "All"})
    except (RefusedError, *UNREACHED) as error:
        return {"refused": str(error) or type(error).__name__}
    return {"fields": taken(sent, made)}


async def try_samples(
    rest: Rest,
    kinds: Sequence[Served],
    registered: Sequence[Registration],
    own: str,
    refused: dict[str, list[str]],
) -> list[Tried]:
    """Create complete objects as dry runs, and return which fields are lost where.

    own      the namespace that is preferred
    refused  gets what could not be created, by the reason
    """
    version = await server_version(rest)
    namespaces: dict[str, Mapping[str, str] | None] = {own: None}
    try:
        listed = await rest.list_all("/api/v1/namespaces", only_metadata=True)
        every = [item["metadata"] for item in listed if "deletionTimestamp" not in item["metadata"]]
        every.sort(key=lambda namespace: namespace["name"] != own)
        namespaces = {namespace["name"]: namespace.get("labels") or {} for namespace in every}
    except RefusedError as error:
        refused[str(error)] = [f"anything outside namespace {own}"]
    labels = {"app.kubernetes.io/name": "genguard-scan"}
    for registration in registered:
        labels |= (registration.match.objects or {}).get("matchLabels") or {}
    metadata = {"generateName": "genguard-scan-", "labels": labels}
    slot, params = asyncio.Semaphore(_AT_ONCE), {**_PARAMS, "fieldManager": "genguard-scan"}
    ends = asyncio.get_running_loop().time() + _PATIENCE_SECONDS

    async def send(site: Site, sample: dict[str, Any]) -> list[Tried]:
        sent, path = {**sample, "metadata": metadata}, site.of.path(site.namespace)
        try:
            async with slot, asyncio.timeout_at(ends):
                made = await rest.call("POST", path, sent, params=params)
        except (RefusedError, *UNREACHED) as error:
            is_right = isinstance(error, RefusedError) and error.missing_right
            why = _NO_RIGHT if is_right else str(error) or "it was not answered in time"
            refused.setdefault(why, []).append(f"{site.of} in {site.namespace}")
            return []
        return [(site, lost_fields(site.of, sent, made))]

    sending = (
        send(site, sample)
        for of, sample in samples_of(kinds, version)
        for site in sites(of, labels, namespaces, registered)
    )
    return [result for each in await asyncio.gather(*sending) for result in each]


async def _workload_of(rest: Rest, metadata: Mapping[str, Any]) -> Any:
    """Return the workload that owns a pod; {} where there is none that may be read."""
    for reference in metadata.get("ownerReferences") or ():
        group, _, version = reference["apiVersion"].rpartition("/")
        kind = group, version, f"{reference['kind'].lower()}s"
        with suppress(RefusedError):
            at = collection_path(*kind, metadata.get("namespace", ""))
            return await rest.get(f"{at}/{quote(reference['name'], safe=':')}")
    return {}


async def _send_dry_run(rest: Rest, traced: Traced, subresource: str) -> None:
    patches = [dict[str, Any]()]
    has_status = traced.served.has_status
    if subresource == "status" or not has_status:
        reported = status_as_reported(await rest.get(traced.path()), status=has_status)
        # Some kinds have a text there. Webhooks are called for the empty patch as well.
        patches = [reported, *patches] if reported else patches
    for patch in patches:
        try:
            await rest.call(
                "PATCH", traced.path(subresource), patch, params=_PARAMS, content_type=MERGE_PATCH
            )
        except RefusedError as error:
            if not patch or error.status not in _NOT_OF_THIS_TYPE:
                raise
        else:
            return
