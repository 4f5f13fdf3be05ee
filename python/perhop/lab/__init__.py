"""Labs: emulated networks that stay up, in which any program can run.

`up` starts a lab in a process of its own, `Lab.find` finds a lab that is up. `records` returns the
labs that are up, `endings` those that have ended otherwise than by `Lab.down`.
"""

from perhop.lab.client import Lab
from perhop.lab.record import Ending, Record, endings, records
from perhop.lab.start import up

__all__ = ["Ending", "Lab", "Record", "endings", "records", "up"]
