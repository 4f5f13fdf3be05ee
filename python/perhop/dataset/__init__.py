"""The results of a run: tidy tables, the scenario, and a manifest.

On disk a dataset is a folder of Parquet tables and a `manifest.json`. Times are seconds since the
start of the run, sizes are bytes; every column is always present.

==============  ================================================================================
`dataset`       a dataset, its checks, reading and writing
`schema`        the format: columns of tables, and words in them
`manifest`      the circumstances of a run
`folder`        folders that are replaced in one step
`ensembles`     the folder of an ensemble
==============  ================================================================================
"""

from perhop.dataset.dataset import Dataset
from perhop.dataset.manifest import AgentRecord, Host, Live, Manifest, Warned
from perhop.dataset.schema import ANSWERS, CAUSES, FORMAT, NULLABLE, ROUTER, TABLES, empty

__all__ = [
    "ANSWERS",
    "CAUSES",
    "FORMAT",
    "NULLABLE",
    "ROUTER",
    "TABLES",
    "AgentRecord",
    "Dataset",
    "Host",
    "Live",
    "Manifest",
    "Warned",
    "empty",
]
