"""One active pod and others that stand by, without a store in common: `serve --standby`.

The pod of the leader has the label genguard.io/active, which the Service selects. So all calls of a
write reach one pod, and a standby takes over by leading: it gives the label to itself, and then
takes it from every other pod, because the pod of a node that has vanished cannot.

A standby follows the pods. It takes the Lease at once when the holder's pod is gone, is being
deleted or is not ready, if it is ready itself; otherwise when the Lease has run out. A Lease that
nobody holds is left to a pod that is ready: one that is just starting answers nobody yet.

A kubelet reports the end of a process up to a second later. So a standby is also connected to the
active pod: a process that ends closes its connections, and its port refuses the next one.

While the API server does not answer, no label changes, and the active pod goes on to answer.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Collection, Mapping
from contextlib import asynccontextmanager, closing, suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from webhook.cluster.lease import LeaseElection
from webhook.cluster.rest import MERGE_PATCH, UNREACHED, RefusedError, Rest
from webhook.cluster.watch import follow, watch_collection
from webhook.election.leader import TICK_SECONDS
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

ACTIVE: Final = "genguard.io/active"
"""The label that the Service of manifests/standby selects."""
OURS: Final = "app.kubernetes.io/name=genguard"
"""Selects the pods of genguard, in its namespace."""
_CALL_SECONDS: Final = 2.0
_KEEP_SECONDS: Final = 30.0
"""How long an active pod that cannot renew its Lease keeps its clients. While the API server is
slow, a new TLS connection for each review would make it slower. If the API server reaches this pod,
but this pod not the API server, another pod is active by then."""
_PORT: Final = "webhook"
"""The name of the port to which a standby is connected."""
_LISTEN_SECONDS: Final = 10.0
"""How long one connection is listened to: a node that vanishes never closes it. The active pod
closes it before, because nothing is sent (`Limits.handshake_seconds`)."""
_RECONNECT_SECONDS: Final = 0.1


class Pod(NamedTuple):
    """A pod of genguard.

    can_answer  it is ready, and not being deleted
    is_active   it has the label
    address     host and port of its webhook; None before it has an IP address
    """

    name: str
    can_answer: bool
    is_active: bool
    address: tuple[str, int] | None = None


def read_pod(document: Mapping[str, Any]) -> Pod:
    """Read a Pod as the API server has it."""
    metadata = document["metadata"]
    status = document.get("status") or {}
    conditions = status.get("conditions") or ()
    is_ready = any(one["type"] == "Ready" and one["status"] == "True" for one in conditions)
    containers = (document.get("spec") or {}).get("containers") or ()
    ports = [port for one in containers for port in one.get("ports") or ()]
    port = next((one["containerPort"] for one in ports if one.get("name") == _PORT), None)
    host = status.get("podIP")
    return Pod(
        metadata["name"],
        is_ready and "deletionTimestamp" not in metadata,
        (metadata.get("labels") or {}).get(ACTIVE) == "true",
        (host, port) if host and port else None,
    )


def pod_of(identity: str) -> str:
    """The name of the pod in an identity (`server_identity`)."""
    return identity.rpartition("_")[0]


def is_over(pods: Collection[Pod], own: str, holder: str) -> bool:
    """Whether `own` takes the Lease of a pod that still holds it: it can answer, the other cannot.

    A holder with the name of `own` is the process that ran in this pod before.
    """
    can_answer = {one.name for one in pods if one.can_answer}
    if holder == own:
        return not can_answer - {own}
    return own in can_answer and holder not in can_answer


def leaves(pods: Collection[Pod], own: str, holder: str) -> bool:
    """Whether `own` leaves a Lease that is free to another pod, because it cannot answer itself."""
    can_answer = {one.name for one in pods if one.can_answer}
    return own not in can_answer and bool(can_answer - {holder})


async def outlives(host: str, port: int) -> bool:
    """Stay connected to a process; return True once it has ended, False if that is not known.

    It has ended when a connection was open and the next one is refused. One that was never open
    says nothing: a firewall may refuse it.
    """
    was_connected = False
    while True:
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                reader, writer = await asyncio.open_connection(host, port)
        except ConnectionRefusedError:
            return was_connected
        except (OSError, TimeoutError):
            return False
        was_connected = True
        with closing(writer), suppress(OSError, TimeoutError):
            async with asyncio.timeout(_LISTEN_SECONDS):
                await reader.read(1)
        await asyncio.sleep(_RECONNECT_SECONDS)


class Pods:
    """The pods of genguard as they were seen last; the Succession of a LeaseElection."""

    def __init__(self, rest: Rest, namespace: str, own: str) -> None:
        """`own` is the name of this replica's pod."""
        self._rest: Final = rest
        self._path: Final = f"/api/v1/namespaces/{namespace}/pods"
        self._own: Final = own
        self._seen: tuple[Pod, ...] = ()
        self._ended = ""
        """The identity of the process that was seen to end last."""
        self._is_failing = False
        self.changed: Final = asyncio.Event()
        """Set when the pods have changed; cleared by who waits for it."""

    @asynccontextmanager
    async def followed(self, supervisor: Supervisor) -> AsyncIterator[None]:
        """Follow the pods while the context is entered."""

        def states() -> AsyncIterator[tuple[Pod, ...]]:
            return watch_collection(
                self._rest, self._path, read_pod, supervisor, labelSelector=OURS
            )

        following = {"watch of own pods": lambda: follow(states, self._see, _log_trouble)}
        async with supervisor.running(following):
            yield

    def _see(self, pods: tuple[Pod, ...]) -> None:
        if pods != self._seen:
            self._seen = pods
            self.changed.set()

    async def see_end(self, holder: str) -> bool:
        """Wait until this process has ended. Returns False if that cannot be seen."""
        address = next((one.address for one in self._seen if one.name == pod_of(holder)), None)
        if address is None or not await outlives(*address):
            return False
        self._ended = holder
        self.changed.set()
        return True

    async def is_over(self, holder: str) -> bool:
        """As `is_over`; raises as Rest does."""
        return await self._holds(is_over, holder)

    async def leaves(self, holder: str) -> bool:
        """As `leaves`; raises as Rest does."""
        return await self._holds(leaves, holder)

    async def _holds(self, rule: Callable[[Collection[Pod], str, str], bool], holder: str) -> bool:
        """Whether a rule holds. What a watch has shown may be old: the pods are read before."""
        named = pod_of(holder)
        if not rule(self._alive(holder), self._own, named):
            return False
        await self._read()
        return rule(self._alive(holder), self._own, named)

    def _alive(self, holder: str) -> list[Pod]:
        """The pods, without the holder's where its process has been seen to end."""
        ended = pod_of(holder) if holder == self._ended else ""
        return [one for one in self._seen if one.name != ended]

    async def _read(self) -> None:
        listed = await self._rest.get(self._path, labelSelector=OURS)
        self._seen = tuple(read_pod(one) for one in listed.get("items") or ())

    async def mark(self, *, reads: bool) -> None:
        """Give the label to the own pod, then take it from all others. Never raises.

        reads  read the pods before: they may not be known yet
        """
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if reads:
                    await self._read()
                for one in sorted(self._seen, key=lambda one: one.name != self._own):
                    if one.is_active is not (one.name == self._own):
                        await self._label(one.name, None if one.is_active else "true")
            self._is_failing = False
        except (RefusedError, *UNREACHED) as error:
            if not self._is_failing:
                facts = {"reason": str(error) or type(error).__name__}
                LOGGER.warning("active pod not labelled", extra={"facts": facts})
            self._is_failing = True

    async def _label(self, pod: str, value: str | None) -> None:
        body = {"metadata": {"labels": {ACTIVE: value}}}
        try:
            path = f"{self._path}/{pod}"
            await self._rest.call("PATCH", path, body, content_type=MERGE_PATCH)
        except RefusedError as error:
            if error.status != HTTPStatus.NOT_FOUND or pod == self._own:
                raise


def _log_trouble(reason: str) -> None:
    LOGGER.warning("own pods not watched", extra={"facts": {"reason": reason}})


class StandbyElection:
    """The LeaderElection of replicas of which one is active."""

    def __init__(self, lease: LeaseElection, pods: Pods) -> None:
        """`pods` is the Succession of `lease`."""
        self._lease: Final = lease
        self._pods: Final = pods
        self.wake: Final = pods.changed

    @property
    def is_leader(self) -> bool:
        """Whether this replica is active."""
        return self._lease.is_leader

    @property
    def keeps_clients(self) -> bool:
        """Whether clients may keep their connections to this replica."""
        return self._lease.has_renewed_within(_KEEP_SECONDS)

    @property
    def vacant_since(self) -> float:
        """As LeaseElection."""
        return self._lease.vacant_since

    @property
    def active(self) -> str:
        """The name of the pod that was active last; "" where none is known."""
        return pod_of(self._lease.holder)

    async def stay_connected(self) -> None:
        """Stay connected to the active pod while this one stands by, to see its process end."""
        while True:
            holder = self._lease.holder
            if not holder or self.is_leader or not await self._pods.see_end(holder):
                await asyncio.sleep(TICK_SECONDS)

    async def tick(self) -> None:
        """Take or renew the Lease if that is due; as its holder, put the labels right."""
        led = self._lease.is_leader
        if await self._lease.renew():
            await self._pods.mark(reads=not led)

    async def release(self) -> None:
        """Release the Lease; the label stays until another replica leads."""
        await self._lease.release()
