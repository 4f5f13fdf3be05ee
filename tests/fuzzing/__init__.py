"""Random scenarios, and what must hold of every run.

==============  ===================================================================================
`values`        a scalar, from the JSON Schema of what a file may say for it
`language`      a part of a scenario, from its model: every key that there is, and no list of them
`scenarios`     whole scenarios whose parts agree, and that are cheap to run
`cost`          about how much a run of one does
`invariants`    what must hold of every dataset
`damage`        texts changed at random, fast
`routers`       damaged configurations and counters of routers
`mutation`      bytes, words and parts of files, changed at random
==============  ===================================================================================

A new key of the model is generated without a change here. Where it never survives, because it
agrees with nothing else that is generated, `test_fuzz_runs.py` names it.
"""
