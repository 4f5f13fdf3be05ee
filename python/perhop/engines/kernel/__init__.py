"""The `kernel` engine: real hosts, and Linux's own queues and rules between them.

==========  =====================================================================================
`run`       a run in real time; start here
`network`   a scenario's network set up in namespaces, by the commands of `perhop.linux`
`counts`    what Linux counts there, as tables of a dataset
==========  =====================================================================================
"""

from perhop.engines.kernel.run import KernelRun, start

__all__ = ["KernelRun", "start"]
