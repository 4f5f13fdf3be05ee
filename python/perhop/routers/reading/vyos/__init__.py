"""Reading configurations of VyOS, in braces and in `set` commands."""

from perhop.routers.reading.vyos.reader import read

__all__ = ["read"]
