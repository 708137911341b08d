"""Why an object is not ready or not settled: the field that blocks, what it has, what is wanted."""

from typing import Any, NamedTuple

from webhook.objects.fields import ABSENT


class Reason(NamedTuple):
    """One blocking field, or one remark when nothing is `want`ed; its text is what users read."""

    path: str
    """As kubectl writes it: `status.availableReplicas`, `status.conditions[Ready]`."""
    have: Any
    """A number, boolean or short word, or ABSENT; never free text out of an object."""
    want: str = ""
    note: str = ""
    """What it means, where the numbers do not say it."""

    def __str__(self) -> str:
        """`status.availableReplicas 2, want 3`; `status.loadBalancer.ingress absent, want 1`."""
        have = "absent" if self.have is ABSENT else _word(self.have)
        text = f"{self.path} {have}"
        if self.want:
            text += f", want {self.want}"
        return f"{text}: {self.note}" if self.note else text


def _word(value: Any) -> str:
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)
