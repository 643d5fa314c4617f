"""Persistent volumes: claims are bound, and volumes are provisioned, but they store nothing.

claims       binds each claim to a suitable volume
volumes      reports the phase of a volume, and reclaims released volumes
protection   keeps finalizers on what is in use
provisioner  creates, expands and deletes volumes of its storage classes
binding      which volume fits a claim
"""
