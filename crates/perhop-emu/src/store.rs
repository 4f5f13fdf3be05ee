//! Memory of packets in transit.

use perhop_wire::PartialChecksum;

/// Room before a packet, so that it is written together with its header by one call.
pub(crate) const HEADROOM: usize = 16;
/// Number of buffers that are allocated at a time.
const BLOCK: usize = 256;

/// A packet's buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Buffer(u32);

/// Buffers for packets up to a length. Taking and releasing them does not allocate once there are
/// enough. Under load, there are as many as queues and wires hold packets.
#[derive(Debug)]
pub(crate) struct Store {
    blocks: Vec<Box<[u8]>>,
    /// Length of a buffer with its headroom, in bytes.
    stride: usize,
    partial: Vec<Option<PartialChecksum>>,
    free: Vec<Buffer>,
    /// Greatest number of buffers.
    limit: usize,
}

impl Store {
    /// Creates a store for packets of at most `length` bytes, with at most `memory` bytes.
    pub fn new(length: usize, memory: usize) -> Self {
        let stride = (HEADROOM + length).next_multiple_of(64);
        let limit = (memory / stride).max(BLOCK);
        Self { blocks: Vec::new(), stride, partial: Vec::new(), free: Vec::new(), limit }
    }

    /// Returns the length of the longest packet that fits, in bytes.
    pub fn length(&self) -> usize {
        self.stride - HEADROOM
    }

    /// Returns a buffer for a packet; `None` if all are in use.
    pub fn take(&mut self) -> Option<Buffer> {
        if self.free.is_empty() {
            self.grow();
        }
        let buffer = self.free.pop()?;
        self.partial[buffer.0 as usize] = None;
        Some(buffer)
    }

    #[cold]
    fn grow(&mut self) {
        let places = self.partial.len();
        if places + BLOCK > self.limit {
            return;
        }
        self.blocks.push(vec![0; BLOCK * self.stride].into_boxed_slice());
        self.partial.resize(places + BLOCK, None);
        self.free.extend((places..places + BLOCK).rev().map(|place| Buffer(place as u32)));
    }

    /// Returns a buffer with a copy of the bytes; `None` if all are in use.
    pub fn copy(&mut self, buffer: Buffer) -> Option<Buffer> {
        let copy = self.take()?;
        let bytes = self.place(buffer).to_vec();
        self.place_mut(copy).copy_from_slice(&bytes);
        self.partial[copy.0 as usize] = self.partial(buffer);
        Some(copy)
    }

    /// Releases the buffer of a packet.
    pub fn release(&mut self, buffer: Buffer) {
        debug_assert!(!self.free.contains(&buffer) || self.free.len() > 64, "released twice");
        self.free.push(buffer);
    }

    /// Returns the packet's bytes, and the rest of its buffer.
    pub fn bytes(&self, buffer: Buffer) -> &[u8] {
        &self.place(buffer)[HEADROOM..]
    }

    /// Returns the same, mutably.
    pub fn bytes_mut(&mut self, buffer: Buffer) -> &mut [u8] {
        &mut self.place_mut(buffer)[HEADROOM..]
    }

    /// Returns the checksum that is still to be computed, if any.
    pub fn partial(&self, buffer: Buffer) -> Option<PartialChecksum> {
        self.partial[buffer.0 as usize]
    }

    /// Sets the checksum that is still to be computed, if any.
    pub fn set_partial(&mut self, buffer: Buffer, partial: Option<PartialChecksum>) {
        self.partial[buffer.0 as usize] = partial;
    }

    /// Returns the whole buffer with its headroom.
    pub fn place(&self, Buffer(place): Buffer) -> &[u8] {
        let (block, at) = (place as usize / BLOCK, place as usize % BLOCK * self.stride);
        &self.blocks[block][at..at + self.stride]
    }

    /// Returns the same, mutably.
    pub fn place_mut(&mut self, Buffer(place): Buffer) -> &mut [u8] {
        let (block, at) = (place as usize / BLOCK, place as usize % BLOCK * self.stride);
        &mut self.blocks[block][at..at + self.stride]
    }

    /// Returns the number of buffers in use.
    #[cfg(test)]
    pub fn taken(&self) -> usize {
        self.partial.len() - self.free.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_do_not_overlap_and_come_back() {
        let mut store = Store::new(100, 1 << 20);
        let buffers: Vec<Buffer> = (0..600).map(|_| store.take().unwrap()).collect();
        for (number, &buffer) in buffers.iter().enumerate() {
            store.place_mut(buffer).fill(number as u8);
        }
        for (number, &buffer) in buffers.iter().enumerate() {
            assert!(store.place(buffer).iter().all(|&byte| byte == number as u8));
            assert!(store.bytes(buffer).len() >= 100);
        }
        let blocks = store.blocks.len();
        buffers.iter().for_each(|&buffer| store.release(buffer));
        assert_eq!(store.taken(), 0);
        let again = (0..600).map(|_| store.take()).filter(Option::is_some).count();
        assert_eq!((again, store.blocks.len()), (600, blocks));
    }

    #[test]
    fn memory_is_limited() {
        let mut store = Store::new(1500, BLOCK * 1536 * 2);
        assert_eq!((0..10_000).map_while(|_| store.take()).count(), 2 * BLOCK);
        let buffer = Buffer(7);
        assert_eq!(store.copy(buffer), None);
        store.release(buffer);
        assert!(store.take().is_some());
    }
}
