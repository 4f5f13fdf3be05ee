//! The Internet checksum (RFC 1071).

/// Returns the sum of 16-bit words, the last one padded with zeros. The sums of parts add up to
/// that of the whole if all parts but the last are of even length.
pub fn sum_of_words(bytes: &[u8]) -> u64 {
    // Words of 32 bits add up to the same, once carries come around (RFC 1071, section 2).
    let (quads, rest) = bytes.as_chunks::<4>();
    let mut sum: u64 = quads.iter().map(|quad| u64::from(u32::from_be_bytes(*quad))).sum();
    for word in rest.chunks(2) {
        sum += match *word {
            [high, low] => u64::from(u16::from_be_bytes([high, low])),
            [high] => u64::from(high) << 8,
            _ => 0,
        };
    }
    sum
}

/// Folds a sum into 16 bits with end-around carry.
pub const fn fold(mut sum: u64) -> u16 {
    while sum >> 16 > 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    sum as u16
}

/// Returns the checksum of data with the sum `sum`.
pub const fn checksum(sum: u64) -> u16 {
    !fold(sum)
}

/// Returns a checksum after some of the words that it covers have changed (RFC 1624, equation 3:
/// HC' = ~(~HC + ~m + m')).
pub fn updated_checksum(checksum: u16, before: &[u16], after: &[u16]) -> u16 {
    let removed: u64 = before.iter().map(|&word| u64::from(!word)).sum();
    let added: u64 = after.iter().map(|&word| u64::from(word)).sum();
    !fold(u64::from(!checksum) + removed + added)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_that_of_the_example_in_rfc_1071() {
        let example = [0x00, 0x01, 0xf2, 0x03, 0xf4, 0xf5, 0xf6, 0xf7];
        assert_eq!(fold(sum_of_words(&example)), 0xddf2);
        assert_eq!(checksum(sum_of_words(&example[..7])), !0xdcfb); // an odd byte is the high one
        assert_eq!(sum_of_words(&[]), 0);
    }

    #[test]
    fn it_is_the_sum_of_words_of_16_bits() {
        let bytes: Vec<u8> = (0..=255).chain(0..77).map(|n: u8| n.wrapping_mul(31)).collect();
        for length in 0..bytes.len() {
            let words = bytes[..length]
                .chunks(2)
                .map(|word| u64::from(word[0]) << 8 | u64::from(word.get(1).copied().unwrap_or(0)));
            assert_eq!(fold(sum_of_words(&bytes[..length])), fold(words.sum()));
        }
    }
}
