"""Persistent volumes: claims are bound to volumes, and volumes made for claims, though nothing is ever stored.

claims       binds each claim to a volume that fits
volumes      says whether a volume is free, and what becomes of one whose claim is gone
provisioner  makes, grows and deletes volumes of classes that ask for it
"""
