"""The Job controller: runs Pods until enough of them have succeeded."""
