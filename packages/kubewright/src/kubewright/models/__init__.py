"""Typed API objects (Model, CustomResource), and the CRDs, RBAC and manifests that follow from them.

model       Model: a structure of a user's API, checked      custom    CustomResource: a kind, PrintColumn, Scale
markers     constraints and the like, for Annotated          meta      meta/v1: ObjectMeta, Condition, Quantity, ...
struct      Struct, field: any structure of an API           resource  Object, APIResource: any kind
codec       objects from and to JSON                         schema    the schema of a struct
crd         the CustomResourceDefinition of a kind           rbac      rules and roles
"""

from msgspec import UNSET as UNSET
from msgspec import UnsetType as UnsetType

from kubewright.models._custom import CustomResource as CustomResource
from kubewright.models._custom import PrintColumn as PrintColumn
from kubewright.models._custom import Scale as Scale
from kubewright.models._model import Model as Model
from kubewright.models._resource import APIResource as APIResource
from kubewright.models._resource import Object as Object
from kubewright.models._struct import Struct as Struct
from kubewright.models._struct import field as field
