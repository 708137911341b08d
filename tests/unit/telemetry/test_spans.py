"""Which variables of OpenTelemetry ask for spans, and which are refused."""

import subprocess
import sys
from pathlib import Path

import pytest

from tests.cases_loader import Case, table
from tests.unit.cli.samples import serve
from webhook.telemetry.spans import BadTracingError, ExportedSpans, asks_for_spans

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@table("telemetry/spans.yaml", "endpoint", "environment", "asks", "told")
def test_spans_are_made_only_when_the_variables_ask_for_them(
    case: Case, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    environment = {**(ENDPOINT if case.get("endpoint") else {}), **case["environment"]}
    if "asks" in case.values:
        assert asks_for_spans(environment) is case["asks"], case.because
        return
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = serve("--cert-dir", tmp_path, "--secure-port", "0", "--ops-port", "0")
    assert result.exit_code == 2, case.because
    assert case["told"] in " ".join(result.stderr.split()), case.because


def test_without_the_extra_the_error_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "opentelemetry.sdk.trace", None)
    with pytest.raises(
        BadTracingError, match=r"not installed: pip install 'genguard-webhook\[otel\]'"
    ):
        ExportedSpans()


def test_nothing_of_opentelemetry_is_imported_unless_it_is_asked_for():
    loaded = "[one for one in sys.modules if 'opentelemetry' in one]"
    code = f"import sys, webhook.serve.app; print({loaded})"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
