"""Runs controllers as one process: lifecycle, leader election, health, metrics, Events."""

from kubewright._runtime.log import get_logger
from kubewright.manager._certificates import Certificate, SelfSigned
from kubewright.manager._events import EventWriter
from kubewright.manager._leader import LeaderElection
from kubewright.manager._logs import configure as configure_logs
from kubewright.manager._manager import Lifespan, Manager, Runnable
from kubewright.manager._options import ManagerOptions

__all__ = [
    "Certificate",
    "EventWriter",
    "LeaderElection",
    "Lifespan",
    "Manager",
    "ManagerOptions",
    "Runnable",
    "SelfSigned",
    "configure_logs",
    "get_logger",
]
