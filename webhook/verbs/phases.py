"""Installing, done: four phases, each of which is proven before the next.

server     1  namespace, rights, Secret, Deployment, Service; waits for the rollout, and until the
              pods that it replaces have ended
reach      2  the API server itself must reach it, over TLS, by the bundle it will be known by
register   3  registered for a trial namespace alone; a probe must be seen in every phase of a write
widen      4  registered for the cluster; a probe elsewhere must be seen in every phase, and
              answered in no other mode than the wanted one

Whatever ends 3 and 4 early, the registrations are put back as they were. A killed run leaves at
most registrations for a trial namespace; the next run finds them and goes on.
"""

import base64
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any, Final

from webhook.cluster.apply import apply, put_back, remove
from webhook.cluster.install_waits import (
    leaving,
    until_bundle,
    until_mode,
    until_replaced,
    until_rolled_out,
    until_seen,
)
from webhook.cluster.rest import Rest
from webhook.install.plan import Action
from webhook.install.registering import check, limited, trial_name, trial_namespace
from webhook.manifest.documents import mode_of
from webhook.manifest.kustomize import Document
from webhook.manifest.rendering import PHASES, phase_of, secret_of
from webhook.verbs.installation import InstallOptions, Prepared, connected

Tell = Callable[[str], None]

_WORKLOADS: Final = ("Deployment", "StatefulSet")
_ELSEWHERE: Final = "default"
"""A namespace that the API server itself sees to."""


async def run(prepared: Prepared, options: InstallOptions, tell: Tell) -> None:
    """Raise NotInTimeError, RefusedError or UNREACHED; what was registered is then as before."""
    async with connected(options.kubeconfig, options.context) as (rest, _):
        for document in prepared.leftovers:
            await remove(rest, document)
        work = _Work(rest, prepared, options.seconds, tell)
        await work.serve()
        bundle = None
        if options.choices.cert_manager:
            secret = secret_of(options.choices.namespace)
            bundle = await until_bundle(rest, secret, options.seconds)
        async with work.trial():
            await work.reach(bundle)
            async with work.undone():
                await work.register()
                await work.widen()
            await work.settle()


class _Work:
    """The four phases."""

    def __init__(self, rest: Rest, prepared: Prepared, seconds: float, tell: Tell) -> None:
        self._rest: Final = rest
        self._prepared: Final = prepared
        self._seconds: Final = seconds
        self._tell: Final = tell
        self._run: Final = prepared.run

    async def serve(self) -> None:
        """Phase 1: the server, without which the rest would only slow the cluster down."""
        steps = self._prepared.server
        if not steps:
            self._tell("1/4 the server runs outside the cluster")
            return
        self._tell("1/4 the server is put in place")
        for step in steps:
            if step.action is not Action.UNCHANGED:
                await apply(self._rest, step.document)
        for step in steps:
            if step.document["kind"] in _WORKLOADS:
                await until_rolled_out(self._rest, step.document, self._seconds)
        for deployment in self._deployments():
            if names := await leaving(self._rest, deployment):
                self._tell(f"    it is ready; {', '.join(names)} must end, half a minute or more")
            await until_replaced(self._rest, deployment, self._seconds)
        for step in self._prepared.dropped:
            await remove(self._rest, step.document)

    async def reach(self, bundle: bytes | None) -> None:
        """Phase 2: the API server asks it."""
        self._tell("2/4 the API server must reach it")
        outcome = next(one for one in self._wanted() if one["kind"].startswith("Validating"))
        probing = check(outcome, self._run)
        if bundle is not None:
            probing["webhooks"][0]["clientConfig"]["caBundle"] = base64.b64encode(bundle).decode()
        await apply(self._rest, probing)
        try:
            self._told(await self._seen(trial_name(self._run), ("outcome",)))
        finally:
            await remove(self._rest, probing)

    async def register(self) -> None:
        """Phase 3: those that are new are tried on the trial namespace alone."""
        new = [
            one
            for one, live in zip(self._wanted(), self._prepared.before, strict=True)
            if live is None
        ]
        if not new:
            self._tell("3/4 it is registered for the whole cluster already")
            return
        self._tell("3/4 it is registered for the trial namespace")
        for document in new:
            await apply(self._rest, limited(document, self._run))
        self._told(await self._seen(trial_name(self._run), [_phase(one) for one in new]))

    async def widen(self) -> None:
        """Phase 4: all three for the whole cluster."""
        self._tell("4/4 it is registered for the whole cluster")
        for document in self._wanted():
            await apply(self._rest, document)
        self._told(await self._seen(_ELSEWHERE, PHASES))

    async def settle(self) -> None:
        """The end of phase 4: whoever answers does so in the mode that was installed."""
        for deployment in self._deployments():
            mode = mode_of(deployment)
            await until_mode(self._rest, _ELSEWHERE, mode, self._seconds)
            self._tell(f"every pod that answers is {mode}")

    @asynccontextmanager
    async def trial(self) -> AsyncIterator[None]:
        """A namespace of this run alone, while it is needed."""
        document = trial_namespace(self._run)
        await apply(self._rest, document)
        try:
            yield
        finally:
            await remove(self._rest, document)

    @asynccontextmanager
    async def undone(self) -> AsyncIterator[None]:
        """Unless all goes well, the registrations are put back as they were."""
        try:
            yield
        except BaseException:
            self._tell("the registrations are put back as they were")
            pairs = zip(self._wanted(), self._prepared.before, strict=True)
            for document, live in pairs:
                await (remove(self._rest, document) if live is None else put_back(self._rest, live))
            raise

    def _wanted(self) -> list[Document]:
        return [step.document for step in self._prepared.registrations]

    def _deployments(self) -> list[Document]:
        documents = [step.document for step in self._prepared.server]
        return [one for one in documents if one["kind"] == "Deployment"]

    async def _seen(self, namespace: str, phases: Sequence[str]) -> str:
        run = self._run if namespace != _ELSEWHERE else ""
        return await until_seen(self._rest, namespace, phases, self._seconds, run)

    def _told(self, refused: str) -> None:
        if refused:
            self._tell(f"not proven, since what is sent as a proof is refused: {refused}")


def _phase(registration: dict[str, Any]) -> str:
    (webhook,) = registration["webhooks"]
    return phase_of(webhook)
