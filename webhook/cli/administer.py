"""Flags of the verbs that see to genguard in a cluster, and how they ask and tell."""

import asyncio
import signal
import sys
from collections.abc import Callable, Coroutine, Iterable
from typing import Any, Final, TypeVar

import click

from webhook.cli.cluster import CONTEXT, KUBECONFIG
from webhook.manifest.rendering import NAMESPACE
from webhook.objects.shown import printable

F = TypeVar("F", bound=Callable[..., Any])

_WHERE: Final = (
    click.option(
        "-n", "--namespace", default=NAMESPACE, show_default=True, help="Where the server runs."
    ),
    KUBECONFIG,
    CONTEXT,
)
_HOW: Final = (
    click.option("--dry-run", is_flag=True, help="Only say what would be done."),
    click.option("--yes", is_flag=True, help="Do it without asking."),
)


def looks(verb: F) -> F:
    """A verb that only looks."""
    return _with(verb, _WHERE)


def changes(verb: F) -> F:
    """A verb that says what it is about to change, and asks."""
    return _with(verb, (*_WHERE, *_HOW))


def _with(verb: F, flags: Iterable[Callable[[F], F]]) -> F:
    for flag in reversed(tuple(flags)):
        verb = flag(verb)
    return verb


def ask(question: str) -> None:
    """Go on only when somebody agrees."""
    if not sys.stdin.isatty():
        raise click.ClickException("nobody to ask: give --yes")
    click.confirm(question, abort=True, err=True)


def carry_out(work: Coroutine[Any, Any, None]) -> None:
    """Run it to its end. SIGTERM and SIGHUP end it as ^C does: it puts back what it began."""
    received: list[int] = []

    async def until_told() -> None:
        loop, task = asyncio.get_running_loop(), asyncio.ensure_future(work)

        def on_signal(number: int) -> None:
            received.append(number)
            task.cancel()

        for number in (signal.SIGTERM, signal.SIGHUP):
            loop.add_signal_handler(number, on_signal, number)
        await task

    try:
        asyncio.run(until_told())
    except asyncio.CancelledError:
        raise SystemExit(128 + received[0]) from None


def tell(text: str) -> None:
    """A line for people."""
    click.echo(printable(text), err=True)
