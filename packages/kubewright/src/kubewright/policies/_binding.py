"""Where a policy applies, what happens if a validation fails, and which parameters it has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias, get_args

from kubewright.machinery.errors import ConfigError
from kubewright.machinery.names import dns1123_label, dns1123_subdomain, path_segment
from kubewright.policies._rule import Rule
from kubewright.webhooks import MatchPolicy
from kubewright.webhooks._checks import check_choice, check_known, check_list, check_selector

if TYPE_CHECKING:
    from kubewright.models._meta import LabelSelector

ValidationAction: TypeAlias = Literal["Deny", "Warn", "Audit"]
"""What a failed validation does: denies the request, warns the user, or is written to the audit log."""

NotFoundAction: TypeAlias = Literal["Allow", "Deny"]
"""What a binding does with a request if its parameters do not exist."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ParamRef:
    """The parameters of a binding: an object by name, or those with some labels. Each is evaluated for itself.

    Raises ConfigError unless there is either a name or a selector.
    """

    name: str = ""
    selector: LabelSelector | None = None
    """An empty selector selects all."""
    namespace: str = ""
    """Where the parameters are. Default: in the namespace of the request."""
    parameter_not_found_action: NotFoundAction = "Deny"
    """"Deny": the failure policy decides about requests for which no parameters exist. "Allow": they pass."""

    def __post_init__(self) -> None:
        if bool(self.name) == (self.selector is not None):
            given = "both" if self.name else "neither"
            raise ConfigError(f"ParamRef: give the parameters a name or a selector, got {given}")
        if self.name and (errors := path_segment(self.name)):
            raise ConfigError(f"ParamRef: name={self.name!r}: {errors[0]}")
        if self.namespace and (errors := dns1123_label(self.namespace)):
            raise ConfigError(f"ParamRef: namespace={self.namespace!r}: {errors[0]}")
        check_selector("ParamRef", "selector", self.selector)
        action = self.parameter_not_found_action
        check_choice("ParamRef", "parameter_not_found_action", action, get_args(NotFoundAction))


@dataclass(frozen=True, slots=True, kw_only=True)
class Binding:
    """Puts a policy into effect, for all requests that the policy matches or for some of them.

    Raises ConfigError for values that an API server would reject.
    """

    name: str = ""
    """Unique in a manager. Default: the name of the policy."""
    actions: Sequence[ValidationAction] = ()
    """What failed validations do. Default: deny the request. Not "Deny" and "Warn" at once. A mutating policy has
    none."""
    params: ParamRef | None = None
    """The parameters, if the policy has any."""
    namespace_selector: LabelSelector | None = None
    """The labels of the namespaces whose objects match. Default: all."""
    object_selector: LabelSelector | None = None
    """The labels of the objects that match. Default: all."""
    rules: Sequence[Rule] = ()
    """Which of the policy's requests match. Default: all."""
    exclude: Sequence[Rule] = ()
    """Requests that do not match, although `rules` include them."""
    match_policy: MatchPolicy = "Equivalent"

    def __post_init__(self) -> None:
        where = f"Binding {self.name}".rstrip()
        if self.name and (errors := dns1123_subdomain(self.name)):
            raise ConfigError(f"Binding: name={self.name!r}: {errors[0]}")
        if self.actions:
            check_list(where, "actions", self.actions, subject="policy")
            check_known(where, "actions", self.actions, get_args(ValidationAction))
        if "Deny" in self.actions and "Warn" in self.actions:
            raise ConfigError(
                f"{where}: actions={list(self.actions)!r}: a denied request shows the message already; remove 'Warn'"
            )
        check_selector(where, "namespace_selector", self.namespace_selector)
        check_selector(where, "object_selector", self.object_selector)
        check_choice(where, "match_policy", self.match_policy, get_args(MatchPolicy))
