//! The macro that defines views of headers.

/// Defines a view of a header of fixed length.
///
/// The view holds an array, or a reference to one, instead of a slice: its length is part of its
/// type, so that accessors need no bounds checks.
macro_rules! header {
    ($(#[$meta:meta])* $name:ident, $length:expr) => {
        $(#[$meta])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct $name<B>(B);

        impl<'a> $name<&'a [u8; $length]> {
            /// Views the header at the beginning of `bytes`; `None` if it is cut off.
            pub fn of(bytes: &'a [u8]) -> Option<Self> {
                bytes.first_chunk().map(Self)
            }
        }

        impl<'a> $name<&'a mut [u8; $length]> {
            /// Views the header at the beginning of `bytes` to change it; `None` if it is cut off.
            pub fn of_mut(bytes: &'a mut [u8]) -> Option<Self> {
                bytes.first_chunk_mut().map(Self)
            }
        }

        impl<B: ::std::borrow::Borrow<[u8; $length]>> $name<B> {
            /// Returns the bytes of the header.
            pub fn bytes(&self) -> &[u8; $length] {
                self.0.borrow()
            }

            #[allow(dead_code, reason = "not every header has a word of 16 bits")]
            fn word<const AT: usize>(&self) -> u16 {
                let bytes = self.bytes();
                u16::from_be_bytes([bytes[AT], bytes[AT + 1]])
            }

            #[allow(dead_code, reason = "not every header has a word of 32 bits")]
            fn long<const AT: usize>(&self) -> u32 {
                let bytes = self.bytes();
                u32::from_be_bytes([bytes[AT], bytes[AT + 1], bytes[AT + 2], bytes[AT + 3]])
            }
        }

        impl<B: ::std::borrow::BorrowMut<[u8; $length]>> $name<B> {
            fn set<const AT: usize, const N: usize>(&mut self, value: [u8; N]) {
                self.0.borrow_mut()[AT..AT + N].copy_from_slice(&value);
            }
        }
    };
}

pub(crate) use header;
