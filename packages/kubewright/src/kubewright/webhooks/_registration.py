"""How an API server calls an admission webhook: what `+kubebuilder:webhook` describes in Go.

Everything is checked when the webhook is declared, by the API server's rules. Match conditions are compiled if
`kubewright-controlplane` is installed.

Follows admissionregistration.k8s.io/v1 and controller-tools' pkg/webhook.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, Literal, NoReturn, TypeAlias, TypedDict, get_args

import msgspec

from kubewright.machinery.time import Seconds, seconds
from kubewright.webhooks._checks import (
    check_choice,
    check_conditions,
    check_known,
    check_list,
    check_places,
    check_selector,
    fail,
    has_control_plane,
)
from kubewright.webhooks._names import name_error, path_error
from kubewright.webhooks._review import Operation

if TYPE_CHECKING:
    from kubewright.models._meta import LabelSelector
    from kubewright.models._rbac import PolicyRule
    from kubewright.models._resource import Object

FailurePolicy: TypeAlias = Literal["Fail", "Ignore"]
"""What the API server does if a webhook does not answer: fail the request, or continue without the webhook."""

MatchPolicy: TypeAlias = Literal["Equivalent", "Exact"]
"""Whether requests for other versions of the kind match too. Their objects are converted to the webhook's version."""

SideEffects: TypeAlias = Literal["None", "NoneOnDryRun"]
"""Whether a webhook changes anything outside of the review. Dry runs fail if it does and does not look at `dry_run`."""

ReinvocationPolicy: TypeAlias = Literal["Never", "IfNeeded"]
"""Whether a mutating webhook is called again if a later one changed the object."""

ScopeType: TypeAlias = Literal["*", "Cluster", "Namespaced"]
"""The scope of the resources that match."""

DEFAULT_TIMEOUT: Final = 10.0
"""Seconds that the API server waits by default."""

_REVIEW_VERSIONS: Final = ("v1", "v1beta1")


class WebhookOptions(TypedDict, total=False):
    """The options of `defaulter`, `validator` and `admission_handler`. All have the API server's defaults.

    failure_policy: what happens to a request if the webhook does not answer. Default: "Fail".
    match_policy: whether requests for other versions of the kind match. Default: "Equivalent".
    side_effects: "NoneOnDryRun" for a webhook that changes something else, except in a dry run. Default: "None".
    timeout: how long the API server waits, 1 to 30 whole seconds. Default: 10.
    match_conditions: CEL expressions by name, with the variables `object`, `oldObject`, `request` and `authorizer`. The
        webhook is called if all are true, for example `{"not-nodes": "!('system:nodes' in request.userInfo.groups)"}`.
    namespace_selector: the labels of the namespaces whose objects match. An empty selector selects all. Default: all,
        except where `webhook_configurations` leaves some out.
    object_selector: the labels of the objects that match. Users can avoid such a webhook by setting other labels.
    scope: only cluster-scoped resources, or only those in namespaces. Default: "*", both.
    admission_review_versions: the versions of AdmissionReview that the webhook accepts. Default: ["v1"].
    service_port: the port of the Service, if it is not that of `webhook_configurations`.
    cached: kinds that the webhook reads from the manager's cache. Other kinds are read from the API server.
    writes: kinds that the webhook writes. rules: any other permission, for example to read without a cache.
    """

    failure_policy: FailurePolicy
    match_policy: MatchPolicy
    side_effects: SideEffects
    timeout: Seconds
    match_conditions: Mapping[str, str]
    namespace_selector: LabelSelector
    object_selector: LabelSelector
    scope: ScopeType
    admission_review_versions: Sequence[Literal["v1", "v1beta1"]]
    service_port: int
    cached: Sequence[type[Object]]
    writes: Sequence[type[Object]]
    rules: Sequence[PolicyRule]


class Registration(msgspec.Struct, frozen=True, kw_only=True):
    """How an API server calls an admission webhook. `WebhookOptions` describes the attributes.

    Raises ConfigError for values that an API server would reject.
    """

    mutating: bool
    name: str
    path: str
    groups: Sequence[str]
    versions: Sequence[str]
    resources: Sequence[str]
    operations: Sequence[Operation]
    failure_policy: FailurePolicy = "Fail"
    match_policy: MatchPolicy = "Equivalent"
    side_effects: SideEffects = "None"
    timeout: Seconds = DEFAULT_TIMEOUT
    reinvocation_policy: ReinvocationPolicy = "Never"
    match_conditions: Mapping[str, str]
    namespace_selector: LabelSelector | None = None
    object_selector: LabelSelector | None = None
    scope: ScopeType = "*"
    admission_review_versions: Sequence[Literal["v1", "v1beta1"]] = ("v1",)
    service_port: int | None = None

    def __post_init__(self) -> None:
        if error := name_error(self.name):
            self._fail("name", self.name, error)
        if error := path_error(self.path):
            self._fail("path", self.path, error)
        self._check_rule()
        self._check_choices()
        self._check_numbers()
        check_selector(self._where, "namespace_selector", self.namespace_selector)
        check_selector(self._where, "object_selector", self.object_selector)
        self._check_conditions()

    @property
    def timeout_seconds(self) -> int:
        """The timeout in whole seconds."""
        return int(seconds(self.timeout))

    def _check_rule(self) -> None:
        where = self._where
        for argument in ("operations", "groups", "versions", "resources"):
            check_list(where, argument, getattr(self, argument), subject="webhook")
        check_known(where, "operations", self.operations, get_args(Operation))
        check_places(where, self.groups, self.versions, self.resources)

    def _check_choices(self) -> None:
        choices = {
            "failure_policy": FailurePolicy,
            "match_policy": MatchPolicy,
            "side_effects": SideEffects,
            "reinvocation_policy": ReinvocationPolicy,
            "scope": ScopeType,
        }
        for argument, choice in choices.items():
            check_choice(self._where, argument, getattr(self, argument), get_args(choice))
        versions = self.admission_review_versions
        check_list(self._where, "admission_review_versions", versions, subject="webhook")
        check_known(self._where, "admission_review_versions", versions, _REVIEW_VERSIONS)

    def _check_numbers(self) -> None:
        timeout = seconds(self.timeout)
        if timeout != int(timeout) or not 1 <= timeout <= 30:
            self._fail("timeout", timeout, "write a whole number of seconds from 1 to 30")
        port = self.service_port
        if port is not None and not 1 <= port <= 65535:
            self._fail("service_port", port, "write a port from 1 to 65535")

    def _check_conditions(self) -> None:
        check_conditions(self._where, self.match_conditions)
        if self.match_conditions and has_control_plane():
            from kubewright.webhooks._conditions import compile_conditions  # an operator's image does not contain it

            compile_conditions(self._where, self.match_conditions)

    @property
    def _where(self) -> str:
        return f"{'mutating' if self.mutating else 'validating'} webhook {self.name}"

    def _fail(self, argument: str, value: object, advice: str) -> NoReturn:
        fail(self._where, argument, value, advice)
