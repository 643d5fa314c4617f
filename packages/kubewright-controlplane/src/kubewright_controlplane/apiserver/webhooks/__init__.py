"""Calls of webhooks, for admission and for conversion: the client, the Services behind which they run, and the
validation of their addresses.

Follows k8s.io/apiserver pkg/util/webhook.
"""
