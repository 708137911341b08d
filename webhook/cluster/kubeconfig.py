"""Checks kubeconfig files before the Kubernetes client reads them.

The client takes a well-formed file for granted: other files end in a traceback of its own code, or
in a message that repeats secrets.
"""

import os
from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import Any

import yaml

from genguard.formats.documents import load_document


class NoClusterError(Exception):
    """The kubeconfig cannot be used; the message says why."""


def check_kubeconfig(paths: str, context: str | None = None) -> Mapping[str, Any]:
    """Check the files of a `--kubeconfig` or $KUBECONFIG, and return the context that is meant.

    paths    separated as in $PATH; as for kubectl, one of several may be missing
    context  its name; without it the current one. With the cluster that it names it must be there.

    Raises NoClusterError; values are not shown, since they may be secrets.
    """
    files = [path for path in paths.split(os.pathsep) if path and Path(path).exists()]
    at = paths
    contexts: dict[str, Any] = {}
    clusters: dict[str, Any] = {}
    try:
        for at in files:
            document = load_document(Path(at).read_bytes())
            context = context or document.get("current-context")
            # Of the same name the first file's counts.
            contexts = {one["name"]: one["context"] for one in document["contexts"]} | contexts
            clusters = {one["name"]: one["cluster"] for one in document["clusters"]} | clusters
        at = paths
        reason = _wrong(contexts, clusters, context) if files else "no such file"
    except OSError as error:
        reason = str(error.strerror)
    except yaml.MarkedYAMLError as error:
        line = f"line {error.problem_mark.line + 1}: " if error.problem_mark else ""
        reason = f"{line}{error.problem}"
    except (yaml.YAMLError, ValueError, RecursionError):
        reason = "no text in YAML, or nested too deep"
    except (AttributeError, KeyError, TypeError):
        reason = "no kubeconfig: expected `clusters` and `contexts` with their names"
    if reason:
        raise NoClusterError(f"--kubeconfig {at}: {reason}")
    found: Mapping[str, Any] = contexts[str(context)]
    return found


def _wrong(contexts: Mapping[str, Any], clusters: Mapping[str, Any], name: str | None) -> str:
    """Say what is wrong with a context, or with the cluster that it names; "" for nothing."""
    if name is None or name not in contexts:
        near = get_close_matches(name or "", contexts, n=1)
        meant = f"did you mean {near[0]}?" if near else f"one of {', '.join(sorted(contexts))}"
        return f"no context {name}; {meant}" if name else f"no current-context: --context, {meant}"
    cluster = contexts[name].get("cluster")
    if cluster not in clusters:
        return f"context {name} names cluster {cluster}, which is not there"
    if not clusters[cluster]["server"].startswith(("https://", "http://")):
        return f"`server` of cluster {cluster} must begin with https://"
    return ""
