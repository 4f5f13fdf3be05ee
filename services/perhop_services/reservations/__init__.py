"""Reservations: bandwidth that is booked for a time, enforced, and accounted for.

A `Network` has the bandwidth that can be reserved, a `ReservationService` admits and stores
reservations, and `People` are its users. An `Enforcer` configures the routers, through a driver for
each; `http` is the service over HTTP, and `Client` its client.
"""
