//! Captures: what passes an interface, as a file that packet analysers read.
//!
//! A capture sees what a tap at a node's interface would: packets when their transmission begins,
//! after every queue and policer, and packets when they have arrived.

mod pcapng;

use std::fmt;
use std::io;

use perhop_core::Time;
use perhop_net::{Passage, PortId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// A file that captures, and of what.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct CapturePlan {
    /// How much is kept of a packet, in bytes; zero keeps all of it.
    pub snaplen: u32,
    /// What writes the file.
    pub application: String,
    /// What the file is about.
    pub comment: String,
    /// The interfaces that it captures at.
    pub interfaces: Vec<InterfacePlan>,
}

/// An interface: a node's end of a link.
#[derive(Clone, Debug, Deserialize, JsonSchema, Serialize)]
#[serde(deny_unknown_fields)]
pub struct InterfacePlan {
    /// The directed link into which the node sends, which is its name in the file too.
    pub name: String,
    /// What it is.
    pub description: String,
    /// The link's rate.
    pub speed: u64,
}

/// What takes a capture's bytes.
pub trait Sink: Send + Sync {
    /// Takes whole blocks of a file: all of them, or, where that fails, none.
    ///
    /// # Errors
    /// Why they were not taken. The capture ends with it.
    fn take(&mut self, blocks: &[u8]) -> io::Result<()>;
}

/// The sink of a file that has ended.
struct Nowhere;

impl Sink for Nowhere {
    fn take(&mut self, _blocks: &[u8]) -> io::Result<()> {
        Ok(())
    }
}

/// How many bytes of a file wait until the sink takes them.
const BATCH: usize = 1 << 16;

/// A file that is being written.
struct File {
    sink: Box<dyn Sink>,
    snaplen: u32,
    /// Whole blocks that the sink has not taken.
    waiting: Vec<u8>,
    ended: bool,
}

impl File {
    fn flush(&mut self) -> io::Result<()> {
        if self.waiting.is_empty() || self.ended {
            return Ok(());
        }
        let taken = self.sink.take(&self.waiting);
        self.waiting.clear();
        self.ended = taken.is_err();
        taken
    }
}

impl fmt::Debug for File {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("File").field("snaplen", &self.snaplen).finish_non_exhaustive()
    }
}

/// All captures of a run.
#[derive(Debug, Default)]
pub struct Captures {
    files: Vec<File>,
    /// By port: the files that capture at this interface, and its number in each.
    taps: Vec<Vec<(usize, u32)>>,
    failure: Option<io::Error>,
}

impl Captures {
    /// Begins a file that captures at these ports, one for each interface of the plan; returns its
    /// number.
    pub fn add(&mut self, plan: &CapturePlan, ports: &[PortId], sink: Box<dyn Sink>) -> usize {
        let ended = |number: &usize| self.taps.iter().flatten().all(|(file, _)| file != number);
        let free = (0..self.files.len()).find(ended);
        let file = free.unwrap_or(self.files.len());
        let mut waiting = Vec::with_capacity(2 * BATCH);
        pcapng::section(&mut waiting, &plan.application, &plan.comment);
        for (number, (interface, port)) in plan.interfaces.iter().zip(ports).enumerate() {
            pcapng::interface(&mut waiting, interface, plan.snaplen);
            let port = port.0 as usize;
            if port >= self.taps.len() {
                self.taps.resize_with(port + 1, Vec::new);
            }
            self.taps[port].push((file, number as u32));
        }
        let begun = File { sink, snaplen: plan.snaplen, waiting, ended: false };
        match free {
            Some(file) => self.files[file] = begun,
            None => self.files.push(begun),
        }
        file
    }

    /// Ends a file, the sink having taken what waits; returns the ports at which nobody captures
    /// any more. Its number is another file's then.
    pub fn end(&mut self, file: usize) -> Vec<PortId> {
        let Some(ended) = self.files.get_mut(file) else { return Vec::new() };
        let _ = ended.flush();
        *ended = File { sink: Box::new(Nowhere), snaplen: 0, waiting: Vec::new(), ended: true };
        let mut unused = Vec::new();
        for (port, taps) in self.taps.iter_mut().enumerate() {
            let before = taps.len();
            taps.retain(|(tapped, _)| *tapped != file);
            if taps.is_empty() && before > 0 {
                unused.push(PortId(port as u32));
            }
        }
        unused
    }

    /// A packet of `length` bytes passes an interface. Of its bytes those that are not given, at
    /// its end, are zero.
    pub fn packet(
        &mut self,
        at: Time,
        (interface, passage): (PortId, Passage),
        (bytes, length): (&[u8], u32),
    ) {
        for &(file, number) in self.taps.get(interface.0 as usize).into_iter().flatten() {
            let file = &mut self.files[file];
            if file.ended {
                continue;
            }
            let packet = pcapng::Packet {
                interface: number,
                at,
                passage,
                bytes,
                length,
                snaplen: file.snaplen,
            };
            packet.write(&mut file.waiting);
            if file.waiting.len() >= BATCH
                && let Err(error) = file.flush()
            {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Has the sinks take what waits.
    pub fn flush(&mut self) {
        for file in &mut self.files {
            if let Err(error) = file.flush() {
                self.failure.get_or_insert(error);
            }
        }
    }

    /// Why a capture has ended, once, if one has.
    pub fn take_failure(&mut self) -> Option<io::Error> {
        self.failure.take()
    }
}
