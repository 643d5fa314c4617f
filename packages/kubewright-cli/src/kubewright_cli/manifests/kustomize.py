"""`config/`: kustomize folders in kubebuilder's layout.

`config/default` is the deployment. To change it for one cluster, write an overlay with `config/default` as its base.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from kubewright.machinery import yaml
from kubewright.machinery.json import JSONObject
from kubewright_cli.manifests import policies, replacements
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Files, Manifests, crd_folder
from kubewright_cli.manifests.workload import image_parts

FOLDERS: Final = tuple(
    f"config/{name}"
    for name in (
        "crd", "rbac", "manager", "webhook", "certmanager", "policy", "replacements", "default", "prometheus",
        "network-policy", "samples",
    )
)  # fmt: skip
"""The generated folders. Other folders in `config/` belong to the project's authors."""

_ABOUT: Final = {
    "metrics_reader_role": "Bind it to the ServiceAccount of the metrics scraper.",
    "admin_role": "Not for the operator: grants everything on objects of this kind.",
    "editor_role": "Not for the operator: grants to create, change and delete objects of this kind.",
    "viewer_role": "Not for the operator: grants to read objects of this kind.",
    "metrics_service": "The Service of the metrics.",
    "monitor": "For the Prometheus operator. Deployed with `prometheus = true`.",
    "allow-metrics-traffic": "Restricts access to the metrics. Deployed with `network-policy = true`.",
    "allow-webhook-traffic": "Lets API servers reach the webhooks. Deployed with `network-policy = true`.",
    "webhook_certificate_role": "For the certificate of the webhooks, which the manager makes itself.",
    "default/kustomizeconfig": "Lets kustomize complete the name of the Service in the CRDs.",
    "replacements/names": "Completes names and namespaces that kustomize does not know.",
    "replacements/policy_namespace": "Removes the namespace that kustomize adds to policies, which are in none.",
    "policy/kustomizeconfig": "Lets kustomize complete the names of the policies in their bindings.",
}
"""Comments, by the end of a file's name."""


_CONFIGURATION: Final = "kustomizeconfig.yaml"
_SERVICE_REFERENCE: Final[JSONObject] = {
    "nameReference": [
        {
            "kind": "Service",
            "version": "v1",
            "fieldSpecs": [
                {
                    "kind": "CustomResourceDefinition",
                    "group": "apiextensions.k8s.io",
                    "path": "spec/conversion/webhook/clientConfig/service/name",
                }
            ],
        }
    ]
}
"""A reference to a Service that kustomize does not follow without a configuration."""


def files(manifests: Manifests, samples: Iterable[str]) -> dict[str, str]:
    """Return the files of `config/`: text by path. `samples` are the names of the files in `config/samples`."""
    patches = {f"{name}.yaml": each for name, each in manifests.crd_patches.items()}
    transformers, folders = replacements.documents(manifests), manifests.folders
    out = _folder(replacements.FOLDER, transformers, [])
    for folder, documents in folders.items():
        above = [f"../{other}" for other in manifests.deployed if other != "default"] if folder == "default" else []
        fields = (
            _default_fields(manifests, patches, transformers) if folder == "default" else _fields(folder, manifests)
        )
        out |= _folder(folder, documents, above, **fields)
    out |= {f"config/default/{name}": _text([each]) for name, each in patches.items()}
    if patches:
        out |= _configuration("default", _SERVICE_REFERENCE)
    if folders[policies.FOLDER]:
        out |= _configuration(policies.FOLDER, policies.REFERENCES)
    return out | _samples(samples)


def _configuration(folder: str, content: JSONObject) -> dict[str, str]:
    """Return the file that configures kustomize for a folder."""
    name = f"{folder}/{_CONFIGURATION.removesuffix('.yaml')}"
    return {f"config/{folder}/{_CONFIGURATION}": _text([content], _about(name))}


def files_of_kinds(crds: Iterable[JSONObject], samples: Iterable[str]) -> dict[str, str]:
    """Return the part of `files` that needs no Manager: CRDs and samples."""
    return _folder("crd", crd_folder(crds), []) | _samples(samples)


def _folder(folder: str, documents: Files, above: list[str], **fields: object) -> dict[str, str]:
    """Return the files of a folder, and its kustomization, which lists `above` first."""
    out = {f"config/{folder}/{name}.yaml": _text(each, _about(f"{folder}/{name}")) for name, each in documents.items()}
    if resources := [*above, *(f"{name}.yaml" for name in documents)]:
        out[f"config/{folder}/kustomization.yaml"] = _kustomization(resources, **fields)
    return out


def _samples(names: Iterable[str]) -> dict[str, str]:
    found = sorted(names)
    return {"config/samples/kustomization.yaml": _kustomization(found)} if found else {}


def _fields(folder: str, manifests: Manifests) -> JSONObject:
    """Return the fields of a kustomization other than its resources."""
    if folder == "manager":
        return {"images": [_image(manifests.settings.image)]}
    return {"configurations": [_CONFIGURATION]} if folder == policies.FOLDER else {}


def _default_fields(manifests: Manifests, patches: Iterable[str], transformers: Iterable[str]) -> JSONObject:
    """Return the fields of the kustomization in `config/default`. `patches` and `transformers` are names of files."""
    namespace = {} if manifests.spans_namespaces else {"namespace": manifests.settings.namespace}
    fields: JSONObject = {**namespace, "namePrefix": manifests.settings.name_prefix}
    if paths := list(patches):
        fields |= {"patches": [{"path": path} for path in paths], "configurations": [_CONFIGURATION]}
    return fields | ({"transformers": [f"../{replacements.FOLDER}"]} if any(transformers) else {})


def _image(image: str) -> JSONObject:
    """Return the entry that `kustomize edit set image controller=...` would write."""
    name, tag, digest = image_parts(image)
    chosen = {"newTag": tag, "digest": digest}
    return {"name": "controller", "newName": name, **{key: value for key, value in chosen.items() if value}}


def _kustomization(resources: Iterable[str], **fields: object) -> str:
    head = {"apiVersion": "kustomize.config.k8s.io/v1beta1", "kind": "Kustomization"}
    return _text([{**head, "resources": list(resources), **fields}])


def _text(documents: list[JSONObject], about: str = "") -> str:
    return f"{HEADER}\n{f'# {about}{chr(10)}' if about else ''}{yaml.dump(*documents)}"


def _about(name: str) -> str:
    return next((text for end, text in _ABOUT.items() if name.endswith(end)), "")
