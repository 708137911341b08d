"""Follows what the server watches in its cluster.

That is what the engine must know: version, CRDs, mutating webhooks and policies, so that a new
custom resource is judged correctly from its first object on; and kinds and versions of objects. No
admission answer waits for any of this.
"""

import asyncio
import contextlib
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

import msgspec

from genguard.admission.matching import (
    BINDING,
    NAME_LABEL,
    POLICY,
    read_configurations,
    read_policies,
)
from genguard.detection.suspects import Suspects
from genguard.generation.custom import BadDefinitionError, CustomResource, from_definition
from genguard.objects.served import resource_name
from genguard.versions import NEVER_AT_REST, SENT_TO_NO_WEBHOOK, Versions
from webhook.cluster.coverage import Coverage
from webhook.cluster.discovery import collection_path, path_if_served
from webhook.cluster.reconcile import NEVER, Reconciler
from webhook.cluster.rest import RefusedError, Rest
from webhook.cluster.watch import Change, ChangeKind, Collection, Locate, follow, informing, keeping
from webhook.tasks.clock import CLOCK
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

if TYPE_CHECKING:  # verbs that follow a cluster have none of these
    from genguard.review_setup import ReviewSetup
    from webhook.telemetry.metrics import Metrics

_DEFINITIONS: Final = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
ADMISSION: Final = "admissionregistration.k8s.io"
_WEBHOOKS: Final = f"/apis/{ADMISSION}/v1/mutatingwebhookconfigurations"
_REGISTRATIONS: Final = f"/apis/{ADMISSION}/v1/validatingwebhookconfigurations"
_NAMESPACES: Final = "/api/v1/namespaces"
POLICY_PLURALS: Final = {
    POLICY: "mutatingadmissionpolicies",
    BINDING: "mutatingadmissionpolicybindings",
}
_FIRST_FACTS_SECONDS: Final = 10.0
_LISTED_AT_ONCE: Final = 4
"""Kinds: each has a page of its objects in memory meanwhile."""
_REFUSED_SECONDS: Final = 120.0
"""Until it is asked again whether a kind may be read: a role may have been given meanwhile."""


async def definitions(rest: Rest) -> list[dict[str, Any]]:
    """Return every CustomResourceDefinition. Raises RefusedError or one of UNREACHED."""
    return await rest.list_all(_DEFINITIONS)


class _Version(msgspec.Struct, rename="camel"):
    git_version: str
    emulation_major: str = ""
    emulation_minor: str = ""


async def server_version(rest: Rest) -> str:
    """Return the version whose rules hold: the emulated one where the server has one (KEP-4330).

    Raises RefusedError or one of UNREACHED.
    """
    version = msgspec.convert(await rest.get("/version"), _Version)
    if version.emulation_major and version.emulation_minor:
        return f"{version.emulation_major}.{version.emulation_minor}"
    return version.git_version


def _versions(definition: dict[str, Any]) -> tuple[CustomResource, ...]:
    try:
        return from_definition(definition)
    except BadDefinitionError:
        return ()  # accepted by the API server, but not readable here: an unknown resource


def _labels(namespace: dict[str, Any]) -> Mapping[str, str]:
    metadata = namespace["metadata"]
    return {**(metadata.get("labels") or {}), NAME_LABEL: metadata["name"]}


@asynccontextmanager
async def follow_cluster(
    rest: Rest,
    setup: "ReviewSetup",
    suspects: Suspects,
    *,
    coverage: Coverage,
    metrics: "Metrics",
    supervisor: Supervisor,
) -> AsyncIterator[None]:
    """Have `setup`, `suspects` and `coverage` learn what the cluster has, at each change, too.

    Waits ten seconds at most for version and CRDs: a webhook must start while the API server is
    down, since the API server may be waiting for the webhook.
    """
    has_facts = asyncio.Event()
    version = ""

    async def definitions_path() -> str:
        nonlocal version
        version = await server_version(rest)
        return _DEFINITIONS

    def on_definitions(found: tuple[tuple[CustomResource, ...], ...]) -> None:
        custom = coverage.custom = tuple(one for versions in found for one in versions)
        for resource, reason in setup.learn(version, custom).items():
            about = {"resource": resource, "reason": reason}
            LOGGER.warning("status is not flipped", extra={"facts": about})
        if not has_facts.is_set():
            known = {"version": version, "customResources": len(custom)}
            LOGGER.info("cluster connected", extra={"facts": known})
        has_facts.set()
        coverage.changed()

    def on_webhooks(found: tuple[Mapping[str, Any], ...]) -> None:
        suspects.learn(registered=read_configurations(found))

    # A policy acts through its bindings: a change of either is a change of both.
    bound: dict[str, tuple[Mapping[str, Any], ...]] = {}

    def on_policies(kind: str, found: tuple[Mapping[str, Any], ...]) -> None:
        bound[kind] = found
        if len(bound) == len(POLICY_PLURALS):
            suspects.learn(policies=read_policies((*bound[POLICY], *bound[BINDING])))

    metrics.gauge("genguard_cluster_known", lambda: float(has_facts.is_set()))
    followed: dict[str, tuple[str | Locate, Callable[[Change], None]]] = {
        "custom resources": (definitions_path, keeping(_versions, on_definitions, supervisor)),
        "webhooks": (_WEBHOOKS, keeping(dict, on_webhooks, supervisor)),
        "registrations": (_REGISTRATIONS, keeping(dict, coverage.learn_hooks, supervisor)),
        "namespaces": (_NAMESPACES, keeping(_labels, coverage.learn_namespaces, supervisor)),
    }
    for kind, plural in POLICY_PLURALS.items():  # v1 is served since 1.36
        served = partial(path_if_served, rest, f"{plural}.{ADMISSION}")
        followed[plural] = served, keeping(dict, partial(on_policies, kind), supervisor)
    async with AsyncExitStack() as stack:
        for what, (path, on_change) in followed.items():
            found, message = Collection(rest, path), "cluster not reached"
            await stack.enter_async_context(
                informing(f"watch of {what}", found, on_change, supervisor, message=message)
            )
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(_FIRST_FACTS_SECONDS):
                await has_facts.wait()
        yield


def see_versions(resource: str, versions: Versions, supervisor: Supervisor, change: Change) -> None:
    """Have the version of an object judged that a watch has shown: see genguard/versions.py.

    resource  as kubectl names it: services, deployments.apps
    """
    if change.what is ChangeKind.GONE:
        versions.gone(change.uid)
    elif change.what is ChangeKind.SEEN and not change.is_cut:
        with supervisor.guard(f"versions of {resource}"):
            versions.see(resource.partition(".")[0], change.object, CLOCK.now())


class VersionWatch:
    """Judges versions of kinds that are watched: what no webhook is sent, nodes, custom resources.

    Watches begin and end as custom resources come and go. What is never at rest is left out.
    """

    def __init__(
        self,
        rest: Rest,
        more: Iterable[str],
        versions: Versions,
        coverage: Coverage,
        supervisor: Supervisor,
    ) -> None:
        """`more` kinds, as kubectl names them; what may be read is noted in `coverage`."""
        self._rest: Final = rest
        self._always: Final = frozenset((*SENT_TO_NO_WEBHOOK, "nodes", *more))
        self._versions: Final = versions
        self._coverage: Final = coverage
        self._supervisor: Final = supervisor
        self._troubles: Final[Counter[str]] = Counter()
        """How often it went wrong in a row, by kind; refusals by group."""
        self._listing: Final = asyncio.Semaphore(_LISTED_AT_ONCE)

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Watch while entered."""
        following = Reconciler("kinds to watch", self._step)
        self._coverage.changed = following.wake
        try:
            async with following.running(self._supervisor):
                yield
        finally:
            await self._end(tuple(self._coverage.watched))

    async def _step(self) -> float:
        custom = {resource_name(one.group, one.resource) for one in self._coverage.custom}
        wanted, watched = (self._always | custom) - NEVER_AT_REST, self._coverage.watched
        await self._end([one for one in watched if one not in wanted])
        for one in sorted(wanted - watched.keys()):
            # A definition is there before what it defines is served: that is soon tried again.
            locate = path_if_served if one in self._always else collection_path
            found = Collection(self._rest, partial(locate, self._rest, one))
            seen = partial(see_versions, one, self._versions, self._supervisor)
            changes, trouble = partial(self._changes, one, found), partial(self._warn, one)
            follows = partial(follow, changes, seen, trouble)
            watched[one] = True
            self._supervisor.start(_task(one), follows, on_failure=found.forget_place)
        return NEVER

    async def _end(self, kinds: Sequence[str]) -> None:
        await self._supervisor.end([_task(one) for one in kinds])
        for one in kinds:
            del self._coverage.watched[one]

    async def _changes(self, kind: str, found: Collection) -> AsyncIterator[Change]:
        """Yield the changes; a few kinds are listed at once, and a refusal ends a long pause."""
        group = kind.partition(".")[2]
        async with AsyncExitStack() as listing:
            await listing.enter_async_context(self._listing)
            try:
                async for change in found.changes():
                    if change.what is ChangeKind.CAUGHT_UP:
                        await listing.aclose()
                        self._coverage.watched[kind] = True
                        self._troubles[kind] = self._troubles[group] = 0
                    yield change
            except RefusedError as error:
                if error.status != HTTPStatus.FORBIDDEN:
                    raise
                await listing.aclose()
                self._coverage.watched[kind] = False
                self._warn(group, "it may not be read: genguard install", lasting=1)
                await asyncio.sleep(_REFUSED_SECONDS)

    def _warn(self, what: str, reason: str, lasting: int = 3) -> None:
        """Log a trouble once: where it lasts."""
        self._troubles[what] += 1
        if self._troubles[what] == lasting:
            facts = {"resource": what, "reason": reason}
            LOGGER.warning("objects not watched", extra={"facts": facts})


def _task(kind: str) -> str:
    return f"versions of {kind}"
