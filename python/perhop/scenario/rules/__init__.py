"""The rules of a scenario: findings, each with its place.

================  ============================================================================
`findings`        what is wrong at a place, and where that place is in a file
`checks`          every rule, and the sections of a scenario that it reads:
`network`         … on nodes and links, with `marking` and `ipv6`, …
`senders`         … on flows and pings, with `datagrams` and `probes`, …
`policies`        … on policies, with `disciplines` and `cbq`, …
`timeline`        … on changes, …
`expectations`    … and on what should come of a run
`wording`         what is wrong in shape, in words
`scenario`        from data to a sound scenario, or to everything that is wrong with it
`warnings`        what is sound, and yet makes results mean less than they seem to
================  ============================================================================
"""
