"""How an API server calls an admission webhook: what `+kubebuilder:webhook` describes in Go.

Everything is checked when the webhook is declared, by the API server's rules. Match conditions are compiled if
`kubewright-controlplane` is installed.

Follows admissionregistration.k8s.io/v1 and controller-tools' pkg/webhook.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from typing import TYPE_CHECKING, Final, Literal, TypeAlias, TypedDict, get_args

from kubewright.machinery._suggestions import did_you_mean
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.names import qualified_name
from kubewright.machinery.selectors import Selector
from kubewright.machinery.time import Seconds, seconds
from kubewright.models._values import plain
from kubewright.webhooks._names import name_fault, path_fault
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

_MAX_CONDITIONS: Final = 64
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Registration:
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
        if fault := name_fault(self.name):
            self._fail("name", self.name, fault)
        if fault := path_fault(self.path):
            self._fail("path", self.path, fault)
        self._check_rule()
        self._check_choices()
        self._check_numbers()
        self._check_selectors()
        self._check_conditions()

    @property
    def timeout_seconds(self) -> int:
        """The timeout in whole seconds."""
        return int(seconds(self.timeout))

    def _check_rule(self) -> None:
        self._check_listed("operations", self.operations, get_args(Operation))
        for argument, values in (("groups", self.groups), ("versions", self.versions), ("resources", self.resources)):
            _check_list(self._where, argument, values)
        for argument, values in (
            ("groups", self.groups),
            ("versions", self.versions),
            ("resources", [each for each in self.resources if "/" not in each]),
        ):
            if "*" in values and len(values) > 1:
                self._fail(argument, list(values), '"*" includes all others; leave the others out')
        if "*/*" in self.resources and len(self.resources) > 1:
            self._fail("resources", list(self.resources), '"*/*" includes all others; leave the others out')
        for each in self.resources:
            if not each or each.startswith("/") or each.endswith("/") or each != each.lower():
                self._fail("resources", each, 'write a plural in lower case, like "pods", "pods/exec", "*" or "*/*"')

    def _check_choices(self) -> None:
        choices = {
            "failure_policy": FailurePolicy,
            "match_policy": MatchPolicy,
            "side_effects": SideEffects,
            "reinvocation_policy": ReinvocationPolicy,
            "scope": ScopeType,
        }
        for argument, choice in choices.items():
            value, known = getattr(self, argument), get_args(choice)
            if value not in known:
                self._fail(argument, value, f"write one of {', '.join(known)}")
        self._check_listed("admission_review_versions", self.admission_review_versions, _REVIEW_VERSIONS)

    def _check_numbers(self) -> None:
        timeout = seconds(self.timeout)
        if timeout != int(timeout) or not 1 <= timeout <= 30:
            self._fail("timeout", timeout, "write a whole number of seconds from 1 to 30")
        port = self.service_port
        if port is not None and not 1 <= port <= 65535:
            self._fail("service_port", port, "write a port from 1 to 65535")

    def _check_selectors(self) -> None:
        for argument in ("namespace_selector", "object_selector"):
            selector: LabelSelector | None = getattr(self, argument)
            if selector is None:
                continue
            try:
                Selector.from_dict(plain(selector))
            except ValueError as error:
                raise ConfigError(f"{self._where}: {argument}: {error}") from error

    def _check_conditions(self) -> None:
        if len(self.match_conditions) > _MAX_CONDITIONS:
            raise ConfigError(
                f"{self._where}: match_conditions: at most {_MAX_CONDITIONS} are possible, got "
                f"{len(self.match_conditions)}; join some of them with &&"
            )
        for name, expression in self.match_conditions.items():
            if faults := qualified_name(name):
                self._fail("match_conditions", name, f"the name of a condition {faults[0]}")
            if not expression.strip():
                self._fail("match_conditions", name, "the expression is empty; write one in CEL")
        if self.match_conditions and find_spec("kubewright_controlplane") is not None:
            from kubewright.webhooks._conditions import check_conditions  # an operator's image does not contain it

            check_conditions(self._where, self.match_conditions)

    def _check_listed(self, argument: str, values: Sequence[str], known: Collection[str]) -> None:
        _check_list(self._where, argument, values)
        for each in values:
            if each not in known:
                self._fail(argument, each, f"write {', '.join(known)}{did_you_mean(each, known)}")

    @property
    def _where(self) -> str:
        return f"{'mutating' if self.mutating else 'validating'} webhook {self.name}"

    def _fail(self, argument: str, value: object, advice: str) -> None:
        raise ConfigError(f"{self._where}: {argument}={value!r}: {advice}")


def _check_list(where: str, argument: str, values: Sequence[str]) -> None:
    if isinstance(values, str):
        raise ConfigError(f"{where}: {argument}={values!r}: write a list: [{values!r}]")
    if not values:
        raise ConfigError(f"{where}: {argument} is empty, so that the webhook would never be called; name at least one")
    repeated = [each for index, each in enumerate(values) if each in values[:index]]
    if repeated:
        raise ConfigError(f"{where}: {argument} has {repeated[0]!r} twice; remove one")
