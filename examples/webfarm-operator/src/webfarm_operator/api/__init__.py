"""The API: the kind WebServer, in the versions v1alpha1 and v1."""
