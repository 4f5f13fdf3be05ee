"""TLS of the clients of HTTP."""

import ssl
from functools import cache

import httpx


@cache
def trusted() -> ssl.SSLContext:
    """Return a context with the usual certificate authorities.

    Reading them takes 20 ms of CPU time, so a process does it once.
    """
    return httpx.create_ssl_context()
