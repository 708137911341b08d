"""Checks kubeconfig files before the Kubernetes client reads them.

The client takes a well-formed file for granted: other files end in a traceback of its own code.
"""

import os
from collections.abc import Iterable, Sequence
from difflib import get_close_matches
from pathlib import Path
from typing import Final

import msgspec
import yaml

from genguard.formats.documents import load_document

_MOST_NAMES: Final = 5


class NoClusterError(Exception):
    """The kubeconfig cannot be used; the message says why."""


class _BadFileError(Exception):
    """What is wrong with one file."""


class _Cluster(msgspec.Struct):
    server: str = ""


class _NamedCluster(msgspec.Struct):
    name: str
    cluster: _Cluster | None = None


class _Context(msgspec.Struct):
    cluster: str | None = None
    user: str | None = None
    namespace: str | None = None


class _NamedContext(msgspec.Struct):
    name: str
    context: _Context | None = None


class _NamedUser(msgspec.Struct):
    name: str
    user: dict[str, object] | None = None


class _Kubeconfig(msgspec.Struct, rename="kebab"):
    clusters: list[_NamedCluster] | None = None
    contexts: list[_NamedContext] | None = None
    users: list[_NamedUser] | None = None
    current_context: str | None = None


def check_kubeconfig(paths: str, context: str | None = None) -> None:
    """Check the files of a `--kubeconfig` or $KUBECONFIG, which are separated as in $PATH.

    context  which one is wanted; without it the current one. With what it names it must be there.

    As for kubectl, a file of several may be missing. Values are not shown: they may be secrets.
    Raises NoClusterError.
    """
    files = [Path(path) for path in paths.split(os.pathsep) if path]
    found = [file for file in files if file.exists()]
    if not found:
        raise NoClusterError(f"--kubeconfig {paths}: no such file")
    read = []
    for file in found:
        try:
            read.append(_check(file.read_bytes()))
        except OSError as error:
            raise NoClusterError(f"--kubeconfig {file}: {error.strerror}") from None
        except _BadFileError as error:
            raise NoClusterError(f"--kubeconfig {file}: {error}") from None
    try:
        _check_context(read, context)
    except _BadFileError as error:
        raise NoClusterError(f"--kubeconfig {paths}: {error}") from None


def _check_context(files: Sequence[_Kubeconfig], wanted: str | None) -> None:
    """Check that a context is there, and what it names. Of the same name the first file's counts.

    Raises _BadFileError.
    """
    contexts = {one.name: one.context for file in reversed(files) for one in file.contexts or ()}
    clusters = {one.name: one.cluster for file in reversed(files) for one in file.clusters or ()}
    name = wanted or next((file.current_context for file in files if file.current_context), None)
    if name is None:
        raise _BadFileError(f"no current-context: give --context, {_known(contexts)}")
    if name not in contexts:
        whose = "--context" if wanted else "current-context"
        near = get_close_matches(name, contexts, n=1)
        meant = f"did you mean {near[0]}?" if near else _known(contexts)
        raise _BadFileError(f"{whose} {name}: there is no such context; {meant}")
    found = contexts[name] or _Context()
    if not found.cluster:
        raise _BadFileError(f"context {name} names no cluster; kubectl config set-context sets it")
    if found.cluster not in clusters:
        raise _BadFileError(f"context {name} names cluster {found.cluster}, which is not there")
    cluster = clusters[found.cluster]
    if cluster is None or not cluster.server:
        raise _BadFileError(f"cluster {found.cluster} has no server: write its https:// address")
    users = {one.name for file in files for one in file.users or ()}
    if found.user and found.user not in users:
        raise _BadFileError(f"context {name} names user {found.user}, who is not there")


def _known(contexts: Iterable[str]) -> str:
    names = sorted(contexts)
    more = f" and {len(names) - _MOST_NAMES} more" if len(names) > _MOST_NAMES else ""
    return f"one of {', '.join(names[:_MOST_NAMES])}{more}" if names else "and add a context"


def _check(content: bytes) -> _Kubeconfig:
    if not content.strip():
        raise _BadFileError("the file is empty")
    try:
        document = load_document(content)
    except yaml.composer.ComposerError:
        raise _BadFileError("it must hold one document, and no `---` between two") from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _BadFileError(f"{line}{error.problem or 'no YAML'}") from None
    except RecursionError:
        raise _BadFileError("it is nested too deep") from None
    except (yaml.YAMLError, ValueError):
        raise _BadFileError("no text in YAML") from None
    if not isinstance(document, dict):
        raise _BadFileError("no kubeconfig: expected `clusters`, `contexts` and `users`")
    try:
        found = msgspec.convert(document, _Kubeconfig)
    except msgspec.ValidationError as error:
        raise _BadFileError(str(error).replace("`$.", "`")) from None
    for number, one in enumerate(found.clusters or ()):
        server = one.cluster.server if one.cluster else ""
        if server and not server.startswith(("https://", "http://")):
            at = f"clusters[{number}].cluster.server"
            raise _BadFileError(f"`{at}` must begin with https://")
    return found
