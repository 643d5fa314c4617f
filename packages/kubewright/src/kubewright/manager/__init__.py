"""Runs controllers as one process: life cycle, leader election, health, metrics, events."""

from kubewright.manager._certificates import Certificate
from kubewright.manager._leader import LeaderElection
from kubewright.manager._manager import Manager

__all__ = ["Certificate", "LeaderElection", "Manager"]
