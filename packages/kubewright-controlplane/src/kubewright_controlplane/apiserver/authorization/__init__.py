"""Authorization by RBAC, and of nodes by their Pods. Members of `system:masters` may do anything."""
