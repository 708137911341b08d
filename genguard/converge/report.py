"""What `genguard converge` prints: rows for people, JSON for programs, SARIF for code scanning."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from genguard.converge.contest import REASONS, Contested, ConvergeResult, Level, Party
from genguard.detection.finding import Confidence
from genguard.formats.sarif import SarifResult, make_sarif
from genguard.objects.fields import ABSENT
from genguard.objects.served import resource_name
from genguard.objects.shown import printable
from genguard.status.drawing import Cell, Row, Tone

_LONGEST: Final = 60
_HIDDEN: Final = "(hidden)"
_TONES: Final = {Level.FIGHT: Tone.BAD, Level.NOTE: Tone.MILD}
_LEVELS: Final = {Level.FIGHT: "error", Level.NOTE: "note"}
_FINGERPRINT: Final = "genguardConverge/v1"


def name_of(which: Mapping[str, str]) -> str:
    """`deployments.apps/web in namespace shop`."""
    resource = resource_name(which["group"], which["resource"])
    where = f" in namespace {which['namespace']}" if which["namespace"] else ""
    return f"{resource}/{which['name']}{where}"


def as_rows(result: ConvergeResult) -> Iterator[Row]:
    """Yield the table of one object: what is contested, and one round of the cycle."""
    yield (Cell(f"{name_of(result.object)}: {summary(result)}"),)
    for contested in result.contested:
        who = ", ".join(map(_party, contested.parties))
        level = Cell(f"  {contested.level.value}", _TONES[contested.level])
        yield (
            level,
            Cell(contested.contest.value),
            Cell(printable(contested.field)),
            Cell(printable(who)),
        )
        for step in contested.cycle:
            value = _shown(step.value, result.object)
            text = f"{step.who} leaves {value}" if step.who else value
            yield Cell(""), Cell(""), Cell(""), Cell(printable(text), Tone.FAINT)
        if contested.note and not _is_secret(result.object):
            yield Cell(""), Cell(""), Cell(""), Cell(printable(contested.note), Tone.FAINT)
    for name, reason in result.left_out.items():
        yield (Cell(printable(f"  not asked: {name}: {reason}"), Tone.FAINT),)


def summary(result: ConvergeResult) -> str:
    """Say in words whether an object comes to rest."""
    fights = sum(contested.level is Level.FIGHT for contested in result.contested)
    if fights:
        return f"{fights} {'fight' if fights == 1 else 'fights'}"
    if not result.is_known:
        return "not known: not everybody who acts on it was asked"
    if not result.settles_after:
        return "each apply stores a new version, and metadata.generation stays the same"
    return "comes to rest"


def as_json(result: ConvergeResult) -> dict[str, Any]:
    """Return the result about one object as JSON."""
    return {
        "type": "object",
        "object": dict(result.object),
        "fights": result.fights,
        "known": result.is_known,
        "settlesAfter": result.settles_after or None,
        "contested": [_as_json(contested, result.object) for contested in result.contested],
        "notAsked": dict(result.left_out),
    }


def _as_json(contested: Contested, which: Mapping[str, str]) -> dict[str, Any]:
    return {
        "contest": contested.contest.value,
        "level": contested.level.value,
        "field": contested.field,
        "actors": [
            {"type": party.type, "name": party.name, "confidence": party.confidence.value}
            for party in contested.parties
        ],
        "cycle": [
            {"who": step.who, "value": _value(step.value, which), "absent": step.value is ABSENT}
            for step in contested.cycle
        ],
        "note": _HIDDEN if contested.note and _is_secret(which) else contested.note,
    }


def as_sarif(
    found: Sequence[ConvergeResult], texts: Mapping[str, str], version: str
) -> dict[str, Any]:
    """Return a SARIF log of all objects.

    texts    the files of the manifests, by name
    version  genguard's
    """
    results = [
        SarifResult(
            rule=contested.contest.value,
            level=_LEVELS[contested.level],
            subject=name_of(result.object),
            field=contested.field,
            message=sentence(contested),
            kinds=[result.object["kind"]],
            name=result.object["name"],
        )
        for result in found
        for contested in result.contested
    ]
    rules = {contest.value: reason for contest, reason in REASONS.items()}
    notes = [
        f"{name_of(result.object)}: not asked: {name}: {reason}"
        for result in found
        for name, reason in result.left_out.items()
    ]
    return make_sarif(rules, results, texts, version=version, fingerprint=_FINGERPRINT, notes=notes)


def sentence(contested: Contested) -> str:
    """Say who takes part, and why it matters, without a value."""
    who = ", ".join(map(_party, contested.parties))
    return f"{who}: {REASONS[contested.contest]}" if who else REASONS[contested.contest]


def _party(party: Party) -> str:
    sure = "" if party.confidence is Confidence.CERTAIN else f" ({party.confidence.value})"
    return f"{party.name}{sure}"


def _value(value: Any, which: Mapping[str, str]) -> Any:
    if value is ABSENT:
        return None
    return _HIDDEN if _is_secret(which) else value


def _is_secret(which: Mapping[str, str]) -> bool:
    """Whether neither values nor an API server's messages about them may be shown."""
    return which["kind"] == "Secret"


def _shown(value: Any, which: Mapping[str, str]) -> str:
    if value is ABSENT:
        return "nothing"
    text = json.dumps(_value(value, which), ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
