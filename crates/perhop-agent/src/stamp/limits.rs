//! Rate limits of a reflector.

use std::collections::HashMap;
use std::net::IpAddr;

use perhop_core::{Bytes, Rate, TokenBucket};
use perhop_socket::Nanos;

/// Maximum number of sources with a bucket.
const SOURCES: usize = 4096;

/// Tokens of a packet.
const PACKET: Bytes = Bytes::new(1);

/// Returns a bucket of packets, which holds the packets of a tenth of a second, or 20; `None` if
/// there are none.
fn bucket(rate: u32) -> Option<TokenBucket<Nanos>> {
    let burst = Bytes::new((rate / 10).max(20).into());
    Some(TokenBucket::new(Rate::new(u64::from(rate) * 8)?, burst))
}

/// Limits in packets per second, for each source address and for all.
#[derive(Debug)]
pub(super) struct Limits {
    /// The bucket of a new source.
    source: Option<TokenBucket<Nanos>>,
    all: Option<TokenBucket<Nanos>>,
    sources: HashMap<IpAddr, TokenBucket<Nanos>>,
    /// Time of the last removal of idle sources.
    swept: Nanos,
}

/// Time between two removals of idle sources, in nanoseconds, so that a flood of new ones costs
/// little.
const SWEEP_EVERY: Nanos = 100_000_000;

impl Limits {
    pub(super) fn new(source_rate: u32, rate: u32) -> Self {
        let (source, all) = (bucket(source_rate), bucket(rate));
        Self { source, all, sources: HashMap::new(), swept: 0 }
    }

    /// Returns whether a packet of a source may be answered now. With too many sources, packets of
    /// new sources are not answered.
    pub(super) fn allow(&mut self, source: IpAddr, now: Nanos) -> bool {
        if self.sources.len() >= SOURCES && !self.sources.contains_key(&source) {
            if now.saturating_sub(self.swept) >= SWEEP_EVERY {
                self.swept = now;
                self.sources.retain(|_, bucket| {
                    let _ = bucket.fill(now);
                    !bucket.is_full()
                });
            }
            if self.sources.len() >= SOURCES {
                return false;
            }
        }
        let (Some(new), Some(all)) = (&self.source, &mut self.all) else { return false };
        let bucket = self.sources.entry(source).or_insert_with(|| new.clone());
        bucket.take_at(now, PACKET) && all.take_at(now, PACKET)
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    /// Returns the number of answered packets of sources that send one every 10 µs for two seconds.
    fn answered(limits: &mut Limits, sources: u32) -> u32 {
        let mut count = 0;
        for number in 0..200_000_u32 {
            let source = Ipv4Addr::from(number % sources).into();
            count += u32::from(limits.allow(source, u64::from(number) * 10_000));
        }
        count
    }

    #[test]
    fn a_source_gets_its_rate_and_all_get_theirs() {
        // 2 s at the rate, and a full bucket of a tenth of a second.
        assert!(answered(&mut Limits::new(100, 1_000_000), 1).abs_diff(220) <= 1);
        let all = answered(&mut Limits::new(1_000, 5_000), 100);
        assert!((10_400..=10_501).contains(&all), "{all}");
        assert_eq!(answered(&mut Limits::new(0, 5_000), 1), 0);
        assert_eq!(answered(&mut Limits::new(5_000, 0), 1), 0);
    }

    #[test]
    fn sources_are_forgotten() {
        let mut limits = Limits::new(10, 1_000_000);
        answered(&mut limits, 200_000);
        assert_eq!(limits.sources.len(), SOURCES);
        assert!(limits.allow(Ipv4Addr::LOCALHOST.into(), 10_000_000_000));
        assert!(limits.sources.len() <= SOURCES);
    }
}
