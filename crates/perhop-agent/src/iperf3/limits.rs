//! Limits of the server's owner, and admission of tests.

use std::time::Duration;

use super::message::Parameters;

/// Limits of the server's owner. A client cannot raise them.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Maximum duration of a test, omitted seconds included.
    pub duration: Duration,
    /// Maximum rate of a test in bit/s, in each direction, for all its streams together.
    pub rate: Option<u64>,
    /// Maximum number of bytes of a test, in both directions together.
    pub volume: Option<u64>,
    /// Maximum number of streams of a test in each direction.
    pub streams: u32,
    /// Maximum number of simultaneous tests.
    pub tests: u32,
    /// Maximum number of files in the folder of records; further tests are not recorded.
    pub records: usize,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            duration: Duration::from_secs(300),
            rate: None,
            volume: None,
            streams: 128,
            tests: 32,
            records: 100_000,
        }
    }
}

impl From<&crate::Limits> for Limits {
    /// Returns the limits for an agent that also answers iperf3 clients: those of a session are
    /// those of a test.
    fn from(agent: &crate::Limits) -> Self {
        let usual = Self::default();
        Self {
            duration: agent.duration.map_or(LONGEST, Duration::from_nanos),
            rate: agent.rate,
            volume: agent.volume,
            streams: u32::try_from(agent.flows).map_or(usual.streams, |all| all.min(usual.streams)),
            tests: u32::try_from(agent.sessions).unwrap_or(u32::MAX),
            records: usual.records,
        }
    }
}

/// Refusal of a test: an error code of iperf3, which its client prints.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Refusal {
    #[error("the test takes too long")]
    Duration = 5,
    #[error("too many streams")]
    Streams = 6,
    #[error("blocks of this length cannot be sent")]
    Length = 7,
    #[error("the socket buffer is too large")]
    Window = 8,
    #[error("the transport is not supported")]
    Transport = 13,
    #[error("datagrams of this length cannot be sent")]
    DatagramLength = 20,
    #[error("the type of service is not an octet")]
    Tos = 21,
    #[error("the test is both reverse and bidirectional")]
    Directions = 25,
    #[error("the rate or the volume exceeds the server's limit")]
    Rate = 27,
    #[error("the client's message is malformed")]
    Message = 110,
    #[error("the client's parameters are malformed")]
    Parameters = 114,
    #[error("the client's results are malformed")]
    Results = 117,
    #[error("the streams were not created in time")]
    Creation = 200,
    #[error("the server cannot open the stream's socket")]
    Socket = 204,
}

/// Maximum duration without a limit: a day, as in iperf3.
const LONGEST: Duration = Duration::from_secs(86_400);

/// Sizes in bytes of the longest block and datagram (iperf3: `MAX_BLOCKSIZE`, `MAX_UDP_BLOCKSIZE`),
/// of the shortest datagram, and of the largest socket buffer.
const MAX_BLOCK: u64 = 1 << 20;
const MAX_DATAGRAM: u64 = 65_507;
const MIN_DATAGRAM: u64 = 16;
const MAX_WINDOW: u64 = 512 << 20;
/// The defaults of iperf3.
const BLOCK: u64 = 128 << 10;
const DATAGRAM: u64 = 1460;

/// Plan of an admitted test.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Plan {
    pub udp: bool,
    /// Numbers of streams on which the server receives, and on which it sends.
    pub receives: usize,
    pub sends: usize,
    /// Size of a block or datagram in bytes.
    pub length: usize,
    /// Rate of each stream in bit/s, in both directions; no limit if absent.
    pub rate: Option<u64>,
    pub omit: Duration,
    /// Maximum duration of the test, omitted time included.
    pub duration: Duration,
    /// True if a number of bytes or blocks ends the test instead of a duration.
    pub by_volume: bool,
    /// Number of bytes that ends the test.
    pub asked: u64,
    /// Maximum number of bytes of the test.
    pub volume: u64,
    pub window: Option<u32>,
    pub tos: u8,
    pub wide: bool,
}

impl Plan {
    /// Returns the number of streams in both directions.
    pub fn streams(&self) -> usize {
        self.receives + self.sends
    }
}

impl Limits {
    /// Returns the plan of a test with these parameters, within the limits.
    pub(crate) fn admit(&self, asked: &Parameters) -> Result<Plan, Refusal> {
        if asked.sctp || asked.tcp == asked.udp {
            return Err(Refusal::Transport);
        }
        let (udp, parallel) = (asked.udp, asked.parallel.unwrap_or(1));
        if parallel == 0 || parallel > u64::from(self.streams) {
            return Err(Refusal::Streams);
        }
        let parallel = parallel as usize;
        let (receives, sends) = match (asked.reverse, asked.bidirectional) {
            (true, true) => return Err(Refusal::Directions),
            (true, false) => (0, parallel),
            (false, true) => (parallel, parallel),
            (false, false) => (parallel, 0),
        };
        let length = asked.len.filter(|&len| len > 0).unwrap_or(if udp { DATAGRAM } else { BLOCK });
        if udp && !(MIN_DATAGRAM..=MAX_DATAGRAM).contains(&length) {
            return Err(Refusal::DatagramLength);
        }
        if length > MAX_BLOCK {
            return Err(Refusal::Length);
        }
        let window = asked.window.filter(|&window| window > 0);
        if window.is_some_and(|window| window > MAX_WINDOW) {
            return Err(Refusal::Window);
        }
        let tos = u8::try_from(asked.tos.unwrap_or(0)).map_err(|_| Refusal::Tos)?;
        let (time, omit) = (asked.time.unwrap_or(0), asked.omit.unwrap_or(0));
        let volume =
            asked.num.unwrap_or(0).max(asked.blockcount.unwrap_or(0).saturating_mul(length));
        let by_volume = time == 0;
        let seconds = time.saturating_add(omit);
        if seconds > self.duration.as_secs() || (by_volume && volume == 0) {
            return Err(Refusal::Duration);
        }
        if self.volume.is_some_and(|most| by_volume && volume > most) {
            return Err(Refusal::Rate);
        }
        // Clients omit the rate for `-b 0`, and send their default explicitly.
        let mut rate = asked.bandwidth.filter(|&rate| rate > 0);
        if let Some(most) = self.rate {
            let share = (most / parallel as u64).max(1);
            // Received UDP cannot be slowed down, and requested parameters are not changed
            // silently, so that such tests are refused. TCP is slowed down.
            if udp && rate.is_none_or(|rate| rate > share) {
                return Err(Refusal::Rate);
            }
            rate = Some(rate.map_or(share, |rate| rate.min(share)));
        }
        let duration = if by_volume { self.duration } else { Duration::from_secs(seconds) };
        Ok(Plan {
            udp,
            receives,
            sends,
            length: length as usize,
            rate,
            omit: Duration::from_secs(omit),
            duration,
            by_volume,
            asked: volume,
            volume: self.volume.unwrap_or(u64::MAX),
            window: window.map(|window| window as u32),
            tos,
            wide: asked.udp_counters_64bit,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn udp() -> Parameters {
        let (time, bandwidth) = (Some(10), Some(1_000_000));
        Parameters { udp: true, time, bandwidth, len: Some(1000), ..Parameters::default() }
    }

    fn tcp() -> Parameters {
        Parameters { tcp: true, time: Some(10), ..Parameters::default() }
    }

    #[test]
    fn each_limit_has_its_error() {
        let limits = Limits {
            duration: Duration::from_secs(20),
            rate: Some(5_000_000),
            volume: Some(1_000_000),
            streams: 4,
            ..Limits::default()
        };
        let cases = [
            (Parameters { time: Some(21), ..udp() }, Refusal::Duration),
            (Parameters { omit: Some(11), ..udp() }, Refusal::Duration),
            (Parameters { time: Some(u64::MAX), omit: Some(u64::MAX), ..udp() }, Refusal::Duration),
            (Parameters { time: Some(0), ..udp() }, Refusal::Duration),
            (Parameters { parallel: Some(5), ..udp() }, Refusal::Streams),
            (Parameters { parallel: Some(0), ..udp() }, Refusal::Streams),
            (Parameters { bandwidth: Some(6_000_000), ..udp() }, Refusal::Rate),
            (Parameters { bandwidth: Some(2_000_000), parallel: Some(3), ..udp() }, Refusal::Rate),
            (Parameters { bandwidth: Some(0), ..udp() }, Refusal::Rate),
            (Parameters { bandwidth: None, ..udp() }, Refusal::Rate),
            (Parameters { time: Some(0), num: Some(1_000_001), ..tcp() }, Refusal::Rate),
            (Parameters { time: None, blockcount: Some(u64::MAX), ..tcp() }, Refusal::Rate),
            (Parameters { len: Some(15), ..udp() }, Refusal::DatagramLength),
            (Parameters { len: Some(65_508), ..udp() }, Refusal::DatagramLength),
            (Parameters { len: Some(u64::MAX), ..tcp() }, Refusal::Length),
            (Parameters { window: Some(1 << 40), ..tcp() }, Refusal::Window),
            (Parameters { tos: Some(256), ..tcp() }, Refusal::Tos),
            (Parameters { reverse: true, bidirectional: true, ..tcp() }, Refusal::Directions),
            (Parameters { sctp: true, ..tcp() }, Refusal::Transport),
            (Parameters { udp: true, ..tcp() }, Refusal::Transport),
            (Parameters::default(), Refusal::Transport),
        ];
        for (parameters, refusal) in cases {
            assert_eq!(limits.admit(&parameters), Err(refusal), "{parameters:?}");
        }
        assert_eq!(limits.admit(&tcp()).unwrap().rate, Some(5_000_000), "TCP is slowed down");
        assert_eq!(limits.admit(&udp()).unwrap().rate, Some(1_000_000));
        let both = limits.admit(&Parameters { bidirectional: true, ..udp() }).unwrap();
        assert_eq!((both.receives, both.sends), (1, 1));
    }
}
