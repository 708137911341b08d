"""The loop of `status` and `wait`: the objects that a user names, followed with who is to blame."""

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import click

from genguard.objects.served import Served, UnknownTargetError
from genguard.status.assessment import Judge
from genguard.status.targets import RequestedTarget, WatchTarget, parse_targets, resolve_targets
from webhook.cli.output import Tell

if TYPE_CHECKING:
    from webhook.cli.asking_server import Memory, ServerChoice
    from webhook.cli.following import CulpritWatch, Following
    from webhook.cluster.rest import Rest


class Followed(NamedTuple):
    """What is followed: the objects, and the findings of a server about them."""

    objects: "Following"
    culprits: "CulpritWatch"


@dataclass(frozen=True, slots=True)
class Targets:
    """The objects that are asked for, and how they are judged; `namespace` "" is every one."""

    kubeconfig: str
    context: str | None
    asked: tuple[RequestedTarget, ...]
    namespace: str
    selector: str
    server: "ServerChoice"
    judge: Judge

    @classmethod
    def of(
        cls,
        asked: Sequence[RequestedTarget],
        judge: Judge,
        *,
        kubeconfig: str | None,
        context: str | None,
        namespace: str | None,
        all_namespaces: bool,
        selector: str,
        server: str | None,
        token: str,
    ) -> "Targets":
        """Read the flags of asks_cluster(). Raises click.UsageError."""
        # Imported here: the API client loads for half a second.
        from webhook.cli.asking_server import ServerChoice  # noqa: PLC0415
        from webhook.cluster.connection import default_kubeconfig, default_namespace  # noqa: PLC0415

        if all_namespaces and any(one.name for one in asked):
            raise click.UsageError("an object of a name is in one namespace: give -n instead of -A")
        kubeconfig = kubeconfig or default_kubeconfig()
        within = "" if all_namespaces else namespace or default_namespace(kubeconfig, context)
        choice = ServerChoice(server, token)
        return cls(kubeconfig, context, tuple(asked), within, selector, choice, judge)

    def resolve(self, kinds: Sequence[Served], asked: RequestedTarget) -> WatchTarget:
        """Find the kind of what is asked. Raises UnknownTargetError."""
        (one,) = resolve_targets([asked], kinds, self.namespace, self.selector)
        return one

    @asynccontextmanager
    async def followed(
        self, rest: "Rest", kinds: Sequence[Served], found: Sequence[WatchTarget], tell: Tell
    ) -> AsyncIterator[Followed]:
        """Follow objects, and ask a server about them, while the context is entered.

        Raises NoServerError or one of UNREACHED.
        """
        from webhook.cli.asking_server import server_beside  # noqa: PLC0415
        from webhook.cli.following import CulpritWatch, following  # noqa: PLC0415

        memories: Mapping[str, Memory] = {}
        if self.server.server:
            async with server_beside(self.server, rest) as server:
                memories = await server.memories(self.namespace)
        within = self.namespace if all(one.namespace for one in found) else ""
        async with (
            following(rest, kinds, found, tell, memories, judge=self.judge) as objects,
            CulpritWatch(self.server, rest, kinds, within, tell) as culprits,
        ):
            yield Followed(objects, culprits)


@asynccontextmanager
async def connected_to(targets: Targets) -> AsyncIterator["Rest"]:
    """Connect to the cluster of targets. Raises NoClusterError."""
    from webhook.cluster.connection import connected  # noqa: PLC0415
    from webhook.cluster.rest import Rest  # noqa: PLC0415

    async with connected(targets.kubeconfig, targets.context) as api:
        yield Rest(api)


async def try_list(rest: "Rest", one: WatchTarget) -> None:
    """Find out whether it may be read. Raises RefusedError or one of UNREACHED."""
    path = one.served.path(one.namespace)
    await rest.try_list(path, one.list_parameters, kind=one.served.kind)


def asked_by(words: Sequence[str], selector: str) -> list[RequestedTarget]:
    """Read KIND/NAME of the command line. Raises click.UsageError."""
    try:
        asked = parse_targets(words)
    except UnknownTargetError as error:
        raise click.UsageError(str(error)) from error
    if selector and any(one.name for one in asked):
        raise click.UsageError("an object is chosen by its name or by -l, not by both")
    return asked
