//! The server's end of a control connection as a state machine without sockets: bytes in, events
//! out.

use super::message::{MAX_PARAMETERS, MAX_RESULTS, Parameters, Results, State};

/// Message that the server expects.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Parameters,
    /// Only the end of the test, while streams are created.
    Streams,
    /// The end of the test.
    End,
    Results,
    Done,
}

/// Message of the client.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Event {
    Parameters(Box<Parameters>),
    End,
    Results(Results),
    /// The client needs nothing more: after the results, or earlier if it gives up. iperf3's does
    /// so if one of its data connections fails.
    Done,
    /// The client terminates the test.
    Terminated,
}

/// Fault in the client's messages.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Fault {
    #[error("a message of {0} bytes, longer than any of iperf3")]
    Length(usize),
    #[error("{what}: {error}")]
    Json { what: &'static str, error: String },
    #[error("unexpected state {0}")]
    State(i8),
}

/// Parser of a client's messages. It holds at most one message.
#[derive(Debug)]
pub(crate) struct Control {
    pub expected: Expected,
    buffer: Vec<u8>,
}

impl Control {
    /// Returns the state after the client's cookie.
    pub fn new() -> Self {
        Self { expected: Expected::Parameters, buffer: Vec::new() }
    }

    fn limit(&self) -> usize {
        if self.expected == Expected::Parameters { MAX_PARAMETERS } else { MAX_RESULTS }
    }

    /// Adds received bytes.
    pub fn push(&mut self, bytes: &[u8]) -> Result<(), Fault> {
        let length = self.buffer.len() + bytes.len();
        // The end of the test, followed by the results.
        if length > self.limit() + 5 {
            return Err(Fault::Length(length));
        }
        self.buffer.extend_from_slice(bytes);
        Ok(())
    }

    /// Returns the next message, if it is complete.
    pub fn next(&mut self) -> Result<Option<Event>, Fault> {
        match self.expected {
            Expected::Parameters => {
                let read = self.json("the client's parameters")?;
                self.expected = if read.is_some() { Expected::Streams } else { self.expected };
                Ok(read.map(|parameters| Event::Parameters(Box::new(parameters))))
            }
            Expected::Results => {
                let read = self.json("the client's results")?;
                self.expected = if read.is_some() { Expected::Done } else { self.expected };
                Ok(read.map(Event::Results))
            }
            Expected::Streams | Expected::End | Expected::Done => {
                let Some(&byte) = self.buffer.first() else { return Ok(None) };
                self.buffer.remove(0);
                match (self.expected, State::of(byte)) {
                    (_, Some(State::ClientTerminate)) => Ok(Some(Event::Terminated)),
                    (Expected::End, Some(State::TestEnd)) => {
                        self.expected = Expected::Results;
                        Ok(Some(Event::End))
                    }
                    (_, Some(State::Done)) => Ok(Some(Event::Done)),
                    _ => Err(Fault::State(byte as i8)),
                }
            }
        }
    }

    fn json<T: serde::de::DeserializeOwned>(
        &mut self,
        what: &'static str,
    ) -> Result<Option<T>, Fault> {
        let Some(length) = self.buffer.first_chunk() else { return Ok(None) };
        let length = u32::from_be_bytes(*length) as usize;
        if length > self.limit() {
            return Err(Fault::Length(length));
        }
        let Some(text) = self.buffer.get(4..4 + length) else { return Ok(None) };
        let read = serde_json::from_slice(text)
            .map_err(|error| Fault::Json { what, error: error.to_string() })?;
        self.buffer.drain(..4 + length);
        Ok(Some(read))
    }
}

#[cfg(test)]
mod tests {
    use perhop_fuzz::fuzz_slow;

    use super::*;
    use crate::iperf3::limits::Limits;
    use crate::iperf3::message::{StreamResult, frame};

    fn conversation(parameters: &Parameters) -> Vec<u8> {
        let streams = vec![StreamResult { id: 1, ..StreamResult::default() }; 2];
        let results = Results { streams, ..Results::default() };
        let end = [State::TestEnd.byte()];
        [&frame(parameters)[..], &end, &frame(&results), &[State::Done.byte()]].concat()
    }

    /// Parses a client's bytes in pieces, with the steps of the server. Returns the events.
    fn converse(bytes: &[u8], piece: usize) -> Result<Vec<Event>, Fault> {
        let (mut control, mut events) = (Control::new(), Vec::new());
        for bytes in bytes.chunks(piece.max(1)) {
            control.push(bytes)?;
            while let Some(event) = control.next()? {
                if control.expected == Expected::Streams {
                    control.expected = Expected::End;
                }
                let over = matches!(event, Event::Done | Event::Terminated);
                events.push(event);
                if over {
                    return Ok(events);
                }
            }
            assert!(control.buffer.capacity() <= 2 * (MAX_RESULTS + 5));
        }
        Ok(events)
    }

    fn seeds() -> Vec<Vec<u8>> {
        let tcp = Parameters { tcp: true, time: Some(10), parallel: Some(4), ..Default::default() };
        let udp = Parameters {
            udp: true,
            bandwidth: Some(1_000_000),
            len: Some(1448),
            title: Some("a test".to_owned()),
            ..Default::default()
        };
        vec![conversation(&tcp), conversation(&udp)]
    }

    #[test]
    fn a_conversation_is_read_however_it_is_cut() {
        let bytes = &seeds()[0];
        let whole = converse(bytes, bytes.len()).unwrap();
        assert_eq!(whole.len(), 4);
        assert!((1..40).all(|piece| converse(bytes, piece).unwrap() == whole));
    }

    #[test]
    fn lengths_and_states_that_make_no_sense_are_faults() {
        let long = [0xff, 0xff, 0xff, 0xff];
        assert_eq!(converse(&long, 4), Err(Fault::Length(0xffff_ffff)));
        let mut control = Control::new();
        assert!(control.push(&vec![0; MAX_PARAMETERS + 6]).is_err());
        control.expected = Expected::End;
        control.push(&[State::Done.byte()]).unwrap();
        assert_eq!(control.next(), Ok(Some(Event::Done)));
        control.push(&[State::CreateStreams.byte()]).unwrap();
        assert_eq!(control.next(), Err(Fault::State(10)));
        let deep = vec![b'['; 5_000];
        let framed = [&5_000_u32.to_be_bytes()[..], &deep].concat();
        assert!(matches!(converse(&framed, 5_004), Err(Fault::Json { .. })));
    }

    #[test]
    fn fuzz_iperf3_messages() {
        fuzz_slow("iperf3 messages", &seeds(), |bytes| {
            let piece = bytes.first().map_or(1, |&first| usize::from(first) + 1);
            let Ok(events) = converse(bytes, piece) else { return false };
            for event in &events {
                if let Event::Parameters(parameters) = event {
                    let _ = Limits::default().admit(parameters);
                }
            }
            !events.is_empty()
        });
    }
}
