"""Which pods are behind the Service, by the label genguard.io/active: `serve --standby`.

The Service selects that label, and the leader decides who has it. Without a store in common it is
the leader alone: so all calls of a write reach one pod, and a standby takes over by leading. It
gives the label to itself, and then takes it from every other pod, because the pod of a node that
has vanished cannot. With a shared store it is every pod that the leader reaches: a node that
vanishes is ready for its API server for another 40 seconds.

Each replica watches the pods. It takes the Lease at once when the holder's pod is gone, is being
deleted or is not ready, if it is ready itself; otherwise when the Lease has run out. A Lease that
nobody holds is left to a pod that is ready: one that is just starting answers nobody yet.

A kubelet reports the end of a process up to a second later. So each replica is also connected to
the others: a process that ends closes its connections, and its port refuses the next one.

While the API server does not answer, no label changes, and those behind the Service go on.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Iterable, Mapping
from contextlib import asynccontextmanager, closing, suppress
from http import HTTPStatus
from typing import Any, Final, NamedTuple

from webhook.cluster.lease import LeaseElection
from webhook.cluster.rest import MERGE_PATCH, UNREACHED, RefusedError, Rest, if_there
from webhook.cluster.watch import Collection, informing, keeping
from webhook.tasks.supervisor import Supervisor
from webhook.telemetry.logs import LOGGER

ACTIVE: Final = "genguard.io/active"
"""The label that the Service of manifests/standby selects."""
OURS: Final = {"labelSelector": "app.kubernetes.io/name=genguard"}
"""Selects the pods of genguard, in its namespace."""
_CALL_SECONDS: Final = 2.0
_KEEP_SECONDS: Final = 30.0
"""How long an active pod that cannot renew its Lease keeps its clients. While the API server is
slow, a new TLS connection for each review would make it slower. If the API server reaches this pod,
but this pod not the API server, another pod is active by then."""
_PORT: Final = "webhook"
"""The name of the port to which other replicas connect."""
_OPS: Final = "ops"
"""The name of the port that shows pages."""
_LISTEN_SECONDS: Final = 1.0
"""How long one connection is listened to: a node that vanishes never closes it."""
_RECONNECT_SECONDS: Final = 0.1


class Pod(NamedTuple):
    """A pod of genguard.

    can_answer  it is ready, and not being deleted
    is_active   it has the label
    address     host and port of its webhook; None before it has an IP address
    ops         the port of its pages
    """

    name: str
    can_answer: bool
    is_active: bool
    address: tuple[str, int] | None = None
    ops: int | None = None


def read_pod(document: Mapping[str, Any]) -> Pod:
    """Read a Pod as the API server has it."""
    metadata = document["metadata"]
    status = document.get("status") or {}
    conditions = status.get("conditions") or ()
    is_ready = any(
        condition["type"] == "Ready" and condition["status"] == "True" for condition in conditions
    )
    containers = (document.get("spec") or {}).get("containers") or ()
    ports = [port for container in containers for port in container.get("ports") or ()]
    named = {port.get("name"): int(port["containerPort"]) for port in ports}
    host, port = status.get("podIP"), named.get(_PORT)
    return Pod(
        metadata["name"],
        is_ready and "deletionTimestamp" not in metadata,
        (metadata.get("labels") or {}).get(ACTIVE) == "true",
        (host, port) if host and port else None,
        named.get(_OPS),
    )


def pod_of(identity: str) -> str:
    """The name of the pod in an identity (`server_identity`)."""
    return identity.rpartition("_")[0]


def may_take(pods: Iterable[Pod], own: str, holder: str, *, is_free: bool) -> bool:
    """Whether `own` takes the Lease: it can answer, and its holder cannot or holds it no more.

    A holder with the name of `own` is the process that ran in this pod before. Where no other pod
    can answer, one that cannot answer either takes what is free, or was its own.
    """
    can_answer = {pod.name for pod in pods if pod.can_answer}
    if is_free:
        return own in can_answer or not can_answer - {holder}
    if holder == own:
        return not can_answer - {own}
    return own in can_answer and holder not in can_answer


async def connects(host: str, port: int) -> bool | None:
    """Connect, and stay connected for a second. Return whether that could be done.

    Returns None if nobody answers in time. False is a port that refuses: no process has it open.
    """
    try:
        async with asyncio.timeout(_CALL_SECONDS):
            reader, writer = await asyncio.open_connection(host, port)
    except ConnectionRefusedError:
        return False
    except (OSError, TimeoutError):
        return None
    with closing(writer), suppress(OSError, TimeoutError):
        async with asyncio.timeout(_LISTEN_SECONDS):
            await reader.read(1)
    return True


class StandbyElection(LeaseElection):
    """The election of replicas; the leader says who is behind the Service."""

    def __init__(
        self,
        rest: Rest,
        namespace: str,
        lease: str,
        identity: str,
        clock: Callable[[], float] = time.monotonic,
        *,
        all_answer: bool = False,
    ) -> None:
        """`identity` and `clock` as for LeaseElection.

        all_answer  every pod that is reached has the label, else only the leader's
        """
        super().__init__(rest, namespace, lease, identity, clock)
        self._rest: Final = rest
        self._pods_path: Final = f"/api/v1/namespaces/{namespace}/pods"
        self._own: Final = pod_of(identity)
        self._all_answer: Final = all_answer
        self._seen_pods: tuple[Pod, ...] = ()
        self._reached: dict[str, bool | None] = {}
        """Pods that were connected to, and the last answer of `connects`. One that never was says
        nothing: a firewall may refuse it."""
        self._is_failing = False

    @property
    def keeps_clients(self) -> bool:
        """Whether clients may keep their connections to this replica."""
        return self.has_renewed_within(_KEEP_SECONDS)

    @property
    def active(self) -> str:
        """The name of the pod that was active last; "" where none is known."""
        return pod_of(self.holder)

    @property
    def active_ops(self) -> tuple[str, int] | None:
        """Where the pages of the active pod are; None where that is this pod, or not known."""
        pod = next((pod for pod in self._seen_pods if pod.name == self.active), None)
        if self.is_leader or pod is None or pod.address is None or pod.ops is None:
            return None
        return pod.address[0], pod.ops

    @asynccontextmanager
    async def taking_part(self, supervisor: Supervisor) -> AsyncIterator[None]:
        """Take part, and watch the pods, while the context is entered."""
        pods = Collection(self._rest, self._pods_path, **OURS)
        on_change = keeping(read_pod, self.see, supervisor)
        async with (
            informing("watch of own pods", pods, on_change, supervisor),
            supervisor.running({"connections to other pods": self._stay_connected}),
            super().taking_part(supervisor),
        ):
            yield

    def see(self, pods: tuple[Pod, ...]) -> None:
        """Take in the pods as they are now."""
        if pods != self._seen_pods:
            self._seen_pods = pods
            known = {pod.name for pod in pods}
            self._reached = {name: said for name, said in self._reached.items() if name in known}
            self._taking.wake()

    async def _stay_connected(self) -> None:
        while True:
            connecting = map(self.connect, self._seen_pods)
            await asyncio.gather(*connecting, asyncio.sleep(_RECONNECT_SECONDS))

    async def connect(self, pod: Pod) -> None:
        """Connect to another pod, and note whether it is reached."""
        if pod.address is None or pod.name == self._own:
            return
        before = self._reached.get(pod.name)
        found = await connects(*pod.address)
        if found is not before and (found or pod.name in self._reached):
            self._reached[pod.name] = found
            self._taking.wake()

    async def tick(self) -> bool:
        """Take or renew the Lease if that is due; as its holder, put the labels right."""
        led = self.is_leader
        holds = await super().tick()
        if holds:
            await self._mark(reads=not led)
        return holds

    async def _is_free(self, holder: str, *, has_run_out: bool) -> bool:
        is_free, named = not holder or has_run_out, pod_of(holder)
        if may_take(self._alive(), self._own, named, is_free=is_free) is is_free:
            return is_free
        await self._read()  # what a watch has shown may be old
        return may_take(self._alive(), self._own, named, is_free=is_free)

    def _alive(self) -> list[Pod]:
        """The pods, without those whose process has been seen to end."""
        return [pod for pod in self._seen_pods if self._reached.get(pod.name) is not False]

    async def _read(self) -> None:
        self.see(tuple(map(read_pod, await self._rest.list_all(self._pods_path, OURS))))

    async def _mark(self, *, reads: bool) -> None:
        """Give the label to the pods that are to answer, then take it from others. Never raises.

        reads  read the pods before: they may not be known yet
        """
        try:
            async with asyncio.timeout(_CALL_SECONDS):
                if reads:
                    await self._read()
                for pod in sorted(self._seen_pods, key=lambda pod: not self._answers(pod)):
                    if pod.is_active is not self._answers(pod):
                        await self._label(pod)
            self._is_failing = False
        except (RefusedError, *UNREACHED) as error:
            if not self._is_failing:
                fields = {"reason": str(error) or type(error).__name__}
                LOGGER.warning("active pod not labelled", extra={"fields": fields})
            self._is_failing = True

    def _answers(self, pod: Pod) -> bool:
        """Whether a pod is to have the label.

        With `all_answer` every pod that is reached has it. Where most are silent, this pod is cut
        off, or all are busy: then only pods whose process has ended lose it.
        """
        if pod.name == self._own or not self._all_answer:
            return pod.name == self._own
        said = self._reached.get(pod.name, True)
        silent = sum(1 for answer in self._reached.values() if answer is None)
        return said is True or (said is None and 2 * silent > len(self._seen_pods))

    async def _label(self, pod: Pod) -> None:
        """Put a pod behind the Service, or take it from there."""
        body = {"metadata": {"labels": {ACTIVE: None if pod.is_active else "true"}}}
        path = f"{self._pods_path}/{pod.name}"
        found = await if_there(self._rest.call("PATCH", path, body, content_type=MERGE_PATCH))
        if found is None and pod.name == self._own:
            raise RefusedError(HTTPStatus.NOT_FOUND, f"there is no pod {pod.name}")
        if self._all_answer and pod.can_answer:
            done = "removed from" if pod.is_active else "added to"
            LOGGER.info(f"replica {done} the Service", extra={"fields": {"pod": pod.name}})
