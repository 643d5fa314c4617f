"""`dist/install.yaml`: the whole deployment in one file, for `kubectl apply --server-side -f`.

It holds what `kubectl kustomize config/default` prints, object by object.
"""

from __future__ import annotations

from kubewright.machinery import yaml
from kubewright_cli.manifests.generated import HEADER
from kubewright_cli.manifests.manifests import Manifests


def text(manifests: Manifests) -> str:
    """What is in the file."""
    return f"{HEADER}\n{yaml.dump(*manifests.objects())}"
