"""The arguments of webhooks are checked where a webhook is declared, by the API server's rules."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from kubewright import ConfigError, Manager
from kubewright.apis.apps.v1 import Deployment
from kubewright.apis.autoscaling.v1 import Scale
from kubewright.apis.core.v1 import ConfigMap, Pod, Secret
from kubewright.apis.meta.v1 import LabelSelector, LabelSelectorRequirement
from kubewright.models import PolicyRule
from kubewright.webhooks import (
    AdmissionContext,
    AdmissionResponse,
    RawAdmissionContext,
    admission_handler,
    defaulter,
    validator,
)

from .served import WebServer


def check(ctx: AdmissionContext[WebServer]) -> None: ...


def test_names_and_paths_are_those_of_kubebuilder() -> None:
    mutating, validating = defaulter(WebServer)(check), validator(WebServer)(check)
    assert (mutating.name, mutating.path) == ("mwebserver-v1.kb.io", "/mutate-my-domain-v1-webserver")
    assert (validating.name, validating.path) == ("vwebserver-v1.kb.io", "/validate-my-domain-v1-webserver")


def test_the_path_of_a_kind_of_the_core_group_has_two_dashes() -> None:
    @defaulter(Pod)
    def set_defaults(ctx: AdmissionContext[Pod]) -> None: ...

    assert set_defaults.path == "/mutate--v1-pod"


def test_a_webhook_of_one_subresource_has_a_name_and_a_path_of_its_own() -> None:
    @validator(Scale, parent=Deployment, subresources=["scale"])
    def limit(ctx: AdmissionContext[Scale]) -> None: ...

    assert (limit.name, limit.path) == ("vdeployment-scale-v1.kb.io", "/validate-apps-v1-deployment-scale")
    assert limit.registration.resources == ("deployments/scale",)
    assert limit.registration.groups == ("apps",)


def test_subresources_are_reviewed_in_addition_to_the_object_if_both_are_named() -> None:
    both = validator(WebServer, subresources=["", "status"])(check)
    assert both.registration.resources == ("webservers", "webservers/status")
    assert both.path == "/validate-my-domain-v1-webserver"


def test_timeouts_are_seconds_or_a_timedelta() -> None:
    assert validator(WebServer, timeout=timedelta(seconds=3))(check).registration.timeout_seconds == 3


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"timeout": 0}, "timeout=0: write a whole number of seconds from 1 to 30"),
        ({"timeout": 31}, "timeout=31"),
        ({"timeout": 1.5}, "timeout=1.5"),
        ({"name": "web"}, "name='web': a webhook's name is a domain of at least three parts"),
        ({"name": "Web.my.domain"}, "name='Web.my.domain'"),
        ({"path": "convert"}, "path='convert'"),
        ({"path": "/convert"}, "path='/convert': /convert is the path of conversions"),
        ({"path": "/a//b"}, "path='/a//b'"),
        ({"path": "/a_b"}, "path='/a_b'"),
        ({"path": "/Pods"}, "path='/Pods'"),
        ({"operations": []}, "operations is empty"),
        ({"operations": "CREATE"}, "write a list: ['CREATE']"),
        ({"operations": ["create"]}, "did you mean 'CREATE'?"),
        ({"operations": ["CREATE", "CREATE"]}, "operations has 'CREATE' twice"),
        ({"failure_policy": "ignore"}, "failure_policy='ignore': write one of Fail, Ignore"),
        ({"match_policy": "Same"}, "match_policy='Same'"),
        ({"side_effects": "Some"}, "side_effects='Some': write one of None, NoneOnDryRun"),
        ({"scope": "Any"}, "scope='Any'"),
        ({"admission_review_versions": ["v2"]}, "admission_review_versions='v2'"),
        ({"service_port": 0}, "service_port=0"),
        ({"subresources": []}, "subresources is empty"),
        ({"subresources": "status"}, 'write a list: ["status"]'),
        ({"subresources": ["scale"]}, '@validator(Scale, parent=WebServer, subresources=["scale"])'),
        ({"match_conditions": {"a b": "true"}}, "match_conditions='a b': the name of a condition"),
        ({"match_conditions": {"a": " "}}, "match_conditions='a': the expression is empty"),
        ({"match_conditions": {str(number): "true" for number in range(65)}}, "at most 64 are possible, got 65"),
        ({"match_conditions": {"a": "object.spec.replicas >"}}, "Syntax error"),
        ({"match_conditions": {"a": "request.userInfo.nam == 'x'"}}, "undefined field 'nam'"),
        ({"match_conditions": {"a": "request.name"}}, "must evaluate to bool but got string"),
        ({"match_conditions": {"a": "params.x"}}, "undeclared reference to 'params'"),
        (
            {"match_conditions": {"a": "authorizer.grup('apps').resource('x').check('get').allowed()"}},
            "did you mean 'group'?",
        ),
        ({"match_conditions": {"a": "object.spec.enabled"}}, "compare the value, as in `... == true`"),
        ({"object_selector": LabelSelector(match_labels={"a b": "c"})}, "object_selector: "),
        (
            {
                "namespace_selector": LabelSelector(
                    match_expressions=[LabelSelectorRequirement(key="a", operator="Is", values=[])]
                )
            },
            'namespace_selector: "Is" is not a valid label selector operator',
        ),
    ],
)
def test_an_argument_that_an_api_server_would_reject_is_an_error(arguments: dict[str, Any], expected: str) -> None:
    with pytest.raises(ConfigError) as caught:
        validator(WebServer, **arguments)(check)
    assert expected in str(caught.value)


@pytest.mark.parametrize(
    "expression",
    [
        "object.spec.replicas > 3 && oldObject == null",
        "!('system:nodes' in request.userInfo.groups)",
        "authorizer.group('').resource('pods').check('create').allowed()",
        "request.options.fieldManager == 'kubectl'",
    ],
)
def test_match_conditions_may_use_what_the_api_server_has(expression: str) -> None:
    validator(WebServer, match_conditions={"condition": expression})(check)


def test_the_decorator_without_a_kind_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"@validator takes the kind that check reviews"):
        validator(check)  # type: ignore[arg-type] # the mistake


def test_a_function_with_other_parameters_is_an_error() -> None:
    def two(ctx: AdmissionContext[WebServer], old: WebServer) -> None: ...

    with pytest.raises(ConfigError, match=r"two is called with one argument"):
        validator(WebServer)(two)  # type: ignore[arg-type] # the mistake


def test_a_parent_without_subresources_is_an_error() -> None:
    with pytest.raises(ConfigError, match="with parent=Deployment, subresources names the subresources"):
        validator(Scale, parent=Deployment)


def test_two_webhooks_of_one_kind_need_different_names_and_paths() -> None:
    first, second = validator(WebServer)(check), validator(WebServer)(check)
    with pytest.raises(ConfigError, match=r"two webhooks have the name vwebserver-v1\.kb\.io"):
        Manager(webhooks=[first, second])
    other = validator(WebServer, name="vother-v1.kb.io")(check)
    with pytest.raises(ConfigError, match="two webhooks have the path /validate-my-domain-v1-webserver"):
        Manager(webhooks=[first, other])
    Manager(webhooks=[first, validator(WebServer, name="vother-v1.kb.io", path="/other")(check)])


def test_a_function_that_is_not_decorated_is_refused() -> None:
    with pytest.raises(ConfigError, match="check is not a webhook; decorate it with"):
        Manager(webhooks=[check])  # type: ignore[list-item] # the mistake


def test_the_permissions_follow_from_the_declaration() -> None:
    made = validator(
        WebServer, cached=[ConfigMap], writes=[Secret], rules=[PolicyRule(api_groups=[""], resources=["nodes"])]
    )(check)
    rules = Manager(webhooks=[made]).rbac_rules()
    assert [(each.resources, each.verbs) for each in rules[:3]] == [
        (["configmaps"], ["get", "list", "watch"]),
        (["secrets"], ["get", "list", "watch", "create", "update", "patch", "delete"]),
        (["nodes"], []),
    ]


def test_a_raw_handler_may_take_all_kinds() -> None:
    @admission_handler(
        "/all", name="all.my.domain", groups=["*"], versions=["*"], resources=["*/*"], operations=["DELETE"]
    )
    def allow(ctx: RawAdmissionContext) -> AdmissionResponse:
        return AdmissionResponse()

    assert (allow.registration.mutating, allow.registration.groups) == (False, ("*",))


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"resources": ["Pods"]}, "resources='Pods': write a plural in lower case"),
        ({"groups": ["*", "apps"]}, '"*" includes all others'),
        ({"resources": ["*", "pods"]}, '"*" includes all others'),
        ({"resources": ["*/*", "pods"]}, '"*/*" includes all others'),
        ({"versions": []}, "versions is empty"),
    ],
)
def test_the_rule_of_a_raw_handler_is_checked(arguments: dict[str, Any], expected: str) -> None:
    rule: dict[str, Any] = {"groups": [""], "versions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    with pytest.raises(ConfigError) as caught:
        admission_handler("/pods", name="pods.my.domain", **(rule | arguments))
    assert expected in str(caught.value)
