//! Active queue management compared with the arithmetic of its sources.

mod cake;
mod codel;
mod dualpi2;
mod fq_codel;
mod fq_pie;
mod lab;
mod pie;
mod properties;
mod red;
mod sfq;
