"""Checks kubeconfig files before the Kubernetes client reads them.

The client takes a well-formed file for granted: other files end in a traceback of its own code.
"""

import os
from pathlib import Path

import msgspec
import yaml


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


def check_kubeconfig(paths: str) -> None:
    """Check the files of a `--kubeconfig` or $KUBECONFIG, which are separated as in $PATH.

    As for kubectl, a file of several may be missing. Values are not shown: they may be secrets.
    Raises NoClusterError.
    """
    files = [Path(path) for path in paths.split(os.pathsep) if path]
    found = [file for file in files if file.exists()]
    if not found:
        raise NoClusterError(f"--kubeconfig {paths}: no such file")
    for file in found:
        try:
            _check(file.read_bytes())
        except OSError as error:
            raise NoClusterError(f"--kubeconfig {file}: {error.strerror}") from None
        except _BadFileError as error:
            raise NoClusterError(f"--kubeconfig {file}: {error}") from None


def _check(content: bytes) -> None:
    if not content.strip():
        raise _BadFileError("the file is empty")
    try:
        document = yaml.load(content, Loader=yaml.CSafeLoader)
    except yaml.composer.ComposerError:
        raise _BadFileError("it must hold one document, and no `---` between two") from None
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        raise _BadFileError(f"{line}{error.problem or 'no YAML'}") from None
    except (yaml.YAMLError, UnicodeDecodeError):
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
