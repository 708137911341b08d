"""Flags that several verbs share, named as kubectl names them."""

from collections.abc import Callable, Sequence
from typing import Any, Final, TypeVar

import click

from webhook.objects.lines import LONGEST_LINE
from webhook.status.targets import RequestedTarget

F = TypeVar("F", bound=Callable[..., Any])

USUAL_SERVER: Final = "http://127.0.0.1:8080"
"""Where the ops port is on the server's own host, and after `kubectl port-forward ... 8080`."""
KUBECONFIG: Final = click.option(
    "--kubeconfig",
    metavar="FILE|in-cluster",
    help="[default: $KUBECONFIG, ~/.kube/config, the pod's account]",
)
CONTEXT: Final = click.option(
    "--context", metavar="NAME", help="[default: the kubeconfig's current one]"
)
NAMESPACE: Final = click.option(
    "-n", "--namespace", metavar="NAME", help="[default: that of the kubeconfig's context]"
)
OUTPUT: Final = click.option(
    "-o",
    "output",
    type=click.Choice(["json", "table"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs: an object a line.",
)
MAX_LINE: Final = click.option(
    "--max-line",
    metavar="MIB",
    type=click.IntRange(1),
    default=LONGEST_LINE,
    show_default=True,
    help="Leave out lines of a file that are longer, and report them.",
)
_OBJECTS: Final = (
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
    """Add KIND/NAME and the flags that say where to look for objects."""
    return with_flags(verb, _OBJECTS)


def with_flags(verb: F, flags: Sequence[Callable[[F], F]]) -> F:
    """Add flags to a verb, in their order."""
    for flag in reversed(flags):
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
    """The namespace to look in; "" is every namespace."""
    from webhook.cluster.connection import default_namespace  # noqa: PLC0415

    if not every:
        return namespace or default_namespace(kubeconfig, context)
    if any(one.name for one in asked):
        raise click.UsageError("an object of a name is in one namespace: give -n instead of -A")
    return ""
