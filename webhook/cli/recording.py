"""The flags that say what was there when reviews were recorded."""

from typing import Final

import click

from genguard.generation.table import DEFAULT_SERVER_VERSION
from webhook.cli.options import F, with_flags
from webhook.serve.flags import FILE

_RECORDED: Final = (
    click.option(
        "--server-version",
        default=DEFAULT_SERVER_VERSION,
        show_default=True,
        help="Whose rules held when it was recorded.",
    ),
    click.option(
        "--crds",
        type=FILE,
        help="CustomResourceDefinitions of the recorded cluster, JSON or YAML.",
    ),
    click.option(
        "--webhooks",
        type=FILE,
        help="The cluster's webhook configurations and MutatingAdmissionPolicies with their "
        "bindings, JSON or YAML: findings then name the culprit.",
    ),
)


def of_recording(verb: F) -> F:
    """Add the flags to a verb."""
    return with_flags(verb, _RECORDED)
