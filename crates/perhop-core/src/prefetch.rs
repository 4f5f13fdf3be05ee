//! Prefetching of memory.

/// Size of a cache line, in bytes.
const LINE: usize = 64;

/// Prefetches all cache lines of `value` without waiting, so that an access a moment later waits
/// less. The state of thousands of connections does not fit into a processor's cache, and the
/// connection of a packet is known before the packet arrives. Does nothing on processors without a
/// known instruction for it.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    for offset in (0..size_of::<T>()).step_by(LINE) {
        prefetch_line(value, offset);
    }
}

/// Prefetches the cache line that is `bytes` after `value`, which may be beyond its array.
#[inline(always)]
pub fn prefetch_after<T>(value: &T, bytes: usize) {
    prefetch_line(value, bytes);
}

#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn prefetch_line<T>(value: &T, offset: usize) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let address = std::ptr::from_ref(value).cast::<i8>().wrapping_add(offset);
    // SAFETY: a hint. It reads nothing, changes nothing and is allowed on any address.
    #[allow(unsafe_code)]
    unsafe {
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
}

#[cfg(not(target_arch = "x86_64"))]
fn prefetch_line<T>(_value: &T, _offset: usize) {}
