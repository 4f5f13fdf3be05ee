"""`make mutants`: single faults put into the code, and which of them no test sees.

================  ============================================================================
`areas`           parts of the code, each with the tests that are to see its faults
`mutation`        a single fault, and its place
`rust`, `python`  the faults that code in each language may have
`trial`           a copy of the tree, in which the tests of an area run against a fault
`reasons`         faults that no test sees, each with the reason
================  ============================================================================
"""
