"""Kubewright: build, test and run Kubernetes operators in Python.

    from kubewright import Context, CustomResource, Manager, Model, Result, controller

    models        your API as classes, and the CRD, RBAC and YAML that follow from them
    apis          the built-in kinds: `from kubewright.apis.apps.v1 import Deployment`
    client        talks to an API server: configuration, every verb, watches
    cache         a local copy of objects, kept in step; reads see your own writes
    controller    turns events into reconciles
    manager       runs controllers: leader election, health, metrics, events
    testing       an embedded control plane, and a pytest plugin
    cli           the command `kubewright`: init, create, generate, up, run, install, ...
    machinery     what all share: errors, kinds, selectors, patches, quantities, time

`apiserver` and `controlplane` are the embedded control plane, `schema` and `http` what it and the SDK stand on. A name
imported from here is imported from its package when it is first used; `import kubewright` loads nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    __version__: str
    from kubewright.cache import Cache as Cache
    from kubewright.cache import Informer as Informer
    from kubewright.cache import Lister as Lister
    from kubewright.cache import Scope as Scope
    from kubewright.client import Client as Client
    from kubewright.client import Config as Config
    from kubewright.client import JSONPatch as JSONPatch
    from kubewright.client import MergePatch as MergePatch
    from kubewright.client import ObjectList as ObjectList
    from kubewright.client import PartialObjectMetadata as PartialObjectMetadata
    from kubewright.client import RESTMapper as RESTMapper
    from kubewright.client import StrategicPatch as StrategicPatch
    from kubewright.client import Unstructured as Unstructured
    from kubewright.client import extract as extract
    from kubewright.client import has_condition as has_condition
    from kubewright.client import pod_logs as pod_logs
    from kubewright.client import wait_for as wait_for
    from kubewright.client import wait_until_gone as wait_until_gone
    from kubewright.controllers import Backoff as Backoff
    from kubewright.controllers import Channel as Channel
    from kubewright.controllers import Context as Context
    from kubewright.controllers import Controller as Controller
    from kubewright.controllers import DeleteFuse as DeleteFuse
    from kubewright.controllers import Every as Every
    from kubewright.controllers import Polling as Polling
    from kubewright.controllers import RateLimit as RateLimit
    from kubewright.controllers import Reconciler as Reconciler
    from kubewright.controllers import Request as Request
    from kubewright.controllers import Result as Result
    from kubewright.controllers import Watch as Watch
    from kubewright.controllers import controller as controller
    from kubewright.machinery.errors import AlreadyExists as AlreadyExists
    from kubewright.machinery.errors import APIError as APIError
    from kubewright.machinery.errors import BadRequest as BadRequest
    from kubewright.machinery.errors import ConfigError as ConfigError
    from kubewright.machinery.errors import Conflict as Conflict
    from kubewright.machinery.errors import ConnectionFailed as ConnectionFailed
    from kubewright.machinery.errors import DeadlineExceeded as DeadlineExceeded
    from kubewright.machinery.errors import DecodeError as DecodeError
    from kubewright.machinery.errors import Forbidden as Forbidden
    from kubewright.machinery.errors import Gone as Gone
    from kubewright.machinery.errors import InternalError as InternalError
    from kubewright.machinery.errors import Invalid as Invalid
    from kubewright.machinery.errors import KubewrightError as KubewrightError
    from kubewright.machinery.errors import LeadershipLost as LeadershipLost
    from kubewright.machinery.errors import MethodNotAllowed as MethodNotAllowed
    from kubewright.machinery.errors import ModelError as ModelError
    from kubewright.machinery.errors import NotAcceptable as NotAcceptable
    from kubewright.machinery.errors import NotFound as NotFound
    from kubewright.machinery.errors import RequestTooLarge as RequestTooLarge
    from kubewright.machinery.errors import ServerTimeout as ServerTimeout
    from kubewright.machinery.errors import ServiceUnavailable as ServiceUnavailable
    from kubewright.machinery.errors import TerminalError as TerminalError
    from kubewright.machinery.errors import TooManyRequests as TooManyRequests
    from kubewright.machinery.errors import Unauthorized as Unauthorized
    from kubewright.machinery.errors import UnsupportedMediaType as UnsupportedMediaType
    from kubewright.manager import LeaderElection as LeaderElection
    from kubewright.manager import Manager as Manager
    from kubewright.markers import AtLeastOneOf as AtLeastOneOf
    from kubewright.markers import AtMostOneOf as AtMostOneOf
    from kubewright.markers import Default as Default
    from kubewright.markers import Description as Description
    from kubewright.markers import EmbeddedResource as EmbeddedResource
    from kubewright.markers import Enum as Enum
    from kubewright.markers import ExactlyOneOf as ExactlyOneOf
    from kubewright.markers import Example as Example
    from kubewright.markers import ExternalDocs as ExternalDocs
    from kubewright.markers import Format as Format
    from kubewright.markers import Immutable as Immutable
    from kubewright.markers import Keywords as Keywords
    from kubewright.markers import ListMapKey as ListMapKey
    from kubewright.markers import ListType as ListType
    from kubewright.markers import MapType as MapType
    from kubewright.markers import Maximum as Maximum
    from kubewright.markers import MaxItems as MaxItems
    from kubewright.markers import MaxLength as MaxLength
    from kubewright.markers import MaxProperties as MaxProperties
    from kubewright.markers import Minimum as Minimum
    from kubewright.markers import MinItems as MinItems
    from kubewright.markers import MinLength as MinLength
    from kubewright.markers import MinProperties as MinProperties
    from kubewright.markers import MultipleOf as MultipleOf
    from kubewright.markers import Pattern as Pattern
    from kubewright.markers import PreserveUnknownFields as PreserveUnknownFields
    from kubewright.markers import Required as Required
    from kubewright.markers import Schemaless as Schemaless
    from kubewright.markers import Title as Title
    from kubewright.markers import Type as Type
    from kubewright.markers import XValidation as XValidation
    from kubewright.models import UNSET as UNSET
    from kubewright.models import CustomResource as CustomResource
    from kubewright.models import Model as Model
    from kubewright.models import Object as Object
    from kubewright.models import PrintColumn as PrintColumn
    from kubewright.models import Scale as Scale
    from kubewright.models import UnsetType as UnsetType
    from kubewright.models import field as field
    from kubewright.models._meta import Condition as Condition
    from kubewright.models._meta import Int32 as Int32
    from kubewright.models._meta import Int64 as Int64
    from kubewright.models._meta import IntOrString as IntOrString
    from kubewright.models._meta import LabelSelector as LabelSelector
    from kubewright.models._meta import MicroTime as MicroTime
    from kubewright.models._meta import ObjectMeta as ObjectMeta
    from kubewright.models._meta import OwnerReference as OwnerReference
    from kubewright.models._meta import Quantity as Quantity
    from kubewright.models._meta import RawExtension as RawExtension
    from kubewright.models._meta import Time as Time
    from kubewright.models._meta import owner_reference as owner_reference
    from kubewright.models._meta import set_condition as set_condition
    from kubewright.models._rbac import PolicyRule as PolicyRule

_EXPORTS: Final[dict[str, str]] = {
    "kubewright.cache": "Cache Informer Lister Scope",
    "kubewright.client": (
        "Client Config JSONPatch MergePatch ObjectList PartialObjectMetadata RESTMapper StrategicPatch "
        "Unstructured extract has_condition pod_logs wait_for wait_until_gone"
    ),
    "kubewright.controllers": (
        "Backoff Channel Context Controller DeleteFuse Every Polling RateLimit Reconciler Request Result Watch "
        "controller"
    ),
    "kubewright.machinery.errors": (
        "APIError AlreadyExists BadRequest ConfigError Conflict ConnectionFailed DeadlineExceeded DecodeError "
        "Forbidden Gone InternalError Invalid KubewrightError LeadershipLost MethodNotAllowed ModelError "
        "NotAcceptable NotFound RequestTooLarge ServerTimeout ServiceUnavailable TerminalError TooManyRequests "
        "Unauthorized UnsupportedMediaType"
    ),
    "kubewright.manager": "LeaderElection Manager",
    "kubewright.models": "UNSET CustomResource Model Object PrintColumn Scale UnsetType field",
    "kubewright.markers": (
        "AtLeastOneOf AtMostOneOf Default Description EmbeddedResource Enum ExactlyOneOf Example ExternalDocs "
        "Format Immutable Keywords ListMapKey ListType MapType MaxItems MaxLength MaxProperties Maximum MinItems "
        "MinLength MinProperties Minimum MultipleOf Pattern PreserveUnknownFields Required Schemaless Title Type "
        "XValidation"
    ),
    "kubewright.models._meta": (
        "Condition Int32 Int64 IntOrString LabelSelector MicroTime ObjectMeta OwnerReference Quantity "
        "RawExtension Time owner_reference set_condition"
    ),
    "kubewright.models._rbac": "PolicyRule",
}
_HOMES: Final = {name: module for module, names in _EXPORTS.items() for name in names.split()}

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll]


if not TYPE_CHECKING:  # to a type checker the names above are all there are

    def __getattr__(name: str) -> object:
        if name == "__version__":
            return importlib.import_module("importlib.metadata").version("kubewright")
        if name not in _HOMES:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    return [*globals(), *_HOMES]
