"""Talks to an API server: transport, configuration, typed REST client, RESTMapper, watch."""
