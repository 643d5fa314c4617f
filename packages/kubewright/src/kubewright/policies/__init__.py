"""Admission policies: rules in CEL that an API server evaluates itself, without a webhook.

ValidatingPolicy, MutatingPolicy   declare a policy, next to the class of its kind
Validation                         an expression that must be true, and what users see if it is not
ApplyConfiguration, JSONPatch      expressions that describe a change of the object
Rule                               which requests a policy matches, for more than one kind
Binding, ParamRef                  where a policy applies, what it does, and its parameters
PolicyOptions                      the options of both kinds of policies
policy_documents                   the documents for an API server
LocalPolicies                      how `kubewright run` and tests register the policies of a manager
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from kubewright.policies._binding import Binding, NotFoundAction, ParamRef, ValidationAction
from kubewright.policies._declaration import MutatingPolicy, Policy, PolicyOptions, ValidatingPolicy
from kubewright.policies._expressions import ApplyConfiguration, JSONPatch, Mutation, Reason, Validation
from kubewright.policies._local import LocalPolicies
from kubewright.policies._rule import Rule, RuleOperation

if TYPE_CHECKING:
    from kubewright.policies._documents import PolicyDocument as PolicyDocument
    from kubewright.policies._documents import policy_documents as policy_documents

__all__ = [
    "ApplyConfiguration",
    "Binding",
    "JSONPatch",
    "LocalPolicies",
    "MutatingPolicy",
    "Mutation",
    "NotFoundAction",
    "ParamRef",
    "Policy",
    "PolicyDocument",
    "PolicyOptions",
    "Reason",
    "Rule",
    "RuleOperation",
    "ValidatingPolicy",
    "Validation",
    "ValidationAction",
    "policy_documents",
]


if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        if name not in ("PolicyDocument", "policy_documents"):  # an operator does not need the documents
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("kubewright.policies._documents"), name)
