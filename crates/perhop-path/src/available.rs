//! Available bandwidth by self-loading periodic streams (SLoPS): the delays of a stream's packets
//! grow if, and only if, its rate exceeds the available bandwidth of the path (Jain and Dovrolis,
//! "End-to-end available bandwidth: measurement methodology, dynamics, and relation with TCP
//! throughput", IEEE/ACM Transactions on Networking 11(4), 2003).

use serde::Serialize;

use crate::bucket::Sent;
use crate::statistics::quantile;

/// Change of the delays during a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Trend {
    /// They grow, or packets are lost: a queue fills.
    Rising,
    /// They do not grow.
    Level,
    /// Neither is sure.
    Unclear,
}

/// Thresholds of the share of increases from a group of packets to the next (PCT in the paper), and
/// of the growth as a share of all changes (PDT): below the first a statistic says level, above the
/// second rising. The paper has 0.55 and 0.4; between the pairs here, none is sure.
const INCREASES: (f64, f64) = (0.54, 0.66);
const GROWTH: (f64, f64) = (0.4, 0.55);
/// Share of lost packets above which a queue has overflowed.
const LOST: f64 = 0.02;
/// Growth as a share of the stream's duration that is no more than a drift of clocks.
const DRIFT: f64 = 200e-6;
/// Greatest time between two packets as a share of the stream's duration, and greatest difference
/// of its rate from that intended: with more, the sender was disturbed.
const PAUSE: f64 = 0.1;
const OFF: f64 = 0.03;

/// Returns the trend of the delays of a stream that was to have a rate; `None` if the sender did
/// not send it so. The rate is in packets per second.
pub fn trend(stream: &[Sent], rate: f64) -> Option<Trend> {
    let (first, last) = (stream.first()?.sent, stream.last()?.sent);
    let duration = last - first;
    let pause = stream.windows(2).map(|two| two[1].sent - two[0].sent).fold(0.0, f64::max);
    let intended = (stream.len() - 1) as f64 / rate;
    if duration <= 0.0 || pause > PAUSE * duration || (duration / intended - 1.0).abs() > OFF {
        return None;
    }
    let delays: Vec<f64> = stream.iter().filter_map(|one| Some(one.arrived? - one.sent)).collect();
    if (stream.len() - delays.len()) as f64 > LOST * stream.len() as f64 {
        return Some(Trend::Rising);
    }
    let size = (delays.len() as f64).sqrt() as usize;
    let medians: Vec<f64> = delays
        .chunks_exact(size.max(1))
        .map(|group| {
            let mut group = group.to_vec();
            group.sort_by(f64::total_cmp);
            quantile(&group, 0.5)
        })
        .collect();
    let steps: Vec<f64> = medians.windows(2).map(|two| two[1] - two[0]).collect();
    let growth = medians.last()? - medians.first()?;
    if growth <= DRIFT * duration {
        return Some(Trend::Level);
    }
    let increases =
        steps.iter().filter(|&&step| step > 0.0).count() as f64 / steps.len().max(1) as f64;
    let growth = growth / steps.iter().map(|step| step.abs()).sum::<f64>();
    let says = |value: f64, (level, rising): (f64, f64)| match value {
        it if it < level => Trend::Level,
        it if it > rising => Trend::Rising,
        _ => Trend::Unclear,
    };
    Some(match (says(increases, INCREASES), says(growth, GROWTH)) {
        (a, b) if a == b => a,
        (Trend::Unclear, it) | (it, Trend::Unclear) => it,
        _ => Trend::Unclear,
    })
}

/// Streams of a fleet, and how many of them must agree: where more differ, the available bandwidth
/// itself does, and the interval contains the rate. (The paper has 70%, with which the interval
/// does not show bursts of cross traffic that are there for less than a third of the time.)
const FLEET: usize = 12;
const AGREE: usize = 11;
/// Streams that may be sent again as the sender was disturbed.
const AGAIN: usize = 15;

/// Streams of one rate.
#[derive(Clone, Debug, Default)]
pub struct Fleet {
    rising: usize,
    level: usize,
    unclear: usize,
    disturbed: usize,
}

impl Fleet {
    /// Adds a stream; `None` if the sender was disturbed.
    pub const fn add(&mut self, trend: Option<Trend>) {
        match trend {
            Some(Trend::Rising) => self.rising += 1,
            Some(Trend::Level) => self.level += 1,
            Some(Trend::Unclear) => self.unclear += 1,
            None => self.disturbed += 1,
        }
    }

    /// Returns what the streams say as soon as they do.
    pub const fn verdict(&self) -> Option<Verdict> {
        let sent = self.rising + self.level + self.unclear;
        let rest = FLEET.saturating_sub(sent);
        if self.rising >= AGREE {
            Some(Verdict::Above)
        } else if self.level >= AGREE {
            Some(Verdict::Below)
        } else if self.rising + rest < AGREE && self.level + rest < AGREE {
            Some(Verdict::Grey)
        } else if self.disturbed >= AGAIN {
            Some(Verdict::Disturbed)
        } else {
            None
        }
    }
}

/// Relation of a rate to the available bandwidth.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It is greater.
    Above,
    /// It is less.
    Below,
    /// It is greater at some times and less at others.
    Grey,
    /// The sender cannot send at this rate evenly.
    Disturbed,
}

/// Width of the interval and of its edges beside the grey region, as a share of the greatest rate,
/// at which the search ends.
const WIDTH: f64 = 0.03;

/// Search for the available bandwidth.
#[derive(Clone, Copy, Debug)]
pub struct Search {
    /// Greatest rate known to be less than it, in bit/s.
    pub low: f64,
    /// Least rate known to be greater, in bit/s.
    pub high: f64,
    /// Rates between which it is greater at some times.
    grey: Option<(f64, f64)>,
    width: f64,
}

impl Search {
    /// Begins a search below a rate.
    pub fn new(most: f64) -> Self {
        Self { low: 0.0, high: most, grey: None, width: WIDTH * most }
    }

    /// Returns the next rate to send at; `None` at the end.
    pub fn next(&self) -> Option<f64> {
        let (low, high) = (self.low, self.high);
        match self.grey {
            None => (high - low > self.width).then(|| f64::midpoint(low, high)),
            Some((_, most)) if high - most > self.width => Some(f64::midpoint(most, high)),
            Some((least, _)) if least - low > self.width => Some(f64::midpoint(low, least)),
            Some(_) => None,
        }
    }

    /// Adds the verdict on a rate.
    pub fn add(&mut self, rate: f64, verdict: Verdict) {
        let verdict = match (verdict, self.grey) {
            // A lower rate was too great at some times, or a greater one was not.
            (Verdict::Below, Some((least, _))) if rate > least => Verdict::Grey,
            (Verdict::Above, Some((_, most))) if rate < most => Verdict::Grey,
            (verdict, _) => verdict,
        };
        match verdict {
            Verdict::Above => self.high = rate,
            Verdict::Below => self.low = rate,
            Verdict::Grey | Verdict::Disturbed => {
                let (least, most) = self.grey.unwrap_or((rate, rate));
                self.grey = Some((least.min(rate), most.max(rate)));
            }
        }
    }
}

/// Reason why the available bandwidth is unknown.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Unknown {
    /// No packet arrived.
    Unanswered,
    /// It is more than this host or the responder may send or receive.
    Limit,
    /// This host cannot send evenly at the rates that matter.
    Sender,
    /// All streams lose packets, or their delays grow, whatever their rate.
    Lossy,
    /// No more bytes may be sent.
    Volume,
}

#[cfg(test)]
mod tests {
    use perhop_core::Stream;

    use super::*;

    /// A link in packets per second with cross traffic at random times, and hosts that are late.
    struct Link {
        capacity: f64,
        cross: f64,
        late: f64,
        random: Stream,
    }

    impl Link {
        fn stream(&mut self, rate: f64, packets: usize) -> Vec<Sent> {
            let mut uniform = {
                let random = &mut self.random;
                move || (random.up_to((1 << 30) - 1) as f64 + 1.0) / f64::from(1 << 30)
            };
            let (mut free, mut next) = (0.0_f64, 0.0_f64);
            (0..packets)
                .map(|number| {
                    let sent = 0.05 + number as f64 / rate;
                    while self.cross > 0.0 && next < sent {
                        free = free.max(next) + 1.0 / self.capacity;
                        next -= uniform().ln() / self.cross;
                    }
                    free = free.max(sent) + 1.0 / self.capacity;
                    Sent { sent, arrived: Some(7.0 + free + self.late * uniform()) }
                })
                .collect()
        }

        fn search(&mut self) -> Search {
            let mut search = Search::new(1.05 * self.capacity);
            while let Some(rate) = search.next() {
                let mut fleet = Fleet::default();
                let verdict = loop {
                    let packets = (rate * 0.05).clamp(100.0, 1200.0) as usize;
                    fleet.add(trend(&self.stream(rate, packets), rate));
                    if let Some(verdict) = fleet.verdict() {
                        break verdict;
                    }
                };
                search.add(rate, verdict);
            }
            search
        }
    }

    /// The interval contains the available bandwidth, or ends within 5% of the capacity from it.
    #[test]
    fn the_available_bandwidth_is_found() {
        let mut errors = Vec::new();
        for seed in 0..60 {
            let mut random = Stream::new(seed, "link");
            let capacity = [900.0, 4000.0, 9000.0, 90_000.0][random.up_to(3) as usize];
            let cross = capacity * random.up_to(8) as f64 / 10.0;
            let mut link = Link { capacity, cross, late: 30e-6, random };
            let found = link.search();
            let available = capacity - cross;
            let error = f64::max(found.low - available, available - found.high) / capacity;
            errors.push(error.max(0.0));
        }
        errors.sort_by(f64::total_cmp);
        assert!(quantile(&errors, 0.9) < 0.05, "{errors:?}");
    }

    /// A third of the streams meet cross traffic that takes 60%: the interval contains the average
    /// in all but the cases in which all streams but one of a rate meet none by chance.
    #[test]
    fn bursts_of_cross_traffic_are_within_the_interval() {
        let mut missed = 0;
        for seed in 0..100 {
            let mut random = Stream::new(seed, "bursts");
            let mut search = Search::new(1000.0);
            while let Some(rate) = search.next() {
                let mut fleet = Fleet::default();
                let verdict = loop {
                    let available = if random.up_to(2) == 0 { 400.0 } else { 1000.0 };
                    fleet.add(Some(if rate > available { Trend::Rising } else { Trend::Level }));
                    if let Some(verdict) = fleet.verdict() {
                        break verdict;
                    }
                };
                search.add(rate, verdict);
            }
            missed += u32::from(search.low > 800.0 || search.high < 800.0);
        }
        assert!(missed < 8, "{missed}");
    }

    #[test]
    fn streams_are_judged() {
        let stream = |delay: fn(f64) -> f64| -> Vec<Sent> {
            let at = (0..400).map(|number| f64::from(number) * 1e-4);
            at.map(|at| Sent { sent: at, arrived: Some(5.0 + at + delay(at)) }).collect()
        };
        let level = stream(|_| 1e-3);
        assert_eq!(trend(&level, 1e4), Some(Trend::Level));
        assert_eq!(trend(&stream(|at| 50e-6 * at), 1e4), Some(Trend::Level), "a drift of clocks");
        let rising = stream(|at| 0.05 * at);
        assert_eq!(trend(&rising, 1e4), Some(Trend::Rising));
        assert_eq!(trend(&stream(|at| (at * 900.0).sin() * 1e-4), 1e4), Some(Trend::Level));
        let mut lossy = level.clone();
        lossy.iter_mut().step_by(20).for_each(|one| one.arrived = None);
        assert_eq!(trend(&lossy, 1e4), Some(Trend::Rising));
        // A sender that is too slow, or pauses.
        assert_eq!(trend(&rising, 1.1e4), None);
        let mut paused = level;
        paused[200..].iter_mut().for_each(|one| one.sent += 5e-3);
        assert_eq!(trend(&paused, 1e4), None);
    }

    #[test]
    fn a_rate_that_is_sometimes_too_great_is_within_the_interval() {
        let mut search = Search::new(100.0);
        let mut rates = 0;
        while let Some(rate) = search.next() {
            let verdict = match rate {
                it if it > 62.0 => Verdict::Above,
                it if it < 41.0 => Verdict::Below,
                _ => Verdict::Grey,
            };
            search.add(rate, verdict);
            rates += 1;
        }
        assert!(38.0 < search.low && search.low < 41.0, "{search:?}");
        assert!(62.0 < search.high && search.high < 65.0, "{search:?}");
        assert!(rates < 15);
    }
}
