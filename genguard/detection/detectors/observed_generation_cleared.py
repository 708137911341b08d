"""An observedGeneration that was set is cleared.

Reads   every observedGeneration of the status: stored, asked, after other webhooks, as it came out
Acts on writes of status
Result  blames other webhooks for what was asked and gone at /mutate; a requester only for what
        somebody else had set, since controllers write old and empty values of their own. Where
        the intent was not seen either may have done it; a value that the server or genguard had
        to put back was then cleared by one of them. A value that is not stored is damage
Relies  on KEP-5067 (Infinite loop caused by misbehaving mutating webhooks)
"""

from collections.abc import Iterable, Iterator
from typing import ClassVar

from genguard.detection.damage import Damage, lost_values
from genguard.detection.detectors.detector import Blame, Detector, Signal, Sort
from genguard.detection.history import ObjectHistory
from genguard.detection.write import Write
from genguard.objects.fields import Path, to_pointer
from genguard.objects.observed import Generation, Observed, Restoration, restorations


class ObservedGenerationCleared(Detector):
    """See the module."""

    name: ClassVar[str] = "observed-generation-cleared"
    only_if: ClassVar[Sort] = "writes_status"

    def judge(self, write: Write, past: ObjectHistory) -> Iterator[Signal]:
        """Yield at most one signal for a write."""
        if write.content.webhook is not None:
            gone = list(restorations(write.observed_asked, write.observed_sent))
            if gone:
                yield Signal(
                    Blame.OTHERS,
                    _pointers(gone),
                    f"another webhook cleared {len(gone)} observedGeneration value(s) that "
                    f"{write.requester.user} sent",
                    evidence={"asked": gone[0].value},
                    damage=_damage(write.observed_asked, write, write.requester.user),
                    averted=_averted(write),
                )
                return
        gone = list(restorations(write.observed_before, write.observed_asked))
        of_another = [one for one in gone if _set_by_another(one, write, past)]
        if of_another:
            yield Signal(
                Blame.REQUESTER if write.content.requested is not None else Blame.EITHER,
                _pointers(of_another),
                f"{write.requester.user} cleared {len(of_another)} observedGeneration value(s) "
                "that somebody else had set",
                (write.requester,),
                evidence={"stored": of_another[0].value},
                damage=_damage(write.observed_before, write, ""),
            )
        elif gone and write.content.requested is None and not _is_gone(gone, write.observed_after):
            yield Signal(
                Blame.EITHER,
                _pointers(gone),
                f"{len(gone)} observedGeneration value(s) were cleared in a write of "
                f"{write.requester.user}, and put back before it was stored",
                evidence={"stored": gone[0].value},
            )


def _averted(write: Write) -> Damage | None:
    """What other webhooks cleared of what the requester sent."""
    lost = lost_values(write.observed_asked, write.observed_sent)
    return Damage(lost=lost, writer=write.requester.user) if lost else None


def _damage(sent: Observed, write: Write, writer: str) -> Damage | None:
    """The values that did not come back before the write was stored."""
    lost = lost_values(sent, write.observed_after)
    return Damage(lost=lost, writer=writer) if lost else None


def _pointers(gone: Iterable[Restoration]) -> tuple[str, ...]:
    return tuple(to_pointer(one.path) for one in gone)


def _set_by_another(one: Restoration, write: Write, past: ObjectHistory) -> bool:
    """Whether the last who set it, of those that are remembered, was not this requester."""
    if not past.several_wrote_status:
        return False
    kind = _condition(one.path, write.observed_asked)
    for earlier in reversed(past.earlier):
        before, asked = (
            _values(kind, it) for it in (earlier.observed_before, earlier.observed_asked)
        )
        if earlier.writes_status and asked != before and any(asked):
            return earlier.requester.user != write.requester.user
    return False


def _condition(path: Path, found: Observed) -> str | None:
    """The type of the condition that a value is of; None for the status' own."""
    if "conditions" not in path:
        return None
    _, _, index, _ = path
    return found.conditions[int(index)].type


def _values(kind: str | None, found: Observed) -> list[Generation | None]:
    """Of the conditions of a type, which is one condition nearly always; None for the own."""
    if kind is None:
        return [found.own]
    return [one.observed for one in found.conditions if one.type == kind]


def _is_gone(gone: Iterable[Restoration], after: Observed) -> bool:
    """Whether nothing of it came back."""
    own = after.own is None
    conditions = all(one.observed is None for one in after.conditions)
    return all(conditions if "conditions" in one.path else own for one in gone)
