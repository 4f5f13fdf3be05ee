//! Active queue management compared with the arithmetic of its sources.

mod cake;
mod cake_drops;
mod codel;
mod codel_rfc;
mod dualpi2;
mod dualpi2_rfc;
mod fq_codel;
mod fq_pie;
mod lab;
mod pie;
mod pie_rfc;
mod properties;
mod red;
mod red_paper;
mod sfq;
