"""A page on which one plays with a scenario: `perhop studio`.

The page has the text of a scenario. It sends the text with every change; the server runs it by the
engine `sim` in this process, which has everything loaded, and answers with what the page draws.

===========  ==========================================================================
`lines`      the lines of the charts of a run, which the page gets first
`results`    its verdicts, warnings and means
`network`    the network as the page draws it
`runs`       runs on demand: the latest of each variant, limited in time
`saving`     the file that it began with
`server`     the page, for who has its address
===========  ==========================================================================

The page itself is written in TypeScript, below `frontend/` of the sources.
"""

from perhop.studio.server import Studio

__all__ = ["Studio"]
