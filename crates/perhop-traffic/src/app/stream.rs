//! Headers and bodies in a stream of bytes, which arrives in any pieces.

/// Part of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Piece<const N: usize> {
    /// A header is complete.
    Header([u8; N]),
    /// Bytes of the body that follows.
    Body(u64),
}

/// Reads a stream of headers of `N` bytes with a body each.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Headers<const N: usize> {
    header: [u8; N],
    filled: usize,
    /// Bytes of the body that have not arrived.
    pub body: u64,
}

impl<const N: usize> Default for Headers<N> {
    fn default() -> Self {
        Self { header: [0; N], filled: 0, body: 0 }
    }
}

impl<const N: usize> Headers<N> {
    /// Returns the next part of `bytes` and removes it from them; `None` if a header is incomplete,
    /// or nothing is left. After a header, the caller sets the length of its `body`.
    pub fn next(&mut self, bytes: &mut &[u8]) -> Option<Piece<N>> {
        if bytes.is_empty() {
            return None;
        }
        if self.body > 0 {
            let taken = self.body.min(bytes.len() as u64);
            self.body -= taken;
            *bytes = &bytes[taken as usize..];
            return Some(Piece::Body(taken));
        }
        let taken = bytes.len().min(N - self.filled);
        self.header[self.filled..self.filled + taken].copy_from_slice(&bytes[..taken]);
        *bytes = &bytes[taken..];
        self.filled += taken;
        (self.filled == N).then(|| {
            self.filled = 0;
            Piece::Header(self.header)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn pieces_of_any_length_have_the_same_headers_and_bodies(
            bodies in prop::collection::vec(0..50_u8, 0..20),
            pieces in prop::collection::vec(1..30_usize, 1..20),
        ) {
            let mut stream = Vec::new();
            for &body in &bodies {
                stream.extend([7, body]);
                stream.extend(vec![0; body.into()]);
            }
            let (mut headers, mut found, mut total) = (Headers::<2>::default(), Vec::new(), 0);
            let mut left = &stream[..];
            for length in pieces.iter().cycle() {
                let (mut piece, rest) = left.split_at((*length).min(left.len()));
                left = rest;
                while let Some(part) = headers.next(&mut piece) {
                    match part {
                        Piece::Header([seven, body]) => {
                            prop_assert_eq!(seven, 7);
                            headers.body = body.into();
                            found.push(body);
                        }
                        Piece::Body(bytes) => total += bytes,
                    }
                }
                if left.is_empty() {
                    break;
                }
            }
            prop_assert_eq!(total, bodies.iter().map(|&body| u64::from(body)).sum::<u64>());
            prop_assert_eq!(found, bodies);
        }
    }
}
