"""The values of a chart: values.yaml and its schema."""

from __future__ import annotations

import json
from collections.abc import Iterator

from kubewright import Manager
from kubewright.apis.core.v1 import ConfigMap
from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright.policies import ValidatingPolicy, Validation
from kubewright.webhooks import AdmissionResponse, ManagedCertificate, RawAdmissionContext, admission_handler
from kubewright_cli.manifests import Settings, render
from kubewright_cli.manifests.chart import values


@admission_handler(
    "/check", name="check.fleet.test", groups=["*"], versions=["*"], resources=["*"], operations=["CREATE"]
)
def check(ctx: RawAdmissionContext) -> AdmissionResponse:
    return AdmissionResponse()


SETTINGS = Settings(name="fleet", manager="fleet")
POLICY = ValidatingPolicy("named", ConfigMap, validations=[Validation("object.metadata.name != ''")])
PROGRAM = Manager(name="fleet", webhooks=[check], webhook_certificate=ManagedCertificate(), policies=[POLICY])
MANIFESTS = render(PROGRAM, [], SETTINGS)


def described(schema: JSONObject, where: str = "") -> Iterator[tuple[str, str]]:
    """Yield each value in the schema, with its description."""
    for key, each in schema.get("properties", {}).items():
        yield f"{where}{key}", each["description"]
        yield from described(each, f"{where}{key}.")


def keys(defaults: JSONObject, schema: JSONObject, where: str = "") -> Iterator[str]:
    for key, value in defaults.items():
        yield f"{where}{key}"
        known = schema["properties"].get(key, {})
        if "properties" in known:
            yield from keys(value, known, f"{where}{key}.")


def test_the_schema_and_the_defaults_have_the_same_values() -> None:
    known = dict(described(values.schema()))
    del known["global"]
    assert list(keys(values.defaults(MANIFESTS), values.schema())) == list(known)


def test_values_yaml_has_defaults_and_descriptions() -> None:
    text = values.text(MANIFESTS)
    assert yaml.load(text) == values.defaults(MANIFESTS)
    known = dict(described(values.schema()))
    del known["global"]
    assert [line.strip() for line in text.splitlines() if line.strip().startswith("# ")] == [
        f"# {each}" for each in known.values()
    ]


def test_a_program_without_webhooks_and_policies_has_no_values_for_them() -> None:
    without = render(Manager(), [], SETTINGS)
    known = json.loads(values.schema_text(without))["properties"]
    assert known.keys() | {"webhook", "policy"} == values.schema()["properties"].keys()
    assert values.defaults(without).keys() == known.keys() - {"global"}


def test_default_values_follow_from_the_settings() -> None:
    settings = Settings(
        name="fleet",
        manager="fleet",
        image="example.com:5000/fleet@sha256:" + "0" * 64,
        watch_namespaces=("red",),
        metrics="http",
        env={"A": "b"},
    )
    found = values.defaults(render(Manager(), [], settings))
    assert found["manager"]["image"] == {
        "repository": "example.com:5000/fleet",
        "tag": "",
        "digest": "sha256:" + "0" * 64,
        "pullPolicy": "",
    }
    assert found["watchNamespaces"] == ["red"]
    assert found["metrics"] == {"enabled": True, "secure": False, "port": 8443, "certificateSecret": ""}
    assert found["manager"]["env"] == [{"name": "A", "value": "b"}]
