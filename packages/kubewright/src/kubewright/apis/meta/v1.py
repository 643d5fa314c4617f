"""meta/v1: the structures that all kinds share.

Follows k8s.io/apimachinery/pkg/apis/meta/v1.
"""

from __future__ import annotations

from kubewright.models._meta import JSON as JSON
from kubewright.models._meta import Condition as Condition
from kubewright.models._meta import DeleteOptions as DeleteOptions
from kubewright.models._meta import FieldSelectorRequirement as FieldSelectorRequirement
from kubewright.models._meta import GroupResource as GroupResource
from kubewright.models._meta import Int32 as Int32
from kubewright.models._meta import Int64 as Int64
from kubewright.models._meta import IntOrString as IntOrString
from kubewright.models._meta import LabelSelector as LabelSelector
from kubewright.models._meta import LabelSelectorRequirement as LabelSelectorRequirement
from kubewright.models._meta import ListMeta as ListMeta
from kubewright.models._meta import ManagedFieldsEntry as ManagedFieldsEntry
from kubewright.models._meta import MicroTime as MicroTime
from kubewright.models._meta import ObjectMeta as ObjectMeta
from kubewright.models._meta import OwnerReference as OwnerReference
from kubewright.models._meta import Preconditions as Preconditions
from kubewright.models._meta import Quantity as Quantity
from kubewright.models._meta import RawExtension as RawExtension
from kubewright.models._meta import Time as Time
from kubewright.models._meta import set_condition as set_condition
from kubewright.models._resource import owner_reference as owner_reference

__all__ = [
    "JSON",
    "Condition",
    "DeleteOptions",
    "FieldSelectorRequirement",
    "GroupResource",
    "Int32",
    "Int64",
    "IntOrString",
    "LabelSelector",
    "LabelSelectorRequirement",
    "ListMeta",
    "ManagedFieldsEntry",
    "MicroTime",
    "ObjectMeta",
    "OwnerReference",
    "Preconditions",
    "Quantity",
    "RawExtension",
    "Time",
    "owner_reference",
    "set_condition",
]
