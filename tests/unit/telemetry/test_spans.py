"""Which variables of OpenTelemetry ask for spans, and which are refused."""

import subprocess
import sys

import pytest

from tests.unit.cli.samples import serve
from webhook.telemetry.spans import BadTracingError, ExportedSpans, asks_for_spans

ENDPOINT = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:1"}


@pytest.mark.parametrize(
    ("environment", "asks"),
    [
        ({}, False),
        ({"OTEL_SERVICE_NAME": "genguard", "OTEL_TRACES_SAMPLER": "always_on"}, False),
        (ENDPOINT, True),
        ({"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:1/v1/traces"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://127.0.0.1:1"}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, True),
        ({**ENDPOINT, "OTEL_TRACES_EXPORTER": "none"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "TRUE"}, False),
        ({**ENDPOINT, "OTEL_SDK_DISABLED": "false"}, True),
        ({**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, True),
        (
            {
                **ENDPOINT,
                "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc",
                "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/protobuf",
            },
            True,
        ),
        # It is off, so what else it says is of no matter.
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, False),
    ],
)
def test_spans_are_made_only_when_the_variables_ask_for_them(environment, asks):
    assert asks_for_spans(environment) is asks


@pytest.mark.parametrize(
    ("environment", "told"),
    [
        (
            {**ENDPOINT, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"},
            "OTEL_EXPORTER_OTLP_PROTOCOL=grpc: genguard exports by http/protobuf alone",
        ),
        ({"OTEL_TRACES_EXPORTER": "zipkin"}, "OTEL_TRACES_EXPORTER=zipkin: give otlp or none"),
        (
            {**ENDPOINT, "OTEL_BSP_MAX_QUEUE_SIZE": "many"},
            "the variables OTEL_* cannot be followed: invalid literal for int()",
        ),
        ({**ENDPOINT, "OTEL_BSP_MAX_QUEUE_SIZE": "7"}, "the variables OTEL_* cannot be followed"),
    ],
)
def test_a_variable_that_cannot_be_followed_ends_the_start_with_one_line(
    environment, told, monkeypatch, tmp_path
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    result = serve("--cert-dir", tmp_path, "--secure-port", "0", "--ops-port", "0")
    assert result.exit_code == 2
    assert told in " ".join(result.stderr.split())


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
