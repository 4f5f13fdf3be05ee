//! Powers, logarithm and exponential, made of the four basic operations, which every platform
//! rounds alike. The C library's functions differ in the last digit between versions, and results
//! would differ with them.

/// ln 2 in two parts, the first with so few bits that its products with small integers are exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
const LN_2: f64 = std::f64::consts::LN_2;

/// Returns the natural logarithm of a positive, normal `x`, to within a few units in the last
/// place.
pub(crate) fn ln(x: f64) -> f64 {
    debug_assert!(x.is_normal() && x > 0.0);
    // x = mantissa · 2ᵉ with the mantissa in √½..√2, so that the logarithm of neither cancels the
    // other's.
    let bits = x.to_bits();
    let mut exponent = (bits >> 52) as i32 - 1023;
    let mut mantissa = f64::from_bits(bits & ((1 << 52) - 1) | 1023 << 52);
    if mantissa > std::f64::consts::SQRT_2 {
        mantissa /= 2.0;
        exponent += 1;
    }
    // ln m = 2 artanh s, s = (m − 1) / (m + 1), |s| < 0.1716: s²¹ / 21 is below 2⁻⁵³ of s.
    let s = (mantissa - 1.0) / (mantissa + 1.0);
    let square = s * s;
    let mut series = 0.0;
    for odd in (3..=21).rev().step_by(2) {
        series = (series + 1.0 / f64::from(odd)) * square;
    }
    let exponent = f64::from(exponent);
    exponent * LN_2_HIGH + (2.0 * s + (2.0 * s * series + exponent * LN_2_LOW))
}

/// e to the power of `x`, from −700 to 700, to within a few units in the last place.
pub(crate) fn exp(x: f64) -> f64 {
    debug_assert!((-700.0..=700.0).contains(&x));
    // x = k ln 2 + r with |r| at most half of ln 2: r¹⁴ / 14! is below 2⁻⁵³.
    let quotient = x / LN_2;
    let k = (quotient + if quotient < 0.0 { -0.5 } else { 0.5 }) as i32;
    let r = (x - f64::from(k) * LN_2_HIGH) - f64::from(k) * LN_2_LOW;
    let mut series = 1.0;
    for n in (1..=14).rev() {
        series = 1.0 + series * r / f64::from(n);
    }
    series * f64::from_bits(((1023 + k) as u64) << 52)
}

/// `base` to the power of `exponent`, by squaring: multiplications alone, so that every platform
/// has the same digits.
pub fn power(mut base: f64, mut exponent: u64) -> f64 {
    let mut product = 1.0;
    while exponent > 0 {
        if exponent & 1 == 1 {
            product *= base;
        }
        base *= base;
        exponent >>= 1;
    }
    product
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the distance between two numbers in units in the last place.
    fn apart(a: f64, b: f64) -> u64 {
        a.to_bits().abs_diff(b.to_bits())
    }

    #[test]
    fn the_logarithm_is_that_of_the_standard_library_but_for_the_last_digits() {
        let mut x = 1e-300;
        while x < 1e300 {
            assert!(apart(ln(x), x.ln()) <= 4, "ln({x}) = {}, not {}", ln(x), x.ln());
            x *= 1.37;
        }
        for step in 1..=1_000_000 {
            let x = f64::from(step) / 1e6;
            assert!(apart(ln(x), x.ln()) <= 4, "ln({x}) = {}, not {}", ln(x), x.ln());
        }
        assert_eq!(ln(1.0), 0.0);
    }

    #[test]
    fn the_exponential_is_that_of_the_standard_library_but_for_the_last_digits() {
        for step in -700_000..=700_000 {
            let x = f64::from(step) / 1e3;
            assert!(apart(exp(x), x.exp()) <= 4, "exp({x}) = {}, not {}", exp(x), x.exp());
        }
        assert_eq!(exp(0.0), 1.0);
    }

    #[test]
    fn one_undoes_the_other() {
        for step in 1..2_000 {
            let x = f64::from(step) / 100.0;
            assert!((exp(ln(x)) / x - 1.0).abs() < 4e-15, "{x}");
        }
    }
}
