"""`dist/install.yaml`: the whole deployment in one file, for `kubectl apply --server-side -f`.

Has the same objects as `kubectl kustomize config/default`.
"""

from __future__ import annotations

from kubewright.machinery import yaml
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests


def text(manifests: Manifests) -> str:
    """Return the content of the file."""
    return f"{HEADER}\n{yaml.dump(*manifests.objects())}"
