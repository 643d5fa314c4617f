"""Kubewright: build, test and run Kubernetes operators in Python.

    from kubewright import Context, CustomResource, Manager, Model, Result, controller
    from kubewright import markers as m

    models        your API as classes, and the CRDs, RBAC and JSON that follow from them
    markers       constraints and other markers of fields, for `Annotated`
    apis          the built-in kinds: `from kubewright.apis.apps.v1 import Deployment`
    client        talks to an API server: configuration, every verb, watches
    cache         a local copy of objects, kept in sync; reads see your own writes
    webhooks      fills in defaults, validates, converts between versions
    controllers   turns events into reconciles: work queue, sources, predicates
    plans         work in an order: phases and steps, with their progress in the status
    health        whether an object of any kind is ready
    manager       runs controllers: leader election, health, metrics, Events
    packages      KUDO's packages: operators that are data
    testing       a pytest plugin, errors, and what else tests of operators need
    machinery     what all packages share: errors, kinds, selectors, patches, quantities, time

The embedded control plane is the distribution `kubewright-controlplane`, the command line is `kubewright-cli`;
`pip install 'kubewright[dev]'` installs all three. Each name below is imported from its package on first use:
`import kubewright` loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    __version__: str
    from kubewright.apis.meta.v1 import Condition as Condition
    from kubewright.apis.meta.v1 import ObjectMeta as ObjectMeta
    from kubewright.apis.meta.v1 import owner_reference as owner_reference
    from kubewright.apis.meta.v1 import set_condition as set_condition
    from kubewright.client import Client as Client
    from kubewright.client import Config as Config
    from kubewright.controllers import Backoff as Backoff
    from kubewright.controllers import Context as Context
    from kubewright.controllers import Finalizer as Finalizer
    from kubewright.controllers import Result as Result
    from kubewright.controllers import Retry as Retry
    from kubewright.controllers import Watch as Watch
    from kubewright.controllers import controller as controller
    from kubewright.machinery.errors import AlreadyExists as AlreadyExists
    from kubewright.machinery.errors import AlreadyOwnedError as AlreadyOwnedError
    from kubewright.machinery.errors import APIError as APIError
    from kubewright.machinery.errors import ConfigError as ConfigError
    from kubewright.machinery.errors import Conflict as Conflict
    from kubewright.machinery.errors import ConnectionFailed as ConnectionFailed
    from kubewright.machinery.errors import DeadlineExceeded as DeadlineExceeded
    from kubewright.machinery.errors import Forbidden as Forbidden
    from kubewright.machinery.errors import Invalid as Invalid
    from kubewright.machinery.errors import KubewrightError as KubewrightError
    from kubewright.machinery.errors import ModelError as ModelError
    from kubewright.machinery.errors import NotFound as NotFound
    from kubewright.machinery.errors import TerminalError as TerminalError
    from kubewright.manager import LeaderElection as LeaderElection
    from kubewright.manager import Manager as Manager
    from kubewright.models import CustomResource as CustomResource
    from kubewright.models import Model as Model
    from kubewright.models import PolicyRule as PolicyRule
    from kubewright.models import PrintColumn as PrintColumn
    from kubewright.models import field as field

_HOMES: Final[dict[str, str]] = {
    "APIError": "kubewright.machinery.errors",
    "AlreadyExists": "kubewright.machinery.errors",
    "AlreadyOwnedError": "kubewright.machinery.errors",
    "Backoff": "kubewright.controllers",
    "Client": "kubewright.client",
    "Condition": "kubewright.apis.meta.v1",
    "Config": "kubewright.client",
    "ConfigError": "kubewright.machinery.errors",
    "Conflict": "kubewright.machinery.errors",
    "ConnectionFailed": "kubewright.machinery.errors",
    "Context": "kubewright.controllers",
    "CustomResource": "kubewright.models",
    "DeadlineExceeded": "kubewright.machinery.errors",
    "Finalizer": "kubewright.controllers",
    "Forbidden": "kubewright.machinery.errors",
    "Invalid": "kubewright.machinery.errors",
    "KubewrightError": "kubewright.machinery.errors",
    "LeaderElection": "kubewright.manager",
    "Manager": "kubewright.manager",
    "Model": "kubewright.models",
    "ModelError": "kubewright.machinery.errors",
    "NotFound": "kubewright.machinery.errors",
    "ObjectMeta": "kubewright.apis.meta.v1",
    "PolicyRule": "kubewright.models",
    "PrintColumn": "kubewright.models",
    "Result": "kubewright.controllers",
    "Retry": "kubewright.controllers",
    "TerminalError": "kubewright.machinery.errors",
    "Watch": "kubewright.controllers",
    "controller": "kubewright.controllers",
    "field": "kubewright.models",
    "owner_reference": "kubewright.apis.meta.v1",
    "set_condition": "kubewright.apis.meta.v1",
}

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
