"""ServiceAccount: every Pod has one, and mounts its token.

If a Pod needs the account `default` before the controller has created it, it is created here. kube-apiserver instead
waits about a second for the controller; in the same process there is no need to wait. Follows k8s.io/kubernetes
plugin/pkg/admission/serviceaccount.
"""

from __future__ import annotations

from typing import Final

from kubewright.machinery import names
from kubewright.machinery.json import JSONObject
from kubewright_controlplane.apiserver.admission.plugin import Plugin, concerns, rejection
from kubewright_controlplane.apiserver.authorization.podreferences import MIRROR, secrets_and_config_maps
from kubewright_controlplane.apiserver.registry.model import Attributes
from kubewright_controlplane.apiserver.registry.resourceset import ResourceSet
from kubewright_controlplane.schema.steps import on_loop

_DEFAULT: Final = "default"
_MOUNT_PATH: Final = "/var/run/secrets/kubernetes.io/serviceaccount"
_VOLUME_PREFIX: Final = "kube-api-access-"
_TOKEN_SECONDS: Final = 3607
"""The odd number is Kubernetes' own. It identifies tokens that the API server has mounted."""
_FILE_MODE: Final = 0o644


class ServiceAccount(Plugin):
    name = "ServiceAccount"
    only_for = ("pods",)

    def __init__(self, resources: ResourceSet) -> None:
        self._resources = resources

    def admit(self, attributes: Attributes) -> None:
        if not concerns(attributes, "pods", "CREATE"):
            return
        pod = attributes.object
        assert pod is not None
        spec = pod["spec"]
        if MIRROR in (pod["metadata"].get("annotations") or {}):
            self.validate(attributes)
            return
        name = spec.get("serviceAccountName") or _DEFAULT
        spec["serviceAccountName"] = spec["serviceAccount"] = name
        account = self._account(attributes, name)
        if _automounts(account, spec):
            _mount_token(spec)
        if not spec.get("imagePullSecrets") and account.get("imagePullSecrets"):
            spec["imagePullSecrets"] = [{"name": each.get("name", "")} for each in account["imagePullSecrets"]]

    def validate(self, attributes: Attributes) -> None:
        """Reject a mirror Pod that has an account, a Secret or a token."""
        if not concerns(attributes, "pods", "CREATE") or attributes.object is None:
            return
        if MIRROR not in (attributes.object["metadata"].get("annotations") or {}):
            return
        spec = attributes.object["spec"]
        if spec.get("serviceAccountName"):
            raise rejection(attributes, "a mirror pod may not reference service accounts")
        if any(resource == "secrets" for resource, _ in secrets_and_config_maps(spec)):
            raise rejection(attributes, "a mirror pod may not reference secrets")
        for volume in spec.get("volumes") or ():
            if any(each.get("serviceAccountToken") for each in (volume.get("projected") or {}).get("sources") or ()):
                raise rejection(attributes, "a mirror pod may not use ServiceAccountToken volume projections")

    def _account(self, attributes: Attributes, name: str) -> JSONObject:
        registry = self._resources.registry("serviceaccounts")
        account = registry.read(name, attributes.namespace)
        if account is None and name == _DEFAULT and not attributes.dry_run:
            on_loop(lambda: registry.create({"metadata": {"name": name}}, attributes.namespace))
            account = registry.read(name, attributes.namespace)
        if account is None:
            place = f"{attributes.namespace}/{name}"
            why = f'error looking up service account {place}: serviceaccount "{name}" not found'
            raise rejection(attributes, why)
        return account


def _automounts(account: JSONObject, spec: JSONObject) -> bool:
    for each in (spec, account):
        if each.get("automountServiceAccountToken") is not None:
            return bool(each["automountServiceAccountToken"])
    return True


def _mount_token(spec: JSONObject) -> None:
    volumes: list[JSONObject] = spec.get("volumes") or []
    present = [volume["name"] for volume in volumes if volume.get("name", "").startswith(_VOLUME_PREFIX)]
    volume_name = present[0] if present else names.generate_name(_VOLUME_PREFIX)
    mount = {"name": volume_name, "readOnly": True, "mountPath": _MOUNT_PATH}
    mounted = False
    for container in [*(spec.get("initContainers") or ()), *(spec.get("containers") or ())]:
        mounts: list[JSONObject] = container.setdefault("volumeMounts", [])
        if not any(each.get("mountPath") == _MOUNT_PATH for each in mounts):
            mounts.append(dict(mount))
            mounted = True
    if mounted and not present:
        spec["volumes"] = [*volumes, {"name": volume_name, "projected": _token_source()}]


def _token_source() -> JSONObject:
    namespace = {"path": "namespace", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.namespace"}}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": _TOKEN_SECONDS, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [namespace]}},
        ],
        "defaultMode": _FILE_MODE,
    }
