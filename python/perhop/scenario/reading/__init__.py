"""Reading and writing of scenario files.

================  ============================================================================
`loader`          reading of a file as a scenario, and writing
`document`        YAML as data, with the line and column of every value
`overrides`       changes to that data before it is validated
`configurations`  policies of routers that a scenario refers to
`files`           files that a scenario refers to
`replay`          packets of a replay in a CSV file
`schema`          the JSON Schema of files
================  ============================================================================
"""
