"""The service over HTTP: an API described by OpenAPI, and the page that uses it."""

from perhop_services.reservations.http.server import Serving, serve

__all__ = ["Serving", "serve"]
