//! An application that sends echo requests.

use perhop_core::{Duration, Time};

use crate::measure::PingRecord;

#[derive(Debug)]
pub(crate) struct Pinger {
    pub start: Time,
    pub stop: Time,
    pub every: Duration,
    /// One a request sent; the reply fills in the round-trip time.
    pub records: Vec<PingRecord>,
}

impl Pinger {
    pub fn deadline(&self) -> Time {
        let due = self.start + self.every * self.records.len() as u64;
        if due < self.stop { due } else { Time::MAX }
    }
}
