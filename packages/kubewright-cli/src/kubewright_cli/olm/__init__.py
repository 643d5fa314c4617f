"""Bundles and catalogs for the Operator Lifecycle Manager (OLM).

bundle, serviceversion, descriptors   what `kubewright generate bundle` writes
catalog                               what `kubewright generate catalog` writes
validation                            the rules of OLM's own validators, as `kubewright bundle validate` checks them
"""
