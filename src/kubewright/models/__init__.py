"""Typed API objects (Model, CustomResource), and the CRDs, RBAC and manifests that follow from them."""

from kubewright.models.custom import CustomResource as CustomResource
from kubewright.models.custom import PrintColumn as PrintColumn
from kubewright.models.custom import Scale as Scale
from kubewright.models.model import Model as Model
from kubewright.models.resource import APIResource as APIResource
from kubewright.models.resource import Object as Object
from kubewright.models.struct import Struct as Struct
from kubewright.models.struct import field as field
