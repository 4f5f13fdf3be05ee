"""Places of a network's nodes in a drawing, which reports have, too."""

from perhop.layout import places

__all__ = ["places"]
