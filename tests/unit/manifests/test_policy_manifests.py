"""The manifests of a program with admission policies, beyond the golden projects."""

from __future__ import annotations

from kubewright import Manager
from kubewright.apis.core.v1 import ConfigMap
from kubewright.machinery import yaml
from kubewright.policies import JSONPatch, MutatingPolicy, ValidatingPolicy, Validation
from kubewright_cli.manifests import Settings, chart, kustomize, render

NAMED = ValidatingPolicy("named", ConfigMap, validations=[Validation("object.metadata.name != ''")])
LABELED = MutatingPolicy(
    "labeled",
    ConfigMap,
    mutations=[
        JSONPatch("[JSONPatch{op: 'add', path: '/metadata/annotations', value: [{{'a': 'b'}: 'c'}].map(x, 'y')[0]}]")
    ],
)
MANIFESTS = render(Manager(name="fleet", policies=[NAMED, LABELED]), [], Settings(name="fleet", manager="fleet"))


def test_policies_have_the_prefix_of_the_deployment_also_in_their_bindings() -> None:
    found = {(each["kind"], each["metadata"]["name"]): each for each in MANIFESTS.objects()}
    assert ("ValidatingAdmissionPolicy", "fleet-named") in found
    assert found["ValidatingAdmissionPolicyBinding", "fleet-named"]["spec"]["policyName"] == "fleet-named"
    assert found["MutatingAdmissionPolicyBinding", "fleet-labeled"]["spec"]["policyName"] == "fleet-labeled"
    assert "status" not in found["ValidatingAdmissionPolicy", "fleet-named"]


def test_kustomize_completes_the_names() -> None:
    files = kustomize.files(MANIFESTS, [])
    assert "name: named\n" in files["config/policy/validating_policies.yaml"]
    kustomization = yaml.load(files["config/policy/kustomization.yaml"])
    assert kustomization["configurations"] == ["kustomizeconfig.yaml"]
    references = yaml.load(files["config/policy/kustomizeconfig.yaml"])["nameReference"]
    assert [each["fieldSpecs"][0]["path"] for each in references] == ["spec/policyName"] * 2
    assert "../policy" in yaml.load(files["config/default/kustomization.yaml"])["resources"]


def test_a_chart_can_leave_policies_out_and_helm_does_not_interpret_expressions() -> None:
    files = chart.files(MANIFESTS)
    text = files["dist/chart/templates/policy/mutating_policies.yaml"]
    assert text.splitlines()[1] == "{{- if $.Values.policy.enabled }}"
    assert "[{{ `{{` }}'a': 'b'}: 'c'}]" in text.replace("''", "'")
    assert "policyName: '{{ include \"fleet.fullname\" $ }}-labeled'" in text


def test_a_program_without_policies_has_no_manifests_of_them() -> None:
    without = render(Manager(name="fleet"), [], Settings(name="fleet", manager="fleet"))
    assert not any("policy" in path and "network" not in path for path in kustomize.files(without, []))
    assert not any("/policy/" in path for path in chart.files(without))
