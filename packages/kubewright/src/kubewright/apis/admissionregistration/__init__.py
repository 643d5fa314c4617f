"""The kinds of `admissionregistration.k8s.io`, one module a version."""
