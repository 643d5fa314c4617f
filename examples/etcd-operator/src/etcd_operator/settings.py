"""What the program knows of its own deployment."""

import os


def own_image() -> str:
    """Return the image that this program runs from. The Pods of backups run it, too."""
    return os.environ.get("OPERATOR_IMAGE", "etcd-operator:latest")
