//! HTB: tables, and a second implementation.

mod lab;
mod reference;
mod tables;
