//! Token buckets on a path, from trains whose packets have known times of arrival: policers drop
//! what exceeds the bucket, shapers delay it (compare Kanuparthy and Dovrolis, "ShaperProbe",
//! IMC 2011; Flach et al., "An Internet-wide analysis of traffic policing", SIGCOMM 2016).

use serde::Serialize;

use crate::capacity::lower_slope;

mod line;

pub use line::{Line, line};

/// A packet of a train.
#[derive(Clone, Copy, Debug)]
pub struct Sent {
    /// Time at which the sender gave it to the kernel, in seconds.
    pub sent: f64,
    /// Time of arrival by the receiver's clock, in seconds; `None` if it was lost.
    pub arrived: Option<f64>,
}

/// Kind of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    /// Packets beyond the bucket are lost.
    Policer,
    /// Packets beyond the bucket wait.
    Shaper,
}

/// First estimate of a token bucket.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Bucket {
    /// Its kind.
    pub kind: Kind,
    /// Its rate in bit/s of IP packets.
    pub bps: f64,
    /// Its burst in bytes.
    pub burst: f64,
}

/// Share of lost packets below which losses are no policer's.
const FEW: f64 = 0.02;
/// Least ratio of spacings, on arrival and as sent, at the end of a train behind a shaper.
const BEND: f64 = 1.25;
/// Packets by which the delay grows before a shaper's full queue drops.
const QUEUE: f64 = 8.0;
/// Packets from which a rate is estimated at least.
const LEAST: usize = 10;

/// Finds the token bucket that a train of packets of `bytes` has exceeded; `None` if it has not
/// exceeded any.
///
/// Until packet k has passed a bucket, `k · bytes <= burst + rate · t`, with t since the first
/// packet; a bucket that is empty makes it an equality. Rate and burst are those of the line below
/// all arrivals since the bucket was empty.
pub fn find(train: &[Sent], bytes: f64) -> Option<Bucket> {
    let mut passed = Vec::new();
    for one in train {
        if let Some(at) = one.arrived {
            passed.push((bytes * (passed.len() + 1) as f64, at));
        }
    }
    let start = train.first()?.arrived?;
    let lost = train.len() - passed.len();
    let first_loss = train.iter().position(|one| one.arrived.is_none());
    let policed = lost as f64 > FEW * train.len() as f64;
    let empty = match first_loss.filter(|_| policed) {
        Some(index) => index,
        None => {
            let last = train.last()?;
            let sent =
                (last.sent - train.first()?.sent) / (bytes * (train.len() - 1).max(1) as f64);
            if lower_slope(&passed[passed.len() / 2..])? < BEND * sent {
                return None;
            }
            passed.len() / 2
        }
    };
    let end = passed.get(empty..).filter(|end| end.len() >= LEAST)?;
    let spacing = lower_slope(end).filter(|&it| it > 0.0)?;
    // The greatest value over all packets: that of a packet that was not late.
    let burst =
        end.iter().map(|&(passed, at)| passed - (at - start) / spacing).max_by(f64::total_cmp)?;
    let delays: Vec<f64> = train[..empty.min(train.len())]
        .iter()
        .filter_map(|one| Some(one.arrived? - one.sent))
        .collect();
    let least = delays.iter().copied().min_by(f64::total_cmp)?;
    let grown = delays.last()? - least;
    let kind = match policed && grown < QUEUE * bytes * spacing {
        true => Kind::Policer,
        false => Kind::Shaper,
    };
    Some(Bucket { kind, bps: 8.0 / spacing, burst: burst.max(bytes) })
}

#[cfg(test)]
mod tests;
