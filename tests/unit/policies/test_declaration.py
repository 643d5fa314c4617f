"""Policies are checked where they are declared, and become the documents of an API server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from kubewright import ConfigError, Manager
from kubewright.apis.apps.v1 import ControllerRevision, Deployment
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import ConfigMap, Namespace, Pod
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client import Unstructured
from kubewright.models import APIResource, codec
from kubewright.policies import (
    ApplyConfiguration,
    Binding,
    JSONPatch,
    MutatingPolicy,
    ParamRef,
    Rule,
    ValidatingPolicy,
    Validation,
    policy_documents,
)
from unit.policies.shop import LABELED, LIMITED, PINNED, Limit, WebServer

FINE = Validation("true")
CHANGE = ApplyConfiguration("Object{metadata: Object.metadata{labels: {'a': 'b'}}}")


def validating(expression: str = "true", **options: Any) -> ValidatingPolicy:
    return ValidatingPolicy("p", options.pop("kinds", WebServer), validations=[Validation(expression)], **options)


def mutating(mutation: ApplyConfiguration | JSONPatch = CHANGE, **options: Any) -> MutatingPolicy:
    return MutatingPolicy("p", options.pop("kinds", WebServer), mutations=[mutation], **options)


def limited(expression: str) -> ValidatingPolicy:
    return validating(expression, params=Limit, bindings=[Binding(params=ParamRef(name="default"))])


def test_a_policy_becomes_a_policy_and_a_binding() -> None:
    policy, binding = (codec.to_dict(each) for each in policy_documents([LIMITED], prefix="shop-"))
    assert policy["metadata"]["name"] == "shop-limited-replicas"
    spec = policy["spec"]
    assert spec["paramKind"] == {"apiVersion": "policies.example.com/v1", "kind": "Limit"}
    assert spec["matchConstraints"]["resourceRules"] == [
        {
            "apiGroups": ["policies.example.com"],
            "apiVersions": ["v1"],
            "operations": ["CREATE", "UPDATE"],
            "resources": ["webservers"],
        }
    ]
    assert spec["variables"] == [{"name": "most", "expression": "params.spec.replicas"}]
    assert spec["validations"][0]["reason"] == "Forbidden"
    assert spec["auditAnnotations"] == [{"key": "replicas", "valueExpression": "string(object.spec.replicas)"}]
    assert binding["metadata"]["name"] == "shop-limited-replicas"
    assert binding["spec"] == {
        "policyName": "shop-limited-replicas",
        "validationActions": ["Deny"],
        "paramRef": {"name": "default", "parameterNotFoundAction": "Deny"},
    }


def test_a_mutating_policy_becomes_a_policy_and_a_binding() -> None:
    policy, binding = (codec.to_dict(each) for each in policy_documents([LABELED]))
    assert policy["kind"] == "MutatingAdmissionPolicy"
    assert [each["patchType"] for each in policy["spec"]["mutations"]] == ["ApplyConfiguration", "JSONPatch"]
    assert policy["spec"]["reinvocationPolicy"] == "Never"
    assert binding["spec"] == {"policyName": "labeled"}


def test_a_policy_may_have_several_kinds_rules_and_bindings() -> None:
    production = LabelSelector(match_labels={"stage": "production"})
    policy = validating(
        kinds=[WebServer, Rule.of(Deployment, operations=["DELETE"], names=["web"])],
        exclude=[Rule.of(WebServer, operations=["*"], names=["legacy"])],
        bindings=[
            Binding(namespace_selector=production),
            Binding(name="p-warn", actions=["Warn", "Audit"], rules=[Rule.of(WebServer, operations=["CREATE"])]),
        ],
    )
    document, deny, warn = (codec.to_dict(each) for each in policy_documents([policy]))
    first, second = document["spec"]["matchConstraints"]["resourceRules"]
    assert (first["resources"], second["resourceNames"]) == (["webservers"], ["web"])
    assert document["spec"]["matchConstraints"]["excludeResourceRules"][0]["resourceNames"] == ["legacy"]
    assert deny["spec"]["matchResources"] == {"namespaceSelector": {"matchLabels": {"stage": "production"}}}
    assert (warn["metadata"]["name"], warn["spec"]["validationActions"]) == ("p-warn", ["Warn", "Audit"])
    assert warn["spec"]["matchResources"]["resourceRules"][0]["operations"] == ["CREATE"]


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (lambda: ValidatingPolicy("P", WebServer, validations=[FINE]), "policy 'P': a lowercase RFC 1123"),
        (lambda: ValidatingPolicy(WebServer, "p", validations=[FINE]), "got the class WebServer"),  # type: ignore[arg-type]
        (lambda: ValidatingPolicy("p", "WebServer", validations=[FINE]), "kinds are classes or rules, got 'WebServer'"),  # type: ignore[arg-type]
        (lambda: ValidatingPolicy("p", [], validations=[FINE]), "it has no kinds"),
        (lambda: ValidatingPolicy("p", WebServer), "neither validations nor audit_annotations"),
        (lambda: ValidatingPolicy("p", WebServer, validations=["true"]), "validations are Validation objects"),  # type: ignore[list-item]
        (lambda: MutatingPolicy("p", WebServer, mutations=[]), "it has no mutations"),
        (lambda: validating(operations=["DELTE"]), "did you mean 'DELETE'?"),
        (lambda: validating(operations="CREATE"), "write a list: ['CREATE']"),
        (lambda: validating(operations=["*", "CREATE"]), '"*" includes all others'),
        (lambda: validating(subresources=[]), "subresources is empty"),
        (lambda: validating(kinds=Deployment, subresources=["scale"]), "Rule.of(Scale, parent=Deployment"),
        (lambda: validating(kinds=Rule.of(Pod), operations=["DELETE"]), "operations is about classes"),
        (lambda: validating(failure_policy="Deny"), "failure_policy='Deny': write one of Fail, Ignore"),
        (lambda: validating(match_policy="Same"), "match_policy='Same'"),
        (lambda: validating(object_selector=LabelSelector(match_labels={"a b": "c"})), "object_selector: "),
        (lambda: validating(match_conditions={"a b": "true"}), "match_conditions='a b'"),
        (lambda: validating(variables={"a-b": "1"}), "variables='a-b': the name of a variable is an identifier"),
        (lambda: validating(variables={"a": " "}), "variables='a': the expression is empty"),
        (lambda: validating(audit_annotations={"a b": "''"}), "audit_annotations: 'a b'"),
        (lambda: validating(audit_annotations={str(n): "''" for n in range(21)}), "at most 20 are possible, got 21"),
        (lambda: validating(params=Limit), "write bindings=[Binding(params=ParamRef(name=...))]"),
        (lambda: validating(bindings=[Binding(params=ParamRef(name="a"))]), "the policy has no parameters"),
        (lambda: validating(bindings=Binding()), "write bindings=[Binding(...)]"),
        (lambda: validating(bindings=[Binding(), Binding()]), "two bindings have the name 'p'"),
        (
            lambda: validating(params=Namespace, bindings=[Binding(params=ParamRef(name="a", namespace="b"))]),
            "Namespace is cluster-scoped; remove namespace='b'",
        ),
        (
            lambda: validating(kinds=Namespace, params=ConfigMap, bindings=[Binding(params=ParamRef(name="a"))]),
            "Namespace has no namespace in which a ConfigMap could be found; write ParamRef(namespace=...)",
        ),
        (lambda: Binding(actions=["Deny", "Warn"]), "remove 'Warn'"),
        (lambda: Binding(actions=["Block"]), "write Deny, Warn, Audit"),  # type: ignore[list-item]
        (lambda: Binding(name="B"), "Binding: name='B'"),
        (lambda: ParamRef(), "give the parameters a name or a selector, got neither"),
        (lambda: ParamRef(name="a", selector=LabelSelector()), "got both"),
        (lambda: Validation(" "), "the expression is empty"),
        (lambda: Validation("true", message="a\nb"), "write one line"),
        (lambda: Validation("true", reason="No"), "reason='No': write one of Invalid, Forbidden"),  # type: ignore[arg-type]
        (lambda: mutating(operations=["DELETE"]), "an object that is deleted cannot be changed"),
        (lambda: mutating(bindings=[Binding(actions=["Deny"])]), "a mutating policy has none"),
        (lambda: mutating(reinvocation_policy="Always"), "reinvocation_policy='Always'"),
        (lambda: Rule(groups=["a", "*"], versions=["v1"], resources=["b"]), '"*" includes all others'),
        (lambda: Manager(policies=[PINNED, PINNED]), "two policies have the name 'pinned-images'"),
        (lambda: Manager(policies=[WebServer]), "policies: the class WebServer is not a policy"),  # type: ignore[list-item]
    ],
)
def test_what_an_api_server_would_reject_is_an_error(declare: Callable[[], object], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        declare()
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    ("declare", "expected"),
    [
        (
            lambda: validating("object.spec.replica < 5"),
            "policy p: validations[0]: line 1, column 12: undefined field 'replica'; did you mean 'replicas'?\n"
            " | object.spec.replica < 5\n"
            " | ...........^",
        ),
        (lambda: validating("requst.operation == 'CREATE'"), "did you mean 'request'?"),
        (lambda: validating("request.userInfo.usernme == 'ann'"), "field 'usernme'; did you mean 'username'?"),
        (lambda: validating("self.spec.replicas < 5"), "policies call it 'object'"),
        (lambda: validating("object.spec.image < 5"), "found no matching overload for '_<_'"),
        (
            lambda: validating("object.metadata.creationTimestamp < timestamp('2026-01-01T00:00:00Z')"),
            "found no matching overload for '_<_' applied to '(string, timestamp)'",
        ),
        (lambda: validating("object.metadata.__namespace__ == ''"), "undefined field '__namespace__'"),
        (lambda: validating("object.spec.tags"), "object.spec.tags: must evaluate to bool but got dyn"),
        (lambda: validating("params.spec.replicas < 5"), "the policy has no parameters"),
        (lambda: limited("params.spec.most < 5"), "undefined field 'most'; known are replicas"),
        (
            lambda: validating("variables.a == ''", variables={"a": "object.spec.imag"}),
            "policy p: variables['a']: line 1",
        ),
        (lambda: validating(match_conditions={"a": "object.specs == 1"}), "policy p: match_conditions['a']: line 1"),
        (
            lambda: validating(audit_annotations={"a": "string(object.spec.imag)"}),
            "policy p: audit_annotations['a']: line 1, column 19: undefined field 'imag'; did you mean 'image'?",
        ),
        (lambda: validating("object.spec.size > 1", kinds=[WebServer, Deployment]), "undefined field 'size'"),
        (lambda: validating("object.spec.tags.size() > 1", kinds=[WebServer, Deployment]), "for Deployment: line 1"),
        (
            lambda: validating("object.spec.replicas > 1", operations=["DELETE"]),
            "object is null for DELETE; use oldObject",
        ),
        (lambda: validating("oldObject == object", operations=["CREATE"]), "oldObject is null for CREATE; use object"),
        (
            lambda: validating("object.spec.replica < 5", kinds=Scale, parent=Deployment, subresources=["scale"]),
            "undefined field 'replica'",
        ),
        (
            lambda: mutating(ApplyConfiguration("Object{spec: Object.spec{replica: 3}}")),
            "policy p: mutations[0]: line 1, column 33: Object.spec has no field 'replica'; did you mean 'replicas'?",
        ),
        (
            lambda: mutating(JSONPatch("[JSONPatch{op: 'add', path: '/spec/replica', value: 1}]")),
            "path /spec/replica: there is no field 'replica'; did you mean 'replicas'?",
        ),
        (lambda: mutating(ApplyConfiguration("object")), "must evaluate to Object but got dyn"),
    ],
)
def test_an_expression_that_does_not_fit_the_types_is_an_error(declare: Callable[[], object], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        declare()
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "declare",
    [
        lambda: validating("dyn(object).spec.unknown == 1"),
        lambda: validating("object.metadata.labels['a'] == 'b'"),
        lambda: validating("object.metadata.namespace == request.namespace"),
        lambda: validating("object.spec.settings.any.field == 1"),
        lambda: validating("object.data.any == 1", kinds=ControllerRevision),
        lambda: validating("timestamp(object.metadata.creationTimestamp) < timestamp('2026-01-01T00:00:00Z')"),
        lambda: validating("object.binaryData.all(k, object.binaryData[k].startsWith('aGV5'))", kinds=ConfigMap),
        lambda: validating("authorizer.requestResource.check('approve').allowed()"),
        lambda: validating("namespaceObject.metadata.labels['stage'] == 'test'"),
        lambda: validating("oldObject == null || oldObject.spec.image == object.spec.image"),
        lambda: validating("object.anything == 1", kinds=Rule(groups=["*"], versions=["*"], resources=["*"])),
        lambda: validating(
            "object.spec.size > 1",
            kinds=Unstructured.of(APIResource("other.example.com", "v1", "Tool", "tools", "tool")),
        ),
        lambda: mutating(JSONPatch("[JSONPatch{op: 'add', path: '/metadata/labels/a~1b', value: 'x'}]")),
        lambda: mutating(JSONPatch("[JSONPatch{op: 'add', path: '/spec/tags/-', value: 'x'}]")),
    ],
)
def test_an_expression_may_use_everything_that_an_api_server_knows(declare: Callable[[], object]) -> None:
    declare()


def test_a_manager_knows_its_policies_also_after_a_replacement() -> None:
    manager = Manager(policies=[PINNED, LABELED], name="shop")
    assert manager.replace(name="other").policies == (PINNED, LABELED)
    assert all("admissionregistration.k8s.io" not in each.api_groups for each in manager.rbac_rules())
