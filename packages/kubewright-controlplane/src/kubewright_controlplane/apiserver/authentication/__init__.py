"""Authentication: who sends a request.

The user of a request is that of its client certificate, or of its bearer token (a static token, or that of a service
account), or `system:anonymous`. A user with permission to `impersonate` may act as another user.
"""
