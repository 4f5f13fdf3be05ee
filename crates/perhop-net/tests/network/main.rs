//! Guarantees of the network to its drivers, tested with hosts that send by a script and record the
//! callbacks.

mod ahead;
mod balance;
mod callbacks;
mod cell;
mod cell_model;
mod channel;
mod conservation;
mod contention;
mod edges;
mod events;
mod gateways;
mod icmp;
mod lab;
mod links;
mod mtu;
mod parts;
mod routes;
mod scheduling;
mod sharing;
mod stations;
mod tables;
mod tunnels;
mod watch;
