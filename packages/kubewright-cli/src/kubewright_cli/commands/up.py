"""`kubewright up`: an embedded control plane, until it is stopped."""

from kubewright_controlplane.command import command as command
