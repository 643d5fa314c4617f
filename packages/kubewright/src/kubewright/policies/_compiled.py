"""Policies are compiled where they are declared, so that a mistake is found there.

The compiler is in `kubewright_controlplane`, which an operator's image does not contain.
"""

from __future__ import annotations

import re
from typing import Final

from kubewright.machinery.errors import ConfigError
from kubewright.models import codec
from kubewright.policies._declaration import Policy, ValidatingPolicy
from kubewright.policies._definitions import definitions_of
from kubewright.policies._documents import policy_documents
from kubewright_controlplane.policies import PolicyError, binding_errors, policy_errors

_ITEM: Final = re.compile(r"spec\.(\w+)\[(\d+)\]\.(.*)")


def check_policy(policy: Policy) -> None:
    """Raise ConfigError for the first error of a policy and its bindings."""
    document, *bindings = (codec.to_dict(each) for each in policy_documents([policy]))
    for error in policy_errors(document, definitions=definitions_of(policy)):
        raise ConfigError(f"policy {policy.name}: {_described(error, policy)}")
    for binding in bindings:
        for error in binding_errors(binding):
            raise ConfigError(
                f"policy {policy.name}: binding {binding['metadata']['name']}: {_described(error, policy)}"
            )


def _described(error: PolicyError, policy: Policy) -> str:
    """Return an error with the argument in Python that it is about."""
    where = _argument(error.field, policy)
    shows_source = "\n" in error.message or not error.expression
    return f"{where}: {error.message}" if shows_source else f"{where}: {error.expression}: {error.message}"


def _argument(field: str, policy: Policy) -> str:
    found = _ITEM.fullmatch(field)
    if found is None:
        return field
    items, index, rest = found[1], int(found[2]), found[3]
    match items:
        case "matchConditions":
            return f"match_conditions[{list(policy.match_conditions)[index]!r}]"
        case "variables":
            return f"variables[{list(policy.variables)[index]!r}]"
        case "auditAnnotations":
            return f"audit_annotations[{_key(policy, index)!r}]"
        case "validations" if rest == "messageExpression":
            return f"validations[{index}].message_expression"
        case "validations" | "mutations":
            return f"{items}[{index}]"
        case _:
            return field


def _key(policy: Policy, index: int) -> str:
    return list(policy.audit_annotations)[index] if isinstance(policy, ValidatingPolicy) else ""
