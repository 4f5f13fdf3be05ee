//! Getting memory before it is needed.

/// How much memory comes at once.
const LINE: usize = 64;

/// Asks for `value` from memory, all lines of it, and waits for none: what is done with it a moment
/// later then waits less. Thousands of connections do not fit into a processor's cache, and which
/// one a packet is for is known before it arrives. Where this is not known how, nothing happens.
#[inline(always)]
pub fn prefetch<T>(value: &T) {
    for offset in (0..size_of::<T>()).step_by(LINE) {
        prefetch_line(value, offset);
    }
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
