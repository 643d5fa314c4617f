"""`kubewright_controlplane.policies`: checks and evaluations of documents, as they are in files."""

from __future__ import annotations

from typing import Any

import pytest

from kubewright import ConfigError, Invalid
from kubewright.machinery import yaml
from kubewright.machinery.gvk import GroupVersionResource
from kubewright_controlplane.policies import Write, binding_errors, evaluate, policy_errors

POLICY = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicy
metadata: {name: small}
spec:
  matchConstraints:
    resourceRules:
    - {apiGroups: [tools.test], apiVersions: [v1], resources: [saws], operations: [CREATE]}
  validations:
  - {expression: object.spec.teeth <= 100, message: too many teeth}
"""
BINDING = """
apiVersion: admissionregistration.k8s.io/v1
kind: ValidatingAdmissionPolicyBinding
metadata: {name: small}
spec: {policyName: small, validationActions: [Deny]}
"""
CRD = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: saws.tools.test}
spec:
  group: tools.test
  names: {kind: Saw, plural: saws}
  scope: Cluster
  versions:
  - name: v1
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec: {type: object, properties: {teeth: {type: integer, default: 101}}}
"""
SAWS = GroupVersionResource("tools.test", "v1", "saws")


def load(text: str, **replaced: str) -> dict[str, Any]:
    for old, new in replaced.items():
        assert old in text
        text = text.replace(old, new)
    document: dict[str, Any] = yaml.load(text)
    return document


def test_a_policy_in_a_file_is_checked_with_its_crds() -> None:
    assert policy_errors(load(POLICY), definitions=[load(CRD)]) == []
    misspelled = load(POLICY, teeth="tooth")
    [error] = policy_errors(misspelled, definitions=[load(CRD)])
    assert (error.field, error.expression) == ("spec.validations[0].expression", "object.spec.tooth <= 100")
    assert error.message.startswith("line 1, column 12: undefined field 'tooth'")
    assert policy_errors(misspelled) == []  # without the CRD, nothing is known of the kind


def test_what_a_server_rejects_has_its_words() -> None:
    [error] = policy_errors(load(POLICY, CREATE="WRITE"))
    assert error.field == "spec.matchConstraints.resourceRules[0].operations[0]"
    assert error.message.startswith('Unsupported value: "WRITE"')
    [error] = binding_errors(load(BINDING, Deny="Deny, Warn"))
    assert "must not contain both Deny and Warn" in error.message


def test_an_object_is_evaluated_with_the_defaults_of_its_crd() -> None:
    saw = {"apiVersion": "tools.test/v1", "kind": "Saw", "metadata": {"name": "a"}, "spec": {}}
    result = evaluate(load(POLICY), [load(BINDING)], Write("CREATE", SAWS, saw), definitions=[load(CRD)])
    assert result.messages == ["too many teeth"]
    assert result.object is not None
    assert result.object["spec"] == {"teeth": 101}
    assert saw["spec"] == {}
    fine = {**saw, "spec": {"teeth": 1}}
    assert evaluate(load(POLICY), [load(BINDING)], Write("CREATE", SAWS, fine), definitions=[load(CRD)]).error is None


def test_unknown_kinds_and_invalid_policies_are_errors() -> None:
    saw = {"apiVersion": "tools.test/v1", "kind": "Saw", "metadata": {"name": "a"}}
    with pytest.raises(ConfigError, match="add its CustomResourceDefinition to the definitions"):
        evaluate(load(POLICY), [load(BINDING)], Write("CREATE", SAWS, saw))
    with pytest.raises(Invalid, match="Unsupported value"):
        evaluate(load(POLICY, CREATE="WRITE"), [], Write("CREATE", SAWS, saw), definitions=[load(CRD)])
