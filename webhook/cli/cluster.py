"""Flags that verbs share, as kubectl calls them, and what is said when no cluster can be asked."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

import click

from webhook.status.targets import RequestedTarget

F = TypeVar("F", bound=Callable[..., Any])

KUBECONFIG = click.option(
    "--kubeconfig",
    metavar="FILE|in-cluster",
    help="[default: $KUBECONFIG, ~/.kube/config, the pod's account]",
)
CONTEXT = click.option("--context", metavar="NAME", help="[default: the kubeconfig's current one]")
NAMESPACE = click.option(
    "-n", "--namespace", metavar="NAME", help="[default: that of the kubeconfig's context]"
)
OUTPUT = click.option(
    "-o",
    "output",
    type=click.Choice(["json", "table"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs: an object a line.",
)
_FLAGS = (
    NAMESPACE,
    click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace."),
    click.option("-l", "--selector", default="", help="Only objects with these labels: app=web."),
    KUBECONFIG,
    CONTEXT,
    click.option(
        "--server",
        metavar="URL",
        help="The ops port of a genguard serve, which knows what was before: the generation that "
        "was reconciled last, and how often Ready turned.",
    ),
    click.argument("words", nargs=-1, metavar="[KIND/NAME... | KIND [NAME...]]"),
)


def asks_cluster(verb: F) -> F:
    """A verb that takes KIND/NAME and where to look for it."""
    for flag in reversed(_FLAGS):
        verb = flag(verb)
    return verb


def namespace_of(
    kubeconfig: str,
    context: str | None,
    namespace: str | None,
    asked: Sequence[RequestedTarget],
    *,
    every: bool,
) -> str:
    """Where to look; "" is every namespace."""
    from webhook.cluster.target import default_namespace  # noqa: PLC0415

    if not every:
        return namespace or default_namespace(kubeconfig, context)
    if any(one.name for one in asked):
        raise click.UsageError("an object of a name is in one namespace: give -n instead of -A")
    return ""


@contextmanager
def telling() -> Iterator[None]:
    """What cannot be done is told in a line; the exit code is 1, or 130 when interrupted."""
    # Imported when wanted: the client of the Kubernetes API takes half a second to load.
    from webhook.cluster.connection import NoClusterError  # noqa: PLC0415
    from webhook.cluster.rest import UNREACHED, RefusedError  # noqa: PLC0415
    from webhook.cluster.until import NotInTimeError  # noqa: PLC0415
    from webhook.objects.served import UnknownTargetError  # noqa: PLC0415
    from webhook.verbs.remembering import NoServerError  # noqa: PLC0415

    refused = (RefusedError, NoClusterError, NoServerError, NotInTimeError, UnknownTargetError)
    try:
        yield
    except refused as error:
        raise click.ClickException(str(error)) from error
    except UNREACHED as error:
        raise click.ClickException(f"not reached: {str(error) or type(error).__name__}") from error
    except KeyboardInterrupt:
        raise SystemExit(130) from None
