"""Runs controllers as one process: life cycle, leader election, health, metrics, events."""
