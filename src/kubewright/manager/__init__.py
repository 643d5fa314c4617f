"""Runs controllers as one process: life cycle, leader election, health, metrics, events."""

from kubewright.manager.certificates import Certificate
from kubewright.manager.leader import LeaderElection
from kubewright.manager.manager import Manager

__all__ = ["Certificate", "LeaderElection", "Manager"]
