//! What the network promises whoever drives it, with hosts that only send by a script and write
//! down what happens.

mod balance;
mod conservation;
mod events;
mod icmp;
mod lab;
mod links;
mod mtu;
mod routes;
mod scheduling;
mod watch;
