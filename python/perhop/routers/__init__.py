"""Configurations of real routers: read, run, checked, compared and written.

================  ============================================================================
`reading`         text of a configuration as policies of scenarios, with the fate of every line
`headers`         a header for each class of a policy
`traffic`         a flow for each class
`network`         a network around a policy
`scenario`        a configuration as a scenario
`difference`      two policies under the same traffic
`lint`            faults in configurations and scenarios
`writing`         policies of scenarios as the text of a configuration
`counters`        what routers print of their counters, as datasets
================  ============================================================================
"""
