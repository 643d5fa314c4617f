"""Admission webhooks: programs that the server asks about a write before it is stored.

`configurations` observes the stored configurations. `mutating` and `validating` decide which webhooks are called, in
which order, and what their answers mean. `review` writes AdmissionReviews and checks answers. `apiserver.webhooks`
sends them.

Follows k8s.io/apiserver pkg/admission/plugin/webhook and pkg/util/webhook.
"""
