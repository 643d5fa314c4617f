"""What a cluster needs for an operator to run, from its Manager and the settings of its project.

settings    Settings: `[tool.kubewright]`, checked         program     what the running program says
manifests   render, Manifests: the documents               rbac, workload, metrics: the documents of each folder

Documents are plain. `Manifests.objects` has them as a cluster is given them; `Manifests.folders` as they stand in
`config/`, with short names that kustomize completes.
"""

from kubewright_cli.manifests.manifests import Manifests as Manifests
from kubewright_cli.manifests.manifests import render as render
from kubewright_cli.manifests.settings import Settings as Settings
