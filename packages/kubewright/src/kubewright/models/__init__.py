"""Typed API objects, and the documents that follow from them.

Model           a structure of an API, checked when its class is defined
CustomResource  a kind; PrintColumn and Scale describe it further
Object          any kind, custom or built in
codec           objects from and to JSON
custom_resource_definition   the CRD of a kind           role, cluster_role   RBAC documents from PolicyRules
"""

from msgspec import UNSET as UNSET
from msgspec import UnsetType as UnsetType

from kubewright.models._crd import custom_resource_definition as custom_resource_definition
from kubewright.models._crd import custom_resource_definitions as custom_resource_definitions
from kubewright.models._custom import ColumnFormat as ColumnFormat
from kubewright.models._custom import ColumnType as ColumnType
from kubewright.models._custom import CustomResource as CustomResource
from kubewright.models._custom import PrintColumn as PrintColumn
from kubewright.models._custom import Scale as Scale
from kubewright.models._kinds import kinds_of as kinds_of
from kubewright.models._model import Model as Model
from kubewright.models._rbac import PolicyRule as PolicyRule
from kubewright.models._rbac import cluster_role as cluster_role
from kubewright.models._rbac import role as role
from kubewright.models._resource import APIResource as APIResource
from kubewright.models._resource import Object as Object
from kubewright.models._struct import Struct as Struct
from kubewright.models._struct import field as field
