"""Which file judges which kind, by group and kind: Knative's Service is not the built-in one."""

from typing import Final

from webhook.status.judgement import Kind
from webhook.status.kinds.deployment import judge_deployment
from webhook.status.kinds.generic import judge_generic
from webhook.status.kinds.pod import judge_pod
from webhook.status.kinds.silent import SILENT, SILENT_KINDS

GENERIC: Final = Kind(judge_generic)
_KINDS: Final = {
    ("apps", "Deployment"): Kind(judge_deployment, observes=True, drains=True, counts=True),
    ("", "Pod"): Kind(judge_pod),
    **{(group, kind): SILENT for group, kinds in SILENT_KINDS.items() for kind in kinds},
}


def kind_of(group: str, kind: str) -> Kind:
    """How a kind is judged; by generic conditions when it has no file of its own."""
    return _KINDS.get((group, kind), GENERIC)
