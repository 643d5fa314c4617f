"""The kinds of `admissionregistration.k8s.io`, one module per version."""
