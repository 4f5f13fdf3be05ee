"""Configurations of real routers: read, run, checked, compared and written.

================  ============================================================================
`reading`         text of a configuration as policies of scenarios, with the fate of every line
`lint`            faults in configurations and scenarios
`writing`         policies of scenarios as the text of a configuration
================  ============================================================================
"""
