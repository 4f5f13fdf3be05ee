"""Policies set on routers: over NETCONF with a confirmed commit, and over SSH with a way back.

================  ============================================================================
`push`            set a policy on a router, read it back, and undo it on any failure; start here
`target`          address of a router and of its user
`connection`      an SSH connection, its checks and its errors
`netconf`         a NETCONF session: bounded replies, errors in words
`transaction`     lock, edit, validate, confirmed commit, read back, confirm or undo
`comparison`      what a router has, compared with the policy
`elements`        elements of XML for edits
`junos`           configurations of Junos as XML and back
`junos_schema`    the statements that perhop writes, as elements
`iosxe`           configurations of IOS as XML of the native models of IOS-XE, and back
`iosxe_schema`    the commands that perhop writes, as elements
`commands`        commands as elements and back, by one table
`linux`           queues and rules of a Linux machine, by a shell that restores them
================  ============================================================================

`ncclient` and `paramiko` come with ``pip install 'perhop[push]'``. Nothing else imports them.
"""

from perhop.routers.pushing.errors import PushError
from perhop.routers.pushing.push import Settings, check, push
from perhop.routers.pushing.target import Target, target
from perhop.routers.pushing.transaction import Outcome

__all__ = ["Outcome", "PushError", "Settings", "Target", "check", "push", "target"]
