"""Flags that several verbs share, named as kubectl names them, and what is read from them."""

import re
from collections.abc import AsyncIterator, Callable, Iterator, Mapping
from contextlib import asynccontextmanager
from functools import reduce, wraps
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, NamedTuple, TypeVar, cast

import click

from webhook.server.flags import Parsed, duration

if TYPE_CHECKING:
    from genguard.detection.finding import Finding
    from webhook.cli.asking_server import Server
    from webhook.cluster.rest import Rest

F = TypeVar("F", bound=Callable[..., Any])
Flag = Callable[[Any], Any]

USUAL_SERVER: Final = "http://127.0.0.1:8080"
"""An example: the ops port on the server's own host, or forwarded."""
_LABEL: Final = re.compile(r"[a-z0-9](?:[-a-z0-9]{0,61}[a-z0-9])?")
_TOKEN: Final = re.compile(r"[A-Za-z0-9._~+/-]{1,65536}=*")
"""RFC 6750 section 2.1: b64token."""
KUBECONFIG: Final = click.option("--kubeconfig", metavar="FILE|in-cluster")
CONTEXT: Final = click.option("--context", metavar="NAME")
NAMESPACE: Final = click.option("-n", "--namespace", metavar="NAME")
ALL_NAMESPACES: Final = click.option("-A", "--all-namespaces", is_flag=True)
YAML: Final = f"{__name__}.yaml"
ORDER: Final = f"{__name__}.order"
"""What the context of a verb says of -o and of --sort-by: webhook/cli/output.py reads it."""


class Access(NamedTuple):
    """The cluster and the genguard that a verb asks.

    server  the URL of an ops port, or the namespace in which genguard is installed; None: the usual
    token   what the ops port takes with --ops-auth; "" for none

    It loads what it needs when it is used: the client of the Kubernetes API takes half a second.
    """

    kubeconfig: str | None
    context: str | None
    server: str | None = None
    token: str = ""

    @property
    def file(self) -> str:
        """The kubeconfig that is meant. Raises NoClusterError."""
        from webhook.cluster.connection import default_kubeconfig  # noqa: PLC0415

        return self.kubeconfig or default_kubeconfig()

    def namespace(self, given: str | None) -> str:
        """Return a namespace, or without one that of the context. Raises NoClusterError."""
        from webhook.cluster.connection import default_namespace  # noqa: PLC0415

        return given or default_namespace(self.file, self.context)

    @asynccontextmanager
    async def connected(self, **headers: str) -> AsyncIterator["Rest"]:
        """Connect to the cluster; `headers` go with each call. Raises NoClusterError."""
        from webhook.cluster.connection import connected  # noqa: PLC0415
        from webhook.cluster.rest import Rest  # noqa: PLC0415

        async with connected(self.file, self.context) as api:
            api.default_headers |= headers
            yield Rest(api)

    @asynccontextmanager
    async def reached(self, rest: "Rest | None" = None) -> AsyncIterator["Server"]:
        """Reach the server: beside a cluster that is connected, else wherever it is.

        Raises NoServerError; without `rest` also what `connected` and its calls raise.
        """
        from webhook.cli.asking_server import server_of  # noqa: PLC0415

        async with server_of(self, rest) as server:
            yield server

    async def finding(self, name: str) -> "Finding":
        """Ask the server for a finding by its id. Raises NoServerError where there is none."""
        async with self.reached() as server:
            return await server.finding(name)


def _server(text: str) -> str:
    """Take a URL, or the namespace of an installation."""
    if text.startswith(("http://", "https://")) or _LABEL.fullmatch(text):
        return text
    what = f"neither a URL such as {USUAL_SERVER} nor the namespace of genguard"
    raise ValueError(f"{text!r} is {what}")


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


_CLUSTER: Final = (KUBECONFIG, CONTEXT)
_SERVER: Final = (
    click.option("--server", metavar="URL|NAMESPACE", type=Parsed(_server)),
    click.option(
        *("--token-file", "token"), metavar="FILE", type=click.Path(path_type=Path), callback=_token
    ),
)
FINDING: Final = "finding/"
_ID: Final = re.compile("[0-9a-f]{16}")
RECURSIVE: Final = click.option("-R", "--recursive", is_flag=True)
SELECTOR: Final = click.option("-l", "--selector", default="")
_WORDS: Final = click.argument("words", nargs=-1, metavar="[KIND/NAME... | KIND [NAME...]]")


def formats(*more: str) -> Callable[[F], F]:
    """Make -o; a table is the default. A verb prints YAML as it prints JSON: by `object_line`."""

    def read(ctx: click.Context, _: click.Parameter, value: str) -> str:
        ctx.meta[YAML] = value == "yaml"
        return "json" if value == "yaml" else value

    kind = click.Choice(("json", "yaml", "table", *more))
    return click.option(
        "-o", "--output", type=kind, default="table", show_default=True, callback=read
    )


OUTPUT: Final = formats()
SARIF: Final = formats("sarif")


def in_namespaces(verb: F) -> F:
    """Add -n and -A for a verb that shows every namespace without them."""

    @wraps(verb)
    def run(*, namespace: str | None, all_namespaces: bool, **flags: Any) -> Any:
        return verb(namespace="" if all_namespaces else namespace or "", **flags)

    return cast("F", together(NAMESPACE, ALL_NAMESPACES)(run))


def filenames(metavar: str, *, required: bool = False) -> Callable[[F], F]:
    """Make -f, which a verb takes as `files`."""
    return click.option(
        *("-f", "--filename", "files"), multiple=True, required=required, metavar=metavar
    )


def timeout(usual: str, hours: int = 1) -> Callable[[F], F]:
    """Make --timeout, which a verb takes as `seconds`; `hours` are the longest."""
    return click.option(
        *("--timeout", "seconds"),
        default=usual,
        show_default=True,
        metavar="DURATION",
        type=duration(hours),
    )


class Told(NamedTuple):
    """What verbs.txt says of one verb.

    group     under which heading it stands in the list of verbs
    line      its line there
    about     the paragraphs of its help behind the first sentence
    flags     what each of its flags does
    examples  as they are typed, each below what it is for
    """

    group: str
    line: str
    about: str
    flags: Mapping[str, str]
    examples: str


def _read_told(text: str) -> Iterator[tuple[str, Told]]:
    group = ""
    for section in re.split(r"^(?==)", text, flags=re.MULTILINE)[1:]:
        title, line, *rest = section.split("\n", 2)
        if title.startswith("=="):
            group = title.removeprefix("== ")
            continue
        body, _, examples = "".join(rest).partition("\nExamples:\n")
        parts = body.strip("\n").replace("\\b\n", "\b\n").split("\n\n")
        listed = parts.pop() if parts[-1].startswith("--") else ""
        flags = dict(line.split(" ", 1) for line in listed.replace("\n  ", " ").splitlines())
        told = Told(group, line, "\n\n".join(parts), flags, examples.rstrip("\n"))
        yield title.removeprefix("= "), told


TOLD: Final = dict(
    _read_told(resources.files(__package__).joinpath("verbs.txt").read_text("utf-8"))
)
"""What is told of each verb, in the order of the list; "all": of flags that several have."""


def verb(*more: click.Parameter) -> Callable[[Callable[..., None]], click.Command]:
    """Make a verb of a function whose docstring says in a sentence what it does.

    more  flags beside those of its decorators
    """

    def make(run: Callable[..., None]) -> click.Command:
        name = run.__name__.replace("_", "-")
        told = TOLD[name]
        about, examples = f"{run.__doc__}\n\n{told.about}", f"\b\nExamples:\n{told.examples}"
        made = click.command(name, params=[*more], help=about, epilog=examples)(run)
        explain_flags(made, told.flags)
        return made

    return make


def explain_flags(verb: click.Command, own: Mapping[str, str]) -> None:
    """Say of each flag what it does, unless its declaration says it: `own`, else as for all."""
    texts = {**TOLD["all"].flags, **own}
    for flag in verb.params:
        if isinstance(flag, click.Option) and flag.help is None:
            flag.help = texts[max(flag.opts, key=len)]
            flag.show_default = flag.show_default and "[default: " not in flag.help


def together(*flags: Flag) -> Callable[[F], F]:
    """Add several flags to a verb, in their order."""
    return lambda verb: reduce(lambda made, flag: flag(made), reversed(flags), verb)


def _asks(*flags: Flag, is_named: bool = False) -> Callable[[F], F]:
    """Add the flags of a cluster and perhaps a server; the verb takes them as `access`."""

    def add(verb: F) -> F:
        @wraps(verb)
        def run(
            *, kubeconfig: str | None, context: str | None, server: str | None = None,
            token: str = "", **others: Any
        ) -> Any:  # fmt: skip
            if is_named and token and not server:
                raise click.UsageError("--token-file is for --server, which is not given")
            return verb(access=Access(kubeconfig, context, server, token), **others)

        return cast("F", together(*flags)(run))

    return add


asks_cluster: Final[Callable[[F], F]] = _asks(*_CLUSTER)
"""Adds the flags that say which cluster to ask."""
asks_server: Final[Callable[[F], F]] = _asks(*_CLUSTER, *_SERVER)
"""Adds these, and the flags that say which server to ask."""
may_ask_server: Final[Callable[[F], F]] = _asks(*_CLUSTER, *_SERVER, is_named=True)
"""Adds the same flags, for a verb that asks a server only where one is named."""
asks_objects: Final[Callable[[F], F]] = _asks(
    NAMESPACE, ALL_NAMESPACES, SELECTOR, *_CLUSTER, *_SERVER, _WORDS
)
"""Adds KIND/NAME, and all flags that say where to look for objects."""


def is_finding(target: str) -> bool:
    """Whether it is finding/ID, or an ID as it stands in a table."""
    return target.startswith(FINDING) or _ID.fullmatch(target) is not None


def finding_id(target: str) -> str:
    """Return the id of what `is_finding`. Raises click.UsageError."""
    name = target.removeprefix(FINDING)
    if not is_finding(target) or not name.isalnum():
        raise click.UsageError(f"{target} is not finding/ID; genguard findings lists them")
    return name
