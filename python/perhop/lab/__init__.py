"""Labs: emulated networks that stay up, in which one runs programs of one's own.

`up` starts one in a process of its own, `Lab.find` finds one that is up. `records` are those that
are up, and `endings` those that have ended otherwise than by `Lab.down`.
"""

from perhop.lab.client import Lab
from perhop.lab.record import Ending, Record, endings, records
from perhop.lab.start import up

__all__ = ["Ending", "Lab", "Record", "endings", "records", "up"]
