"""Authorization by RBAC. Members of `system:masters` may do anything."""
