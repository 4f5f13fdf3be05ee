"""The data of a scenario: how it is written, and what it holds.

================  ============================================================================
`scenario`        what a scenario consists of; start here
`topology`        nodes and links
`classes`         policies of classes, with `queues`, `marking` and the settings of `cbq`
`traffic`         flows, with `tcp` or a `replay` of packets, and pings
`agents`          who sends and receives on a live network
`changes`         what changes while it runs
`expectations`    what should come of it, by `metrics`
`quantities`      fields with units; each field is a `text.Text`
`names`           names and addresses
`dscp`            code points
`network`         bandwidth, limits, overhead and ports
`base`            what all models have in common
================  ============================================================================
"""
