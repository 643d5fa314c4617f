"""Schemas of Kubernetes objects: decode, default and validate documents, track field ownership, evaluate CEL rules.

Pure: does no I/O.

    node         a schema as a tree, from which all other modules compile
    walk         paths in a document, and the errors found there
    formats      text formats and regular expressions
    cel          rules of custom kinds (`x-kubernetes-validations`)
    structural   one kind's schema: decode, default, validate; validation of the schema itself
    ownership    managedFields, server-side apply, strategic merge patch
"""
