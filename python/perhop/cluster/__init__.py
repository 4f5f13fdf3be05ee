"""Clusters of Dask, on which runs are made as on the cores of this machine.

==============  ================================================================================
`kinds`         an existing scheduler, or one of Dask's own kinds of cluster
`ssh`           a cluster on machines that SSH reaches
`slurm`         a cluster in jobs of Slurm
`kubernetes`    a cluster in pods of Kubernetes
`coroutines`    functions that wait for coroutines
`pool`          calls on a cluster, several in each of Dask's tasks
`calls`         what a worker does
==============  ================================================================================
"""

from perhop.cluster.kinds import connect
from perhop.cluster.pool import Cluster

__all__ = ["Cluster", "connect"]
