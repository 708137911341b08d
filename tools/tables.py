"""Writes the documents that follow from declarations: python -m tools.tables.

The flags of serve go into the document that has their table, the metrics into docs/metrics.md, what
questions find into docs/findings.md and docs/incidents.md, schemas of outputs into docs/schemas.
"""

from dataclasses import fields
from pathlib import Path

import click
import msgspec

from genguard.detection.finding import Severity
from genguard.detection.questions import FINDINGS
from tests.readme.commands import DOCUMENTS
from tools.schemas import OUTPUTS, schema_of
from webhook.cli.options import TOLD
from webhook.server.flags import name_of, said_of
from webhook.server.settings import Settings
from webhook.telemetry.metrics import declared

ROOT = Path(__file__).parents[1]
METRICS = ROOT / "docs" / "metrics.md"
FINDINGS_PAGE = ROOT / "docs" / "findings.md"
INCIDENTS = ROOT / "docs" / "incidents.md"
SCHEMAS = ROOT / "docs" / "schemas"
_HEAD = "| flag | default | what it does |"
_HEAD_OF_FINDINGS = "| finding | what it says |"
_METRICS = """# Metrics

Every metric at `/metrics` of the ops port. Those of a part that is switched off are missing.
Labels never hold the name of an object, except with `--object-metrics`, nor that of a
namespace or application, except with `--summary-metrics`.

| metric | type | labels | what it says |
| --- | --- | --- | --- |
"""


def flags_document() -> Path:
    """The document with the table of flags."""
    (found,) = (path for path in DOCUMENTS if _HEAD in path.read_text())
    return found


def wanted_flags() -> list[str]:
    """The table as it follows from Settings, and the one flag that is about the others."""
    config = "| `--config FILE` | none | YAML with these flags as keys. The command line wins. |"
    rows = [_HEAD, "| --- | --- | --- |"]
    for one in fields(Settings):
        option = one.metadata["option"]
        kind, metavar = option.get("type"), option.get("metavar", "")
        if isinstance(kind, click.Choice):
            metavar = "|".join(kind.choices)
        name = f"{name_of(one)} {metavar}".strip().replace("|", r"\|")
        text, shown = said_of(one, TOLD["serve"].flags)
        rows.append(f"| `{name}` | {shown} | {text} |")
    return [*rows, config]


def wanted_findings() -> list[str]:
    """The table of findings as it follows from the declarations of questions."""
    rows = [_HEAD_OF_FINDINGS, "|---|---|"]
    for name, one in FINDINGS.items():
        runbook = f"../manifests/monitoring/runbooks/{name}.md"
        info = " (info)" if one.worst is Severity.INFO else ""
        rows.append(f"| [`{name}`]({runbook}) | {one.means}{info} |")
    return rows


def written_findings() -> list[str]:
    """The table that is in docs/findings.md."""
    return table_of(FINDINGS_PAGE, _HEAD_OF_FINDINGS)


def written_flags() -> list[str]:
    """The table that is in the document."""
    return table_of(flags_document(), _HEAD)


def table_of(page: Path, head: str) -> list[str]:
    rows: list[str] = []
    for line in page.read_text().splitlines():
        if line == head or (rows and line.startswith("|")):
            rows.append(line)
        elif rows:
            break
    return rows


def wanted_metrics() -> str:
    """The page about metrics as it follows from their declarations."""
    rows = []
    for name, one in declared().items():
        labels = ", ".join(f"`{label}`" for label in one.labels)
        rows.append(f"| `{name}` | {one.type} | {labels} | {one.help} |\n")
    return _METRICS + "".join(rows)


def wanted_schemas() -> dict[str, str]:
    """The files of docs/schemas, by name."""
    return {
        f"{name}.json": msgspec.json.format(msgspec.json.encode(schema_of(name))).decode() + "\n"
        for name in OUTPUTS
    }


if __name__ == "__main__":
    from tools.incidents import HEAD, wanted_incidents

    for page, written, wanted in (
        (flags_document(), written_flags(), wanted_flags()),
        (FINDINGS_PAGE, written_findings(), wanted_findings()),
        (INCIDENTS, table_of(INCIDENTS, HEAD), wanted_incidents()),
    ):
        page.write_text(page.read_text().replace("\n".join(written), "\n".join(wanted)))
    METRICS.write_text(wanted_metrics())
    SCHEMAS.mkdir(exist_ok=True)
    for name, text in wanted_schemas().items():
        (SCHEMAS / name).write_text(text)
