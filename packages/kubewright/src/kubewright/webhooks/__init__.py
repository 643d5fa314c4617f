"""Webhooks: functions of yours that an API server calls before it stores or returns an object.

defaulter, validator  declare admission webhooks; WebhookOptions and Registration describe how they are called
AdmissionContext      what their functions receive; User is who sent the request
admission_handler     declares a webhook for the AdmissionReviews of any kind
Conversion, Spoke     convert the objects of a kind between its versions
webhook_configurations, conversion_strategy   the documents that tell an API server of them
webhook_objects       the names of the objects by which an API server reaches them
ManagedCertificate    a certificate that the manager makes itself; CertificateProvider for one of your own
LocalWebhooks         have an API server on this machine call this process
PodExecOptions, ...   the objects of requests that connect to a Pod, a Node or a Service
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Final

from kubewright.machinery.fields import FieldError
from kubewright.webhooks._connect import (
    NodeProxyOptions,
    PodAttachOptions,
    PodExecOptions,
    PodPortForwardOptions,
    PodProxyOptions,
    ServiceProxyOptions,
)
from kubewright.webhooks._context import AdmissionContext, BaseAdmissionContext, RawAdmissionContext
from kubewright.webhooks._conversion import Conversion, ConversionError, Spoke
from kubewright.webhooks._declaration import (
    AdmissionWebhook,
    Defaulter,
    DefaultFunction,
    RawFunction,
    RawWebhook,
    ValidateFunction,
    Validator,
    Verdict,
    admission_handler,
    defaulter,
    validator,
)
from kubewright.webhooks._deployment import WebhookObjects, webhook_objects
from kubewright.webhooks._local import LocalWebhooks
from kubewright.webhooks._managed import ManagedCertificate
from kubewright.webhooks._provider import CertificateProvider, ServerCertificate
from kubewright.webhooks._registration import (
    FailurePolicy,
    MatchPolicy,
    Registration,
    ReinvocationPolicy,
    ScopeType,
    SideEffects,
    WebhookOptions,
)
from kubewright.webhooks._review import AdmissionRequest, AdmissionResponse, Operation, User
from kubewright.webhooks._webhooks import Webhook

if TYPE_CHECKING:
    from kubewright.webhooks._configurations import WebhookConfiguration as WebhookConfiguration
    from kubewright.webhooks._configurations import WebhookService as WebhookService
    from kubewright.webhooks._configurations import conversion_strategy as conversion_strategy
    from kubewright.webhooks._configurations import webhook_configurations as webhook_configurations

__all__ = [
    "AdmissionContext",
    "AdmissionRequest",
    "AdmissionResponse",
    "AdmissionWebhook",
    "BaseAdmissionContext",
    "CertificateProvider",
    "Conversion",
    "ConversionError",
    "DefaultFunction",
    "Defaulter",
    "FailurePolicy",
    "FieldError",
    "LocalWebhooks",
    "ManagedCertificate",
    "MatchPolicy",
    "NodeProxyOptions",
    "Operation",
    "PodAttachOptions",
    "PodExecOptions",
    "PodPortForwardOptions",
    "PodProxyOptions",
    "RawAdmissionContext",
    "RawFunction",
    "RawWebhook",
    "Registration",
    "ReinvocationPolicy",
    "ScopeType",
    "ServerCertificate",
    "ServiceProxyOptions",
    "SideEffects",
    "Spoke",
    "User",
    "ValidateFunction",
    "Validator",
    "Verdict",
    "Webhook",
    "WebhookConfiguration",
    "WebhookObjects",
    "WebhookOptions",
    "WebhookService",
    "admission_handler",
    "conversion_strategy",
    "defaulter",
    "validator",
    "webhook_configurations",
    "webhook_objects",
]

_CONFIGURATIONS: Final = frozenset(
    {"WebhookConfiguration", "WebhookService", "conversion_strategy", "webhook_configurations"}
)
"""Imported on demand: an operator serves webhooks, and its tools write their configurations."""


if not TYPE_CHECKING:  # type checkers see only the names above

    def __getattr__(name: str) -> object:
        if name not in _CONFIGURATIONS:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        return getattr(importlib.import_module("kubewright.webhooks._configurations"), name)
