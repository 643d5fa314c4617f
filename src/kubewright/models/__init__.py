"""Typed API objects (Model, CustomResource), and the CRDs, RBAC and manifests that follow from them."""
