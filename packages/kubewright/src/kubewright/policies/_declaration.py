"""Declares admission policies.

    pinned_images = ValidatingPolicy(
        "pinned-images",
        WebServer,
        validations=[Validation("!object.spec.image.endsWith(':latest')", message="pin the image to a version")],
    )

A policy is a declaration without any state of a run. Everything is checked when it is made, by the API server's rules.
If `kubewright-controlplane` is installed, the expressions are compiled with the types of the kinds and parameters.

Follows admissionregistration.k8s.io/v1.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Final, TypedDict, Unpack, cast, get_args

from kubewright.machinery._suggestions import shown
from kubewright.machinery.cel_names import is_identifier
from kubewright.machinery.errors import ConfigError
from kubewright.machinery.names import dns1123_subdomain, qualified_name
from kubewright.models import Object
from kubewright.policies._binding import Binding
from kubewright.policies._expressions import ApplyConfiguration, JSONPatch, Mutation, Validation
from kubewright.policies._rule import WRITES, Rule, RuleOperation, is_kind
from kubewright.webhooks import FailurePolicy, MatchPolicy, ReinvocationPolicy
from kubewright.webhooks._checks import check_choice, check_conditions, check_selector, has_control_plane

if TYPE_CHECKING:
    from kubewright.models._meta import LabelSelector

_MOST_ANNOTATIONS: Final = 20
_LONGEST_ANNOTATION: Final = 5 * 1024
_OF_CLASSES: Final = ("operations", "subresources", "parent")
"""The options that are about classes, not about rules."""


class PolicyOptions(TypedDict, total=False):
    """The options of `ValidatingPolicy` and `MutatingPolicy`. All have the API server's defaults.

    operations: by default create and update.
    subresources: which subresources match, such as `["status"]`; "" is the object itself, the default.
    parent: the kind that has the subresources, if their objects are of another kind:
        `ValidatingPolicy("limit", Scale, parent=Deployment, subresources=["scale"], ...)`.
    exclude: requests that do not match, although the kinds include them.
    match_policy: whether requests for other versions of the kind match. Default: "Equivalent".
    namespace_selector: the labels of the namespaces whose objects match. Default: all.
    object_selector: the labels of the objects that match. Users can avoid such a policy by setting other labels.
    match_conditions: expressions by name, all of which must be true for the policy to be evaluated.
    variables: expressions by name, in order. Later expressions use them as `variables.<name>`.
    failure_policy: what happens to a request if an expression has no value. Default: "Fail".
    params: the class of the parameters, which expressions use as `params`.
    bindings: where the policy applies. Default: one binding for all requests that match.
    """

    operations: Sequence[RuleOperation]
    subresources: Sequence[str]
    parent: type[Object]
    exclude: Sequence[Rule]
    match_policy: MatchPolicy
    namespace_selector: LabelSelector
    object_selector: LabelSelector
    match_conditions: Mapping[str, str]
    variables: Mapping[str, str]
    failure_policy: FailurePolicy
    params: type[Object]
    bindings: Sequence[Binding]


class Policy:
    """What both kinds of policies have."""

    def __init__(
        self, name: str, kinds: type[Object] | Rule | Sequence[type[Object] | Rule], options: PolicyOptions
    ) -> None:
        self.name = name
        """The name of the policy, without the prefix that manifests add."""
        if not isinstance(cast("object", name), str):
            raise ConfigError(
                f"a policy begins with its name, got {shown(name)}: write {type(self).__name__}('...', ...)"
            )
        if errors := dns1123_subdomain(name):
            raise ConfigError(f"policy {name!r}: {errors[0]}")
        self.rules: tuple[Rule, ...] = self._rules(kinds, options)
        """Which requests match."""
        self.exclude: tuple[Rule, ...] = tuple(options.get("exclude", ()))
        self.match_policy: MatchPolicy = options.get("match_policy", "Equivalent")
        self.namespace_selector: LabelSelector | None = options.get("namespace_selector")
        self.object_selector: LabelSelector | None = options.get("object_selector")
        self.match_conditions: Mapping[str, str] = dict(options.get("match_conditions", {}))
        self.variables: Mapping[str, str] = dict(options.get("variables", {}))
        self.failure_policy: FailurePolicy = options.get("failure_policy", "Fail")
        self.params: type[Object] | None = options.get("params")
        self.bindings: tuple[Binding, ...] = self._bindings(options.get("bindings"))
        """Each with a name."""
        self._check_options()
        for binding in self.bindings:
            self._check_params(binding)

    @property
    def kinds(self) -> tuple[type[Object], ...]:
        """The classes of the objects that match."""
        return tuple(dict.fromkeys(each.kind for each in self.rules if each.kind is not None))

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self.name!r})"

    def _rules(
        self, kinds: type[Object] | Rule | Sequence[type[Object] | Rule], options: PolicyOptions
    ) -> tuple[Rule, ...]:
        given: Iterable[object] = kinds if isinstance(kinds, Sequence) and not isinstance(kinds, str) else [kinds]
        rules: list[Rule] = []
        for each in given:
            if isinstance(each, Rule):
                rules.append(each)
            elif is_kind(each):
                rules.append(self._rule(each, options))
            else:
                raise ConfigError(f"{self._where}: kinds are classes or rules, got {shown(each)}")
        if not rules:
            raise ConfigError(f"{self._where}: it has no kinds, so that it would never apply; name at least one")
        if unused := [each for each in _OF_CLASSES if each in options and all(isinstance(one, Rule) for one in given)]:
            raise ConfigError(f"{self._where}: {unused[0]} is about classes, and all kinds are rules; give it to Rule")
        return tuple(rules)

    def _rule(self, kind: type[Object], options: PolicyOptions) -> Rule:
        try:
            return Rule.of(
                kind,
                operations=options.get("operations", WRITES),
                subresources=options.get("subresources", ("",)),
                parent=options.get("parent"),
            )
        except ConfigError as error:
            raise ConfigError(f"{self._where}: {str(error).removeprefix(f'Rule.of({kind.__name__}): ')}") from None

    def _bindings(self, given: Sequence[Binding] | None) -> tuple[Binding, ...]:
        if given is None:
            given = [Binding()]
        if isinstance(cast("object", given), Binding):
            raise ConfigError(f"{self._where}: bindings is a list: write bindings=[Binding(...)]")
        bindings = tuple(each if each.name else replace(each, name=self.name) for each in given)
        names = [each.name for each in bindings]
        if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
            raise ConfigError(
                f"{self._where}: two bindings have the name {repeated[0]!r}; give one another name, Binding(name=...)"
            )
        return bindings

    def _check_options(self) -> None:
        where = self._where
        check_choice(where, "match_policy", self.match_policy, get_args(MatchPolicy))
        check_choice(where, "failure_policy", self.failure_policy, get_args(FailurePolicy))
        check_selector(where, "namespace_selector", self.namespace_selector)
        check_selector(where, "object_selector", self.object_selector)
        check_conditions(where, self.match_conditions)
        for name, expression in self.variables.items():
            if not is_identifier(name):
                raise ConfigError(f"{where}: variables={name!r}: the name of a variable is an identifier in CEL")
            if not expression.strip():
                raise ConfigError(f"{where}: variables={name!r}: the expression is empty; write one in CEL")
        if self.params is not None and not is_kind(self.params):
            raise ConfigError(f"{where}: params takes the class of the parameters, got {shown(self.params)}")

    def _check_params(self, binding: Binding) -> None:
        where = f"{self._where}: binding {binding.name}"
        reference, kind = binding.params, self.params
        if kind is None:
            if reference is not None:
                raise ConfigError(f"{where}: the policy has no parameters; give it params=Kind, or remove the ParamRef")
            return
        if reference is None:
            raise ConfigError(
                f"{where}: nothing says which {kind.__name__} has the parameters; write "
                f"bindings=[Binding(params=ParamRef(name=...))]"
            )
        if reference.namespace and not kind.__api__.namespaced:
            raise ConfigError(f"{where}: {kind.__name__} is cluster-scoped; remove namespace={reference.namespace!r}")
        if kind.__api__.namespaced and not reference.namespace:
            for rule in self.rules:
                if rule.scope == "Cluster" or (rule.kind is not None and not rule.kind.__api__.namespaced):
                    of = rule.kind.__name__ if rule.kind is not None else "the objects"
                    raise ConfigError(
                        f"{where}: {of} has no namespace in which a {kind.__name__} could be found; write "
                        f"ParamRef(namespace=...)"
                    )

    def _compile(self) -> None:
        """Compile the expressions if the compiler is installed; an operator's image does not contain it."""
        if has_control_plane():
            from kubewright.policies._compiled import check_policy

            check_policy(self)

    @property
    def _where(self) -> str:
        return f"policy {self.name}"


class ValidatingPolicy(Policy):
    """A policy that accepts or rejects requests: a ValidatingAdmissionPolicy and its bindings."""

    def __init__(
        self,
        name: str,
        kinds: type[Object] | Rule | Sequence[type[Object] | Rule],
        *,
        validations: Sequence[Validation] = (),
        audit_annotations: Mapping[str, str] | None = None,
        **options: Unpack[PolicyOptions],
    ) -> None:
        """Declare a policy.

        name: unique in a manager, and in a cluster with the prefix that manifests add.
        kinds: the class whose objects the policy is about, or several classes and rules.
        validations: the expressions that must be true.
        audit_annotations: expressions by key, whose values are written to the audit log of the API server; null is
            not. At most 20.
        options: see `PolicyOptions`.

        Raises ConfigError for what an API server would reject, and, if kubewright-controlplane is installed, for
        expressions that do not fit the types of the objects and parameters.
        """
        super().__init__(name, kinds, options)
        self.validations = tuple(validations)
        self.audit_annotations: Mapping[str, str] = dict(audit_annotations or {})
        if not self.validations and not self.audit_annotations:
            raise ConfigError(f"{self._where}: it has neither validations nor audit_annotations; add a Validation")
        for each in self.validations:
            if not isinstance(cast("object", each), Validation):
                raise ConfigError(f"{self._where}: validations are Validation objects, got {shown(each)}")
        self._check_annotations()
        self._compile()

    def _check_annotations(self) -> None:
        where = f"{self._where}: audit_annotations"
        if len(self.audit_annotations) > _MOST_ANNOTATIONS:
            raise ConfigError(f"{where}: at most {_MOST_ANNOTATIONS} are possible, got {len(self.audit_annotations)}")
        for key, expression in self.audit_annotations.items():
            if errors := qualified_name(f"{self.name}/{key}"):
                raise ConfigError(f"{where}: {key!r}: {errors[0]}")
            if not expression.strip():
                raise ConfigError(f"{where}: {key!r}: the expression is empty; write one in CEL")
            if len(expression.strip().encode()) > _LONGEST_ANNOTATION:
                raise ConfigError(f"{where}: {key!r}: the expression is longer than {_LONGEST_ANNOTATION} bytes")


class MutatingPolicy(Policy):
    """A policy that changes objects before they are stored: a MutatingAdmissionPolicy and its bindings."""

    def __init__(
        self,
        name: str,
        kinds: type[Object] | Rule | Sequence[type[Object] | Rule],
        *,
        mutations: Sequence[Mutation],
        reinvocation_policy: ReinvocationPolicy = "Never",
        **options: Unpack[PolicyOptions],
    ) -> None:
        """Declare a policy. API servers evaluate it from Kubernetes 1.36 on.

        name, kinds, options: see `ValidatingPolicy`. A policy cannot change an object that is deleted.
        mutations: the changes, in order. Each sees the changes before it.
        reinvocation_policy: "IfNeeded" evaluates the policy again if the object changed afterwards. The changes must
            then be idempotent.

        Raises ConfigError as `ValidatingPolicy` does.
        """
        super().__init__(name, kinds, options)
        self.mutations = tuple(mutations)
        self.reinvocation_policy: ReinvocationPolicy = reinvocation_policy
        check_choice(self._where, "reinvocation_policy", reinvocation_policy, get_args(ReinvocationPolicy))
        if not self.mutations:
            raise ConfigError(f"{self._where}: it has no mutations; add an ApplyConfiguration or a JSONPatch")
        for each in self.mutations:
            if not isinstance(cast("object", each), (ApplyConfiguration, JSONPatch)):
                raise ConfigError(
                    f"{self._where}: mutations are ApplyConfiguration or JSONPatch objects, got {shown(each)}"
                )
        self._check_mutable()
        self._compile()

    def _check_mutable(self) -> None:
        rules = [*self.rules, *(rule for each in self.bindings for rule in each.rules)]
        if any("DELETE" in each.operations for each in rules):
            raise ConfigError(f"{self._where}: operations: an object that is deleted cannot be changed; remove DELETE")
        for each in self.bindings:
            if each.actions:
                raise ConfigError(
                    f"{self._where}: binding {each.name}: actions={list(each.actions)!r}: a mutating policy has none"
                )


def check_policies(policies: Sequence[object]) -> None:
    """Raise ConfigError for policies that one manager cannot have together."""
    for each in policies:
        if not isinstance(each, Policy):
            raise ConfigError(f"policies: {shown(each)} is not a policy; write ValidatingPolicy(...)")
    declared = [each for each in policies if isinstance(each, Policy)]
    for kind in (ValidatingPolicy, MutatingPolicy):
        own = [each for each in declared if isinstance(each, kind)]
        _check_distinct("policies", [each.name for each in own])
        _check_distinct("bindings", [binding.name for each in own for binding in each.bindings])


def _check_distinct(what: str, names: Sequence[str]) -> None:
    if repeated := [name for index, name in enumerate(names) if name in names[:index]]:
        raise ConfigError(f"two {what} have the name {repeated[0]!r}; give one of them another name")
