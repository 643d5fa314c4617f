# Made by `kubewright generate client`, which writes it anew: change nothing here.
"""Typed access to the kinds of operator.k8s-summit.org/v1."""

from . import operator_v1 as operator_v1
from .clientset import Clientset as Clientset
from .informers import Informers as Informers

__all__ = [
    "Clientset",
    "Informers",
    "operator_v1",
]
