//! The `sim` engine compared with theory, with plans as the scenario compiler writes them.

mod allocations;
mod applications;
mod bbr;
mod captures;
mod changes;
mod ecn;
mod fuzz;
mod hostile;
mod l4s;
mod lab;
mod marking;
mod measures;
mod parts;
mod patterns;
mod pings;
mod probes;
mod queues;
mod quic;
mod random;
mod short_plans;
mod tables;
mod tcp;
