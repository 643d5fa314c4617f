"""`kubewright.testing.evaluate`: what an API server does because of a policy, without a server."""

from __future__ import annotations

import json

import pytest

from kubewright import ConfigError, Invalid, ObjectMeta
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.autoscaling.v1 import Scale, ScaleSpec
from kubewright.apis.core.v1 import ConfigMap, Namespace
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.client import Unstructured
from kubewright.models import APIResource, PolicyRule
from kubewright.policies import (
    ApplyConfiguration,
    Binding,
    JSONPatch,
    MutatingPolicy,
    ParamRef,
    Rule,
    ValidatingPolicy,
    Validation,
)
from kubewright.testing import evaluate
from kubewright.webhooks import User
from unit.policies.shop import LABELED, LIMITED, PINNED, WebServer, limit, webserver


def test_a_request_that_meets_the_validations_is_allowed() -> None:
    result = evaluate(PINNED, create=webserver())
    assert (result.allowed, result.matched, result.message, result.messages) == (True, True, "", [])
    assert result.object == webserver()


def test_a_denial_has_the_message_of_the_api_server() -> None:
    result = evaluate(PINNED, create=webserver(image="nginx:latest"))
    denied = "ValidatingAdmissionPolicy 'pinned-images' with binding 'pinned-images' denied request: "
    assert not result.allowed
    assert result.status is not None
    assert result.status.code == 422
    expected = f'webservers.policies.example.com "web" is forbidden: {denied}pin the image to a version'
    assert result.message == expected
    assert [each.message for each in result.causes] == [f"{denied}pin the image to a version"]
    assert result.messages == ["pin the image to a version"]


def test_an_update_has_an_old_object_and_a_delete_has_no_new_one() -> None:
    policy = ValidatingPolicy(
        "kept",
        WebServer,
        operations=["UPDATE", "DELETE"],
        validations=[
            Validation("request.operation != 'UPDATE' || object.spec.image == oldObject.spec.image"),
            Validation("request.operation != 'DELETE' || oldObject.spec.replicas == 0", reason="Forbidden"),
        ],
    )
    assert evaluate(policy, update=webserver(replicas=2), old=webserver()).allowed
    assert not evaluate(policy, update=webserver(image="nginx:2"), old=webserver()).allowed
    result = evaluate(policy, delete=webserver())
    assert result.status is not None
    assert (result.allowed, result.status.code) == (False, 403)
    assert evaluate(policy, delete=webserver(replicas=0)).allowed


def test_parameters_are_found_as_the_binding_says() -> None:
    result = evaluate(LIMITED, create=webserver(replicas=4), params=limit(3))
    assert result.messages == ["at most 3 replicas"]
    assert result.audit_annotations == {"replicas": "4"}
    assert evaluate(LIMITED, create=webserver(replicas=4), params=[limit(4), limit(1, "other")]).allowed
    missing = evaluate(LIMITED, create=webserver(), params=limit(9, namespace="elsewhere"))
    assert "no params found for policy binding with `Deny` parameterNotFoundAction" in missing.message


def test_each_selected_parameter_is_evaluated() -> None:
    policy = ValidatingPolicy(
        "reserved",
        WebServer,
        params=ConfigMap,
        validations=[Validation("!(object.metadata.name in params.data)", message="the name is reserved")],
        bindings=[
            Binding(
                params=ParamRef(
                    selector=LabelSelector(match_labels={"reserved": "yes"}),
                    namespace="names",
                    parameter_not_found_action="Allow",
                )
            )
        ],
    )

    def names(name: str, reserved: str, label: str = "yes") -> ConfigMap:
        metadata = ObjectMeta(name=name, namespace="names", labels={"reserved": label})
        return ConfigMap(metadata=metadata, data={reserved: ""})

    assert evaluate(policy, create=webserver()).allowed
    assert evaluate(policy, create=webserver(), params=[names("a", "api"), names("b", "web", "no")]).allowed
    assert not evaluate(policy, create=webserver(), params=[names("a", "api"), names("b", "web")]).allowed


def test_a_parameter_that_an_api_server_rejects_is_an_error() -> None:
    with pytest.raises(Invalid, match=r"spec\.replicas"):
        evaluate(
            LIMITED,
            create=webserver(),
            params={
                "apiVersion": "policies.example.com/v1",
                "kind": "Limit",
                "metadata": {"name": "default"},
                "spec": {"replicas": "x"},
            },
        )


def test_bindings_warn_and_audit() -> None:
    policy = ValidatingPolicy(
        "hinted",
        WebServer,
        validations=[Validation("object.spec.replicas > 1", message="one replica is not enough")],
        bindings=[Binding(actions=["Warn"]), Binding(name="audited", actions=["Audit"])],
    )
    result = evaluate(policy, create=webserver())
    assert result.allowed
    assert result.warnings == [
        "Validation failed for ValidatingAdmissionPolicy 'hinted' with binding 'hinted': one replica is not enough"
    ]
    [failure] = json.loads(result.audit_annotations["validation.policy.admission.k8s.io/validation_failure"])
    assert (failure["binding"], failure["validationActions"]) == ("audited", ["Audit"])
    assert result.messages == ["one replica is not enough"] * 2


def test_the_user_the_namespace_and_permissions_are_those_of_the_request() -> None:
    policy = ValidatingPolicy(
        "approved",
        WebServer,
        validations=[
            Validation(
                "namespaceObject.metadata.labels.stage != 'production' || 'admins' in request.userInfo.groups || "
                "authorizer.group('policies.example.com').resource('webservers').check('approve').allowed()"
            )
        ],
    )
    production = Namespace(metadata=ObjectMeta(name="shop", labels={"stage": "production"}))
    test = Namespace(metadata=ObjectMeta(name="shop", labels={"stage": "test"}))
    approve = PolicyRule(api_groups=["policies.example.com"], resources=["webservers"], verbs=["approve"])
    assert evaluate(policy, create=webserver(), namespace=test).allowed
    assert not evaluate(policy, create=webserver(), namespace=production).allowed
    assert evaluate(policy, create=webserver(), namespace=production, user=User("ann", groups=["admins"])).allowed
    assert evaluate(policy, create=webserver(), namespace=production, permissions=[approve]).allowed


def test_a_request_that_the_policy_does_not_match_is_allowed_and_says_so() -> None:
    policy = ValidatingPolicy(
        "never",
        [WebServer],
        exclude=[Rule.of(WebServer, names=["legacy"])],
        namespace_selector=LabelSelector(match_labels={"kubernetes.io/metadata.name": "shop"}),
        match_conditions={"not-robots": "!request.userInfo.username.startsWith('robot')"},
        validations=[Validation("false")],
    )
    assert not evaluate(policy, create=webserver()).allowed
    for result in (
        evaluate(policy, create=webserver("legacy")),
        evaluate(policy, create=webserver(namespace="other")),
        evaluate(policy, create=webserver(), user=User("robot-1")),
    ):
        assert (result.allowed, result.matched) == (True, False)


def test_an_expression_without_a_value_denies_or_is_ignored_as_the_failure_policy_says() -> None:
    expression = "object.metadata.labels.team == 'web'"
    fails = ValidatingPolicy("p", WebServer, validations=[Validation(expression)])
    ignores = ValidatingPolicy("p", WebServer, validations=[Validation(expression)], failure_policy="Ignore")
    assert "no such key: labels" in evaluate(fails, create=webserver()).message
    assert evaluate(ignores, create=webserver()).allowed
    assert evaluate(fails, create=webserver(labels={"team": "web"})).allowed


def test_an_expression_that_costs_too_much_is_stopped() -> None:
    check = "authorizer.group('').resource('pods').check('list').allowed()"  # a third of what an expression may cost
    policy = ValidatingPolicy(
        "costly", WebServer, validations=[Validation(f"!object.spec.tags.exists(tag, tag == 'check' && {check})")]
    )
    assert evaluate(policy, create=webserver(tags=["check"] * 2)).allowed
    [message] = evaluate(policy, create=webserver(tags=["check"] * 4)).messages
    assert "operation cancelled: actual cost limit exceeded" in message


def test_mutations_change_the_object_in_order() -> None:
    result = evaluate(LABELED, create=webserver())
    assert result.allowed
    assert result.object.metadata.labels == {"team": "shop"}
    assert result.object.spec.replicas == 2
    labeled = evaluate(LABELED, create=webserver(labels={"team": "web"}))
    assert (labeled.matched, labeled.object) == (False, webserver(labels={"team": "web"}))


def test_a_mutation_that_fails_denies_the_request() -> None:
    policy = MutatingPolicy(
        "broken", WebServer, mutations=[JSONPatch("[JSONPatch{op: 'remove', path: '/metadata/labels/team'}]")]
    )
    result = evaluate(policy, create=webserver())
    assert not result.allowed
    assert "policy 'broken' with binding 'broken' denied request: JSON Patch: " in result.message


def test_a_mutation_with_if_needed_runs_again_on_what_it_changed() -> None:
    add = ApplyConfiguration("Object{spec: Object.spec{replicas: object.spec.replicas + 1}}")
    once = MutatingPolicy("p", WebServer, mutations=[add])
    again = MutatingPolicy("p", WebServer, mutations=[add], reinvocation_policy="IfNeeded")
    assert evaluate(once, create=webserver()).object.spec.replicas == 2
    assert evaluate(again, create=webserver()).object.spec.replicas == 3


def test_subresources_built_in_kinds_and_kinds_without_a_class_are_evaluated() -> None:
    small = ValidatingPolicy(
        "small",
        Scale,
        parent=Deployment,
        subresources=["scale"],
        operations=["UPDATE"],
        validations=[Validation("object.spec.replicas <= 5")],
    )

    def scale(replicas: int) -> Scale:
        return Scale(metadata=ObjectMeta(name="web", namespace="shop"), spec=ScaleSpec(replicas=replicas))

    assert evaluate(small, update=scale(5), old=scale(1)).allowed
    assert not evaluate(small, update=scale(6), old=scale(1)).allowed
    tool = Unstructured.of(APIResource("other.example.com", "v1", "Tool", "tools", "tool"))
    sharp = ValidatingPolicy("sharp", tool, validations=[Validation("object.spec.sharp == true")])
    document = {"apiVersion": "other.example.com/v1", "kind": "Tool", "metadata": {"name": "saw"}}
    assert evaluate(sharp, create={**document, "spec": {"sharp": True}}).allowed
    assert not evaluate(sharp, create={**document, "spec": {"sharp": False}}).allowed


def test_times_and_bytes_are_strings_as_in_a_document() -> None:
    policy = ValidatingPolicy(
        "greetings", ConfigMap, validations=[Validation("object.binaryData.all(k, object.binaryData[k] == 'aGV5')")]
    )
    hey = ConfigMap(metadata=ObjectMeta(name="a"), binary_data={"a": b"hey"})
    assert evaluate(policy, create=hey).allowed


def test_wildcards_are_evaluated_for_typed_objects() -> None:
    everything = Rule(groups=["*"], versions=["*"], resources=["*"], operations=["CREATE"])
    policy = ValidatingPolicy("named", everything, validations=[Validation("object.metadata.name != 'bad'")])
    assert evaluate(policy, create=ConfigMap(metadata=ObjectMeta(name="good"))).allowed
    assert not evaluate(policy, create=ConfigMap(metadata=ObjectMeta(name="bad"))).allowed


def test_a_request_that_the_policy_is_not_about_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"is not about DELETE.*its operations are CREATE, UPDATE"):
        evaluate(PINNED, delete=webserver())
    with pytest.raises(ConfigError, match=r"is not about objects of v1, Kind=ConfigMap|its kinds are WebServer"):
        evaluate(PINNED, create=ConfigMap(metadata=ObjectMeta(name="a")))  # type: ignore[misc]
    with pytest.raises(ConfigError, match="an update has old="):
        evaluate(PINNED, update=webserver())
    with pytest.raises(ConfigError, match="has no parameters"):
        evaluate(PINNED, create=webserver(), params=limit(1))
