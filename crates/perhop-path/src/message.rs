//! Messages between a host that sends trains and a responder. All numbers are big-endian.
//!
//! A hello is longer than its welcome, and a request longer than its record, so that a responder
//! never sends more to a third host than an attacker sends.

const MAGIC: [u8; 4] = *b"PhP1";
/// Length of hellos.
pub(crate) const HELLO: usize = 64;
/// Length of requests for a record.
pub(crate) const RECORD_REQUEST: usize = 1200;
/// Length of the headers of packets of a train: the least length of one.
pub(crate) const DATA: usize = 29;
/// Arrivals in a record at most.
pub(crate) const MAX_RECORDS: usize = 90;

/// A number that only the two ends of a session know.
pub(crate) type Token = [u8; 16];

/// A message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Message {
    /// Hello: the sender requests the permission to send trains.
    Hello { nonce: Token },
    /// Welcome: the permission, with the nonce and the limits of the responder.
    Welcome { nonce: Token, token: Token, max_bps: u64, max_bytes: u64 },
    /// A packet of a train.
    Data { token: Token, train: u32, index: u32 },
    /// Request for the record of a train's arrivals, from number `first` on.
    RecordRequest { token: Token, train: u32, first: u32 },
    /// Record: the number of arrivals, and some of them as index and time in ns.
    Record { token: Token, train: u32, first: u32, total: u32, arrivals: Vec<(u32, u64)> },
}

impl Message {
    /// Returns the bytes of a message, of `size` at least.
    pub fn write(&self, size: usize) -> Vec<u8> {
        let mut out = MAGIC.to_vec();
        match self {
            Self::Hello { nonce } => {
                out.push(1);
                out.extend_from_slice(nonce);
            }
            Self::Welcome { nonce, token, max_bps, max_bytes } => {
                out.push(2);
                out.extend_from_slice(nonce);
                out.extend_from_slice(token);
                out.extend_from_slice(&max_bps.to_be_bytes());
                out.extend_from_slice(&max_bytes.to_be_bytes());
            }
            Self::Data { token, train, index: number }
            | Self::RecordRequest { token, train, first: number } => {
                out.push(if matches!(self, Self::Data { .. }) { 3 } else { 4 });
                out.extend_from_slice(token);
                out.extend_from_slice(&train.to_be_bytes());
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::Record { token, train, first, total, arrivals } => {
                out.push(5);
                out.extend_from_slice(token);
                for number in [train, first, total] {
                    out.extend_from_slice(&number.to_be_bytes());
                }
                for (index, at) in arrivals {
                    out.extend_from_slice(&index.to_be_bytes());
                    out.extend_from_slice(&at.to_be_bytes());
                }
            }
        }
        if out.len() < size {
            out.resize(size, 0);
        }
        out
    }

    /// Reads a message; `None` if it is none, or too short to be answered.
    pub fn parse(bytes: &[u8]) -> Option<Self> {
        let rest = bytes.strip_prefix(&MAGIC)?;
        let (&kind, rest) = rest.split_first()?;
        let (&first, rest) = rest.split_first_chunk::<16>()?;
        let number = |at: usize| Some(u32::from_be_bytes(*rest.get(at..)?.first_chunk()?));
        let long = |at: usize| Some(u64::from_be_bytes(*rest.get(at..)?.first_chunk()?));
        Some(match kind {
            1 if bytes.len() >= HELLO => Self::Hello { nonce: first },
            2 => Self::Welcome {
                nonce: first,
                token: *rest.first_chunk()?,
                max_bps: long(16)?,
                max_bytes: long(24)?,
            },
            3 => Self::Data { token: first, train: number(0)?, index: number(4)? },
            4 if bytes.len() >= RECORD_REQUEST => {
                Self::RecordRequest { token: first, train: number(0)?, first: number(4)? }
            }
            5 => {
                let (records, []) = rest.get(12..)?.as_chunks::<12>() else { return None };
                let arrivals = records.iter().map(|record| {
                    let [a, b, c, d, at @ ..] = *record;
                    (u32::from_be_bytes([a, b, c, d]), u64::from_be_bytes(at))
                });
                Self::Record {
                    token: first,
                    train: number(0)?,
                    first: number(4)?,
                    total: number(8)?,
                    arrivals: arrivals.collect(),
                }
            }
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use perhop_fuzz::fuzz;

    use super::*;

    fn examples() -> Vec<(Message, usize)> {
        let (nonce, token) = ([7; 16], [9; 16]);
        let arrivals = vec![(1, 5_000_000_000), (3, 5_000_012_000)];
        vec![
            (Message::Hello { nonce }, HELLO),
            (Message::Welcome { nonce, token, max_bps: 1_000_000, max_bytes: 5_000 }, 0),
            (Message::Data { token, train: 2, index: 4 }, DATA),
            (Message::RecordRequest { token, train: 2, first: 90 }, RECORD_REQUEST),
            (Message::Record { token, train: 2, first: 0, total: 2, arrivals }, 0),
        ]
    }

    #[test]
    fn messages_are_read_as_written() {
        for (message, size) in examples() {
            let bytes = message.write(size);
            assert_eq!(Message::parse(&bytes), Some(message));
        }
        // A responder never sends more than it received.
        let full = Message::Record {
            token: [0; 16],
            train: 0,
            first: 0,
            total: 0,
            arrivals: vec![(0, 0); MAX_RECORDS],
        };
        assert!(full.write(0).len() <= RECORD_REQUEST);
        assert!(examples()[1].0.write(0).len() <= HELLO);
        assert_eq!(Message::parse(&Message::Hello { nonce: [0; 16] }.write(0)), None);
    }

    #[test]
    fn fuzz_messages() {
        let seeds: Vec<Vec<u8>> = examples().iter().map(|(it, size)| it.write(*size)).collect();
        fuzz("path messages", &seeds, |bytes| Message::parse(bytes).is_some());
    }
}
