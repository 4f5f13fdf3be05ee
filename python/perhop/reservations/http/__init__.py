"""The service over HTTP: an API described by OpenAPI, and the page that uses it."""

from perhop.reservations.http.application import application
from perhop.reservations.http.server import Serving, serve

__all__ = ["Serving", "application", "serve"]
