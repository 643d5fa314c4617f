"""The documents that deploy an operator, from its Manager and the settings of its project.

settings    Settings: `[tool.kubewright]`, checked       program     facts from the program
manifests   render, Manifests: the documents             rbac, workload, webhooks, metrics, policies: by folder
kustomize   the documents as `config/`                   replacements   names that kustomize does not complete
installer   the documents as one file                    chart          the documents as a Helm chart
samples     a first object of each kind                  versions    fields that only some versions of a kind have
crd_changes, schema_changes: changes of CRDs that break users of a release

Documents are plain JSON. `Manifests.objects` has complete names, for a cluster. `Manifests.folders` has the short names
of `config/`, which kustomize completes.
"""

from kubewright_cli.manifests.manifests import Manifests as Manifests
from kubewright_cli.manifests.manifests import render as render
from kubewright_cli.manifests.settings import Settings as Settings
