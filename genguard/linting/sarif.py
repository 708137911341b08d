"""Write lint findings as SARIF, with the line of each field that is in a file.

A configuration or definition that several files have is shown in the first one.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from genguard.formats.sarif import SarifResult, SarifRule, SourceTexts, make_sarif
from genguard.linting.check import Check, DefinitionCheck, Level, LintFinding
from genguard.linting.definition import DEFINITION
from genguard.linting.hook import MUTATING, VALIDATING

_LEVELS: Final = {Level.ERROR: "error", Level.WARNING: "warning", Level.INFO: "note"}
_FINGERPRINT: Final = "genguardLint/v1"


def to_sarif(
    findings: Iterable[LintFinding],
    checks: Sequence[Check | DefinitionCheck],
    texts: Mapping[str, str],
    version: str,
) -> dict[str, Any]:
    """Return the log.

    texts    the files that were checked, by name
    version  genguard's
    """
    sources = SourceTexts(texts)
    results = [
        SarifResult(
            rule=one.id,
            level=_LEVELS[one.severity],
            subject=one.subject,
            field=one.field,
            message=one.message,
            at=sources.line(_kinds(one), one.subject.partition("/")[0], one.field),
        )
        for one in findings
    ]
    return make_sarif(
        [SarifRule(one.id, one.reason) for one in checks], results, version, _FINGERPRINT
    )


def _kinds(finding: LintFinding) -> tuple[str, ...]:
    return (DEFINITION,) if finding.definition else (MUTATING, VALIDATING)
