//! Receive window autotuning as in Linux: dynamic right-sizing (Fisk and Feng, Dynamic right-sizing
//! in TCP, 2001; Linux 6.18, net/ipv4/tcp_input.c).
//!
//! Linux tunes a buffer, and offers the share of it that data may fill. It assumes a half, until it
//! measures the share with the first data (`tcp_measure_rcv_mss`). This gives 5/8 here: 1448 bytes
//! of data take 2304 bytes of memory with a driver's buffers of 2 KiB, which is 160/256. All sizes
//! here are windows in bytes.

use perhop_core::{Duration, Time};

use crate::Offset;

/// Linux's default buffer: `tcp_rmem`.
const BUFFER: u32 = 131_072;

/// Payload below which a segment does not grow the window, in bytes.
const LEAST_PAYLOAD: u32 = 128;

/// Information about data that arrived.
pub(super) struct Arrival {
    /// Payload of the segment.
    pub payload: u32,
    /// End of its data.
    pub end: Offset,
    /// Time since the transmission of the acknowledgement whose timestamp it echoes, if that is
    /// new.
    pub echoed: Option<Duration>,
    /// Next byte expected after it.
    pub next: Offset,
    /// End of the highest segment.
    pub highest: Offset,
    /// Bytes that wait behind a hole.
    pub held: u64,
    /// Advertised window.
    pub advertised: u32,
}

/// State of a window that follows the reading of the application, which reads at once.
#[derive(Clone, Debug)]
pub(super) struct Autotuning {
    /// Segment size of the connection, in bytes.
    mss: u32,
    /// Window of the largest buffer.
    largest: u32,
    /// Window of the present buffer, the greatest that may be offered: `window_clamp`.
    full: u32,
    /// Offered window: `rcv_ssthresh`.
    offered: u32,
    /// Most bytes read in one round trip: `rcvq_space.space`.
    read: u64,
    /// Beginning of this round trip, as position and time; `None` before the first data.
    round: Option<(Offset, Time)>,
    /// Smoothed round-trip time, times eight: `rcv_rtt_est.rtt_us`.
    rtt_8: Option<Duration>,
    /// End of the window whose arrival measures the round-trip time, and when it was offered.
    window: Option<(Offset, Time)>,
}

impl Autotuning {
    /// Creates the state for a connection with segments of `mss` bytes that may offer up to
    /// `largest` bytes.
    pub fn new(mss: u16, largest: u32) -> Self {
        let mss = u32::from(mss.max(1));
        // In whole segments (tcp_select_initial_window).
        let space = (BUFFER / 2).min(largest);
        let offered = if space > mss { space / mss * mss } else { space };
        let read = u64::from(offered.min(10 * mss));
        let full = (BUFFER / 8 * 5).min(largest);
        Self { mss, largest, full, offered, read, round: None, rtt_8: None, window: None }
    }

    /// Returns the smoothed round-trip time, once one was measured.
    pub fn rtt(&self) -> Option<Duration> {
        self.rtt_8.map(|rtt_8| rtt_8 / 8)
    }

    /// Returns the window to advertise while `held` bytes wait behind a hole
    /// (`__tcp_select_window`).
    pub fn window(&self, held: u64) -> u32 {
        let space = u64::from(self.full).saturating_sub(held);
        space.min(self.offered.into()) as u32
    }

    /// Takes data that arrived and was read. Returns `true` if the window to offer grew.
    ///
    /// Of data that fills a hole the segment itself comes first; what waited behind it counts later
    /// (`tcp_data_queue`).
    pub fn on_data(&mut self, now: Time, arrival: &Arrival) -> bool {
        let start = arrival.next - Offset::from(arrival.payload).min(arrival.next);
        self.round.get_or_insert((start, now));
        if let Some(rtt) = arrival.echoed {
            self.sample(rtt, false);
        }
        let first = arrival.end.min(arrival.next);
        let waited = arrival.next - first;
        self.measure_window(now, first, arrival.advertised);
        let grew = self.grow(arrival.payload, arrival.held + waited);
        self.adjust(now, first, waited, arrival);
        grew
    }

    /// Takes data that arrived beyond a hole, which selective acknowledgements report: the buffer
    /// makes room for what waits (`tcp_data_queue_ofo`). Returns `true` if the window to offer
    /// grew.
    pub fn on_disorder(&mut self, arrival: &Arrival) -> bool {
        if let Some(rtt) = arrival.echoed {
            self.sample(rtt, false);
        }
        let grew = self.grow(arrival.payload, arrival.held);
        self.enlarge(0, arrival);
        grew
    }

    /// Measures a round trip by the arrival of a whole window (`tcp_rcv_rtt_measure`).
    fn measure_window(&mut self, now: Time, next: Offset, advertised: u32) {
        if let Some((end, since)) = self.window {
            if next < end {
                return;
            }
            self.sample(now.since(since), true);
        }
        self.window = Some((next + Offset::from(advertised), now));
    }

    /// Takes a sample; one `by_window` is an upper bound (`tcp_rcv_rtt_update`).
    fn sample(&mut self, rtt: Duration, by_window: bool) {
        let sample = rtt * 8;
        self.rtt_8 = match self.rtt_8 {
            Some(old) if sample >= old && by_window => Some(old),
            Some(old) if sample >= old => Some(old - old / 8 + rtt),
            _ => Some(sample),
        };
    }

    /// Grows the window by two segments for each that arrives, up to its limit (`tcp_grow_window`).
    fn grow(&mut self, payload: u32, held: u64) -> bool {
        let space = u64::from(self.full).saturating_sub(held);
        let room = space.saturating_sub(self.offered.into()) as u32;
        if room == 0 || payload < LEAST_PAYLOAD {
            return false;
        }
        self.offered += room.min(2 * self.mss.max(payload));
        true
    }

    /// Adjusts the buffer once a round trip: room for twice the data read in it, and more in
    /// proportion to its growth (`tcp_rcv_space_adjust`).
    ///
    /// `first` bytes were read so far, and `waited` more are there: these count against them, and
    /// belong to the next round trip.
    fn adjust(&mut self, now: Time, first: Offset, waited: u64, arrival: &Arrival) {
        let (Some((start, since)), Some(rtt_8)) = (self.round, self.rtt_8) else { return };
        if now.since(since) < rtt_8 / 8 {
            return;
        }
        let read = (first - start).saturating_sub(waited);
        if read > self.read {
            let twice = 2 * u128::from(read);
            let growth = 2 * twice * u128::from(read - self.read) / u128::from(self.read);
            self.read = read;
            self.enlarge(growth, arrival);
        }
        self.round = Some((first, now));
    }

    /// Makes room for twice what is read in a round trip, for `growth` and for what waits behind a
    /// hole (`tcp_rcvbuf_grow`).
    fn enlarge(&mut self, growth: u128, arrival: &Arrival) {
        let beyond = arrival.highest.saturating_sub(arrival.next);
        let wanted = 2 * u128::from(self.read) + growth + u128::from(beyond);
        self.full = self.full.max(wanted.min(self.largest.into()) as u32);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1448;
    const LARGEST: u32 = (6 << 20) / 8 * 5;

    fn at(millis: u64) -> Time {
        Time::ZERO + Duration::from_millis(millis)
    }

    /// Returns a segment that ends at `next`, `echoed` milliseconds after what it echoes.
    fn full(next: Offset, echoed: Option<u64>) -> Arrival {
        Arrival {
            payload: MSS as u32,
            end: next,
            echoed: echoed.map(Duration::from_millis),
            next,
            highest: next,
            held: 0,
            advertised: 65_160,
        }
    }

    /// Captured from Linux 6.18: 65160 with the SYN, then two segments more for each, in units of
    /// 128 bytes 68096, 71040, 73856, 76800 and 79744. Its next ones are 80512: there, the segment
    /// that is not yet read counts against the buffer; here, data is read at once.
    #[test]
    fn it_begins_as_linux_does() {
        let mut tuning = Autotuning::new(1448, LARGEST);
        assert_eq!((tuning.window(0), tuning.read), (65_160, 14_480));
        let windows = [1, 2, 3, 4, 5, 6, 7].map(|segments| {
            tuning.on_data(at(0), &full(1 + segments * MSS, Some(100)));
            tuning.window(0).next_multiple_of(128)
        });
        assert_eq!(windows, [68_096, 71_040, 73_856, 76_800, 79_744, 81_920, 81_920]);
    }

    /// Rounds of 10, 20 and 40 segments at 100 ms, each ended by the first segment of the next.
    #[test]
    fn steps_of_dynamic_right_sizing() {
        let mut tuning = Autotuning::new(1448, LARGEST);
        let mut next = 1;
        let mut steps = Vec::new();
        for (round, segments) in [10, 20, 40, 1].into_iter().enumerate() {
            for _ in 0..segments {
                next += MSS;
                tuning.on_data(at(100 * round as u64), &full(next, Some(100)));
            }
            steps.push((tuning.read, tuning.full));
        }
        // 11 segments were read: 31856 + 2 * 31856 * 1448 / 14480 is less than the window. 20 were:
        // 57920 + 2 * 57920 * 13032 / 15928. 40 were: 115840 + 2 * 115840.
        let expected = [(14_480, 81_920), (15_928, 81_920), (28_960, 152_698), (57_920, 347_520)];
        assert_eq!(steps, expected);
    }

    #[test]
    fn the_window_opens_by_two_segments_for_each_that_arrives() {
        let mut tuning = Autotuning::new(1448, LARGEST);
        tuning.full = 70_000;
        assert!(tuning.on_data(at(0), &full(1 + MSS, None)));
        assert_eq!(tuning.window(0), 65_160 + 2 * 1448);
        assert!(!tuning.on_data(at(0), &Arrival { payload: 127, ..full(1 + MSS + 127, None) }));
        assert!(tuning.on_data(at(0), &full(1 + 2 * MSS + 127, None)));
        assert_eq!(tuning.window(0), 70_000);
        assert!(!tuning.on_data(at(0), &full(1 + 3 * MSS + 127, None)));
        assert_eq!(tuning.window(10_000), 60_000);
    }

    #[test]
    fn it_never_exceeds_the_largest_window() {
        let mut tuning = Autotuning::new(1448, 200_000);
        tuning.on_data(at(0), &full(1 + MSS, Some(100)));
        tuning.on_data(at(100), &full(1 + 1000 * MSS, Some(100)));
        assert_eq!(tuning.full, 200_000);
    }

    /// As Linux 6.18 was seen to do: nothing is read while the segment at 36201 is missing. When it
    /// comes, 37648 bytes are read first, and the 23168 that waited count against them: no more
    /// than the 14480 before. The next round begins behind the segment, and ends 62264 bytes later.
    #[test]
    fn data_that_waited_belongs_to_the_next_round() {
        let mut tuning = Autotuning::new(1448, LARGEST);
        tuning.on_data(at(0), &full(1 + MSS, Some(40)));
        let filled = Arrival { end: 37_649, ..full(60_817, None) };
        tuning.on_data(at(50), &filled);
        assert_eq!((tuning.read, tuning.full), (14_480, 81_920));
        assert_eq!(tuning.round, Some((37_649, at(50))));
        tuning.on_data(at(100), &full(99_913, None));
        // 124528 + 2 * 124528 * 47784 / 14480.
        assert_eq!((tuning.read, tuning.full), (62_264, 124_528 + 821_884));
    }

    /// Data beyond a hole opens the window as other data does, and the buffer makes room for twice
    /// what is read and for what waits.
    #[test]
    fn the_buffer_grows_for_what_waits() {
        let mut tuning = Autotuning::new(1448, LARGEST);
        tuning.on_data(at(0), &full(1 + MSS, Some(40)));
        let beyond = |highest, held| Arrival { highest, held, ..full(1 + MSS, Some(80)) };
        assert!(tuning.on_disorder(&beyond(1 + 3 * MSS, MSS)));
        assert_eq!((tuning.offered, tuning.full), (65_160 + 4 * 1448, 81_920));
        // What waits takes room from the window: less than two segments are left.
        assert!(tuning.on_disorder(&beyond(20_000, 9_000)));
        assert_eq!(tuning.offered, 81_920 - 9_000);
        assert!(!tuning.on_disorder(&beyond(1_449 + 52_960, 20_000)));
        assert_eq!(tuning.full, 2 * 14_480 + 52_960);
        assert!(tuning.on_disorder(&beyond(1_449 + 52_961, 0)));
        assert_eq!(tuning.full, 2 * 14_480 + 52_961);
        // Each is a sample of the round-trip time: 320, 360, 395, 425.625, 452.421875 eighths of
        // ms.
        assert_eq!(tuning.rtt(), Some(Duration::from_picos(56_552_734_375)));
    }

    /// Without timestamps the round-trip time is the least time in which a window arrives.
    #[test]
    fn a_window_measures_the_round_trip() {
        let mut tuning = Autotuning::new(1448, LARGEST);
        tuning.on_data(at(0), &full(1 + MSS, None));
        tuning.on_data(at(150), &full(MSS + 65_160, None));
        assert_eq!(tuning.rtt_8, None);
        tuning.on_data(at(200), &full(1 + MSS + 65_160, None));
        assert_eq!(tuning.rtt_8, Some(Duration::from_millis(1600)));
        tuning.on_data(at(500), &full(1 + MSS + 2 * 65_160, None));
        assert_eq!(tuning.rtt_8, Some(Duration::from_millis(1600)));
        tuning.on_data(at(600), &full(1 + MSS + 3 * 65_160, None));
        assert_eq!(tuning.rtt_8, Some(Duration::from_millis(800)));
        // A sample by timestamps is smoothed: 800 - 100 + 180.
        tuning.sample(Duration::from_millis(180), false);
        assert_eq!(tuning.rtt_8, Some(Duration::from_millis(880)));
    }

    /// tcp_select_initial_window and tcp_init_buffer_space: segment size and largest window; the
    /// window offered, the data read in a round trip, and the window of the buffer.
    #[test]
    fn sizes_at_the_beginning() {
        for (mss, largest, offered, read, full) in [
            (1448, LARGEST, 65_160, 14_480, 81_920),
            (7_000, LARGEST, 63_000, 63_000, 81_920),
            (1448, 10_000, 8_688, 8_688, 10_000),
            (1448, 1_449, 1_448, 1_448, 1_449),
            (1448, 1_448, 1_448, 1_448, 1_448),
            (1448, 900, 900, 900, 900),
            (0, 900, 900, 10, 900),
        ] {
            let tuning = Autotuning::new(mss, largest);
            assert_eq!((tuning.offered, tuning.read, tuning.full), (offered, read, full));
            assert_eq!(
                [0, 200, 1 << 20].map(|held| tuning.window(held)),
                [offered, offered.min(full - 200), 0]
            );
        }
    }

    /// tcp_rcv_space_adjust at 100 ms: read in a round trip where 14,480 were before, time in µs,
    /// and data beyond a hole; the window of the buffer, and the data read.
    #[test]
    fn buffers_grow_with_what_is_read() {
        for (segments, micros, beyond, buffer, read) in [
            (20, 100_000, 0, 173_760, 28_960), // 57,920 and twice that
            (20, 99_999, 0, 81_920, 14_480),
            (20, 100_000, 10_000, 183_760, 28_960),
            (10, 100_000, 90_000, 81_920, 14_480), // as much as before
            (11, 100_000, 0, 81_920, 15_928),      // 31,856 and 6,371
            (11, 100_000, 50_000, 88_227, 15_928),
        ] {
            let mut tuning = Autotuning::new(1448, LARGEST);
            tuning.sample(Duration::from_millis(100), false);
            tuning.round = Some((1, at(0)));
            let next = 1 + MSS * segments;
            let arrival = Arrival { highest: next + beyond, ..full(next, None) };
            tuning.adjust(Time::ZERO + Duration::from_micros(micros), next, 0, &arrival);
            assert_eq!((tuning.full, tuning.read), (buffer, read), "{segments} {micros} {beyond}");
            let begins = micros == 100_000;
            assert_eq!(tuning.round == Some((1, at(0))), !begins, "another round");
        }
    }

    /// tcp_grow_window: twice the segment size, or twice a longer segment, up to the limit; short
    /// ones have no effect.
    #[test]
    fn offers_grow_by_two_segments() {
        for (payload, held, full_window, growth) in [
            (1448, 0, 81_920, 2_896),
            (128, 0, 81_920, 2_896),
            (127, 0, 81_920, 0),
            (3_000, 0, 81_920, 6_000),
            (1448, 0, 66_160, 1_000),
            (1448, 1_000, 66_160, 0),
            (1448, 999, 66_160, 1),
        ] {
            let mut tuning = Autotuning::new(1448, LARGEST);
            tuning.full = full_window;
            let grew = tuning.grow(payload, held);
            assert_eq!((grew, tuning.offered), (growth > 0, 65_160 + growth), "{payload} {held}");
        }
    }
}
