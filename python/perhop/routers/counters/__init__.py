"""What real routers counted: the outputs of their commands as datasets of engine `router`.

A module for each family returns readings; `counted` takes differences between them.
"""

from perhop.routers.counters.counted import IN, OUT, Counted, as_object, dataset, read

__all__ = ["IN", "OUT", "Counted", "as_object", "dataset", "read"]
