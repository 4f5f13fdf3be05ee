"""Labs: emulated networks that stay up, in which one runs programs of one's own.

`up` starts one in a process of its own, `Lab.find` finds one that is up.
"""

from perhop.lab.client import Lab
from perhop.lab.record import Record, records
from perhop.lab.start import up

__all__ = ["Lab", "Record", "records", "up"]
