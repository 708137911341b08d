"""Which webhooks are a genguard's: those of this one, or of another in the same cluster."""

from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import urlsplit

_PHASES: Final = frozenset({"/intent", "/mutate", "/outcome"})
_NAME: Final = "genguard"
_LABEL: Final = "app.kubernetes.io/name"
"""On every configuration of manifests/; a namePrefix of kustomize does not change it."""


def own_phase(configuration: Mapping[str, Any], hook: Mapping[str, Any]) -> str:
    """The path of a genguard's webhook: /intent, /mutate, /outcome, or "/" for any other.

    "" for a webhook of others. A configuration is a genguard's by its label, or by a name and a
    path of the three. A field of the wrong type is not there.
    """
    metadata = _mapping(configuration.get("metadata"))
    path = _path(_mapping(hook.get("clientConfig")))
    if _mapping(metadata.get("labels")).get(_LABEL) == _NAME:
        return path if path in _PHASES else "/"
    is_named = any(_NAME in str(one.get("name", "")) for one in (metadata, hook))
    return path if is_named and path in _PHASES else ""


def _path(client: Mapping[str, Any]) -> str:
    try:
        path = _mapping(client.get("service")).get("path") or urlsplit(client.get("url") or "").path
    except (ValueError, AttributeError):
        return ""
    return str(path)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
