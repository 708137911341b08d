"""The files of the Helm chart: `make chart` writes them, with a value for each `install` option."""

import json

import click
import yaml
from jsonschema import Draft7Validator

from tools.chart import CHART, ELSEWHERE, HEAD, generated, option_values, serve_flags, values
from webhook.cli.install import install


def test_the_committed_chart_is_what_make_chart_writes() -> None:
    wanted = generated()
    assert {name: (CHART / name).read_text() for name in wanted} == wanted
    others = {path for path in CHART.rglob("*") if str(path.relative_to(CHART)) not in wanted}
    assert [path for path in others if path.is_file() and path.read_text().startswith(HEAD)] == []


def test_every_option_of_install_is_a_value_or_helm_has_it() -> None:
    names = {one.name for one in install.params if isinstance(one, click.Option)}
    assert set(ELSEWHERE) <= names
    assert set(option_values()) <= {one.name for one in values()}
    for place in ELSEWHERE.values():
        assert "helm" in place or place.partition(".")[0] in {one.name for one in values()}


def test_the_schema_knows_every_value_and_accepts_the_defaults() -> None:
    schema = json.loads((CHART / "values.schema.json").read_text())
    Draft7Validator.check_schema(schema)
    defaults = yaml.safe_load((CHART / "values.yaml").read_text())
    Draft7Validator(schema).validate(defaults)
    assert set(defaults) == set(schema["properties"]) - {"global"}
    readme = (CHART / "README.md").read_text()
    assert all(f"| `{name}` |" in readme for name in defaults)
    assert all(f"| `{name}` |" in readme for name, _, _ in serve_flags())
