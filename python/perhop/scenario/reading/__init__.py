"""From files to scenarios, and back.

================  ============================================================================
`loader`          from a file to a scenario, and back
`document`        YAML as data whose every part knows its line and column
`overrides`       changes to that data before it is validated
`schema`          the JSON Schema of files
================  ============================================================================
"""
