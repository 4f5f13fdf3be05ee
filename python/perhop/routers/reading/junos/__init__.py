"""Reading configurations of Junos, in braces and in `set` commands."""

from perhop.routers.reading.junos.reader import read

__all__ = ["read"]
