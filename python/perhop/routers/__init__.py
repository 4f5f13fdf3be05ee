"""Configurations of real routers: read, run, checked, compared and written.

================  ============================================================================
`reading`         text of a configuration as policies of scenarios, with the fate of every line
`writing`         policies of scenarios as the text of a configuration
================  ============================================================================
"""
