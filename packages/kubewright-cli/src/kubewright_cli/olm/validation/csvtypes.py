"""The fields of a ClusterServiceVersion that OLM reads, and their types."""

from __future__ import annotations

import msgspec

from kubewright.apis.admissionregistration.v1 import RuleWithOperations
from kubewright.apis.apps.v1 import DeploymentSpec
from kubewright.apis.meta.v1 import LabelSelector
from kubewright.apis.rbac.v1 import PolicyRule
from kubewright.models import APIResource, Object, Struct
from kubewright.models import field as struct_field
from kubewright_cli.olm.serviceversion import KIND


class _Deployment(Struct):
    name: str = ""
    spec: DeploymentSpec | None = None
    label: dict[str, str] = {}


class _Permissions(Struct):
    service_account_name: str = ""
    rules: list[PolicyRule] = []


class _Strategy(Struct):
    deployments: list[_Deployment] = []
    permissions: list[_Permissions] = []
    cluster_permissions: list[_Permissions] = []


class _Install(Struct):
    strategy: str = ""
    spec: _Strategy | None = None


class _InstallMode(Struct):
    type: str = ""
    supported: bool = False


class _Descriptor(Struct):
    path: str = ""
    display_name: str = ""
    description: str = ""
    x_descriptors: list[str] = struct_field(default=[], name="x-descriptors")


class _Resource(Struct):
    name: str = ""
    kind: str = ""
    version: str = ""


class _Definition(Struct):
    name: str = ""
    version: str = ""
    kind: str = ""
    display_name: str = ""
    description: str = ""
    resources: list[_Resource] = []
    status_descriptors: list[_Descriptor] = []
    spec_descriptors: list[_Descriptor] = []
    action_descriptors: list[_Descriptor] = []


class _Definitions(Struct):
    owned: list[_Definition] = []
    required: list[_Definition] = []


class _APIService(_Definition):
    group: str = ""
    deployment_name: str = ""
    container_port: int = 0


class _APIServices(Struct):
    owned: list[_APIService] = []
    required: list[_APIService] = []


class _Webhook(Struct):
    generate_name: str = ""
    type: str = ""
    deployment_name: str = ""
    container_port: int = 0
    target_port: int | str | None = None
    rules: list[RuleWithOperations] = []
    failure_policy: str | None = None
    match_policy: str | None = None
    object_selector: LabelSelector | None = None
    side_effects: str | None = None
    timeout_seconds: int | None = None
    admission_review_versions: list[str] = []
    reinvocation_policy: str | None = None
    webhook_path: str | None = None
    conversion_crds: list[str] = struct_field(default=[], name="conversionCRDs")


class _Link(Struct):
    name: str = ""
    url: str = ""


class _Maintainer(Struct):
    name: str = ""
    email: str = ""


class _Icon(Struct):
    base64data: str = ""
    mediatype: str = ""


class _Image(Struct):
    name: str = ""
    image: str = ""


class _Cleanup(Struct):
    enabled: bool = False


class _Spec(Struct):
    install: _Install | None = None
    version: str | None = None
    release: str | None = None
    maturity: str = ""
    customresourcedefinitions: _Definitions | None = None
    apiservicedefinitions: _APIServices | None = None
    webhookdefinitions: list[_Webhook] = []
    min_kube_version: str = ""
    display_name: str = ""
    description: str = ""
    keywords: list[str] = []
    maintainers: list[_Maintainer] = []
    provider: _Link | None = None
    links: list[_Link] = []
    icon: list[_Icon] = []
    install_modes: list[_InstallMode] = []
    replaces: str = ""
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    selector: LabelSelector | None = None
    cleanup: _Cleanup | None = None
    skips: list[str] = []
    related_images: list[_Image] = []


class ClusterServiceVersion(Object):
    """A version of an operator, for OLM."""

    __api__ = APIResource("operators.coreos.com", "v1alpha1", KIND, "clusterserviceversions")

    spec: _Spec = msgspec.field(default_factory=_Spec)
