"""Flags that several verbs share, named as kubectl names them."""

import re
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final, TypeVar

import click

F = TypeVar("F", bound=Callable[..., Any])

USUAL_SERVER: Final = "http://127.0.0.1:8080"
"""Where the ops port is on the server's own host, and after `kubectl port-forward ... 8080`."""
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,65536}=*")
"""RFC 6750 section 2.1: b64token."""
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


def _server(_: click.Context, __: click.Parameter, text: str | None) -> str | None:
    """Take a URL, or the namespace of an installation."""
    if text is None or text.startswith(("http://", "https://")) or _LABEL.fullmatch(text):
        return text
    raise click.BadParameter(
        f"{text!r} is neither a URL such as {USUAL_SERVER} nor the namespace of genguard"
    )


def _token(_: click.Context, __: click.Parameter, path: Path | None) -> str:
    """Read the token of a file; "" without one."""
    if path is None:
        return ""
    try:
        token = path.read_text().strip()
    except OSError as error:
        raise click.BadParameter(f"{path}: {error.strerror or error}") from error
    except UnicodeDecodeError:
        token = ""
    if not _TOKEN.fullmatch(token):
        raise click.BadParameter(f"{path}: no token; kubectl create token ACCOUNT prints one")
    return token


def _server_flags(without: str) -> tuple[Callable[[F], F], ...]:
    return (
        click.option(
            "--server",
            metavar="URL|NAMESPACE",
            callback=_server,
            help="The ops port of a genguard serve, or the namespace where genguard is installed. "
            f"{without}",
        ),
        click.option(
            "--token-file",
            "token",
            metavar="FILE",
            type=click.Path(path_type=Path),
            callback=_token,
            help="A token for a server that runs with --ops-auth.",
        ),
    )


SERVER: Final = _server_flags("[default: genguard-system]")
"""Which server to ask: every verb reaches it as webhook/cli/asking_server.py does."""
FINDING: Final = "finding/"
FILENAME_HELP: Final = "a file, a folder, an https URL, or - for standard input"
RECURSIVE: Final = click.option(
    "-R", "--recursive", is_flag=True, help="Of a folder, read its folders as well."
)
OUTPUT: Final = click.option(
    "-o",
    "--output",
    type=click.Choice(["json", "table"]),
    default="table",
    show_default=True,
    help="A table for people, or JSON for programs: an object a line.",
)
_OBJECTS: Final = (
    NAMESPACE,
    click.option("-A", "--all-namespaces", is_flag=True, help="In every namespace."),
    click.option("-l", "--selector", default="", help="Only objects with these labels: app=web."),
    KUBECONFIG,
    CONTEXT,
    *SERVER,
    click.argument("words", nargs=-1, metavar="[KIND/NAME... | KIND [NAME...]]"),
)


def examples(*pairs: tuple[str, str]) -> str:
    """Make the end of a help text: what each command is for, and the command, as it is typed."""
    lines = "\n".join(f"  # {text}\n  {command}" for text, command in pairs)
    return f"\b\nExamples:\n{lines}"


def asks_cluster(verb: F) -> F:
    """Add KIND/NAME and the flags that say where to look for objects."""
    return with_flags(verb, _OBJECTS)


def finding_id(target: str) -> str:
    """Return the id in finding/ID. Raises click.UsageError."""
    name = target.removeprefix(FINDING)
    if not target.startswith(FINDING) or not name.isalnum():
        raise click.UsageError(f"{target} is not finding/ID; genguard findings lists them")
    return name


def asks_server(verb: F) -> F:
    """Add the flags that say which server to ask."""
    return with_flags(verb, SERVER)


def may_ask_server(verb: F) -> F:
    """Add the same flags, for a verb that asks a server only where one is named."""
    return with_flags(verb, _server_flags("Without it no server is asked."))


def check_server(server: str | None, token: str) -> None:
    """Raise click.UsageError for a token without a server that takes it."""
    if token and not server:
        raise click.UsageError("--token-file is for --server, which is not given")


def with_flags(verb: F, flags: Sequence[Callable[[F], F]]) -> F:
    """Add flags to a verb, in their order."""
    for flag in reversed(flags):
        verb = flag(verb)
    return verb
