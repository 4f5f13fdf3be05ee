"""Reservations: bandwidth that is booked for a time, enforced, and accounted for.

A `Network` says what can be reserved, a `Service` decides and remembers, `People` are its users. An
`Enforcer` has routers do what was booked, through a driver each; `http` is all of it over HTTP, and
`Client` the other end of that.
"""
