//! Powers, logarithm and exponential, made of the four basic operations, which every platform
//! rounds alike. The C library's functions differ in the last digit between versions, and results
//! would differ with them.

/// ln 2 in two parts, the first with so few bits that its products with small integers are exact.
const LN_2_HIGH: f64 = f64::from_bits(0x3fe6_2e42_fee0_0000);
const LN_2_LOW: f64 = f64::from_bits(0x3dea_39ef_3579_3c76);
const LN_2: f64 = std::f64::consts::LN_2;

/// Returns the natural logarithm of a positive, normal `x`, to within a few units in the last
/// place.
pub fn ln(x: f64) -> f64 {
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
pub fn exp(x: f64) -> f64 {
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

/// Returns the quantile of the normal distribution with a mean of 0 and a variance of 1 at `share`,
/// from 0 to 1, to within 10⁻⁶ between −8 and 8: algorithm AS 241 (PPND7) of M. J. Wichura, *The
/// percentage points of the normal distribution*, Applied Statistics 37 (1988).
pub fn normal_quantile(share: f64) -> f64 {
    debug_assert!((0.0..=1.0).contains(&share));
    let polynomial = |x: f64, from: &[f64]| from.iter().rev().fold(0.0, |sum, c| sum * x + c);
    let from_middle = share - 0.5;
    if from_middle.abs() <= 0.425 {
        let x = 0.180_625 - from_middle * from_middle;
        let over = polynomial(x, &[3.387_132_717_9, 50.434_271_938, 159.291_132_02, 59.109_374_72]);
        let under = polynomial(x, &[1.0, 17.895_169_469, 78.757_757_664, 67.187_563_6]);
        return from_middle * over / under;
    }
    let root = (-ln(share.min(1.0 - share).max(1e-300))).sqrt();
    let far = if root <= 5.0 {
        let x = root - 1.6;
        let over = [1.423_437_277_7, 2.756_815_39, 1.306_728_481_6, 0.170_238_211_03];
        polynomial(x, &over) / polynomial(x, &[1.0, 0.737_001_642_5, 0.120_211_329_75])
    } else {
        let x = root - 5.0;
        let over = [6.657_905_115, 3.081_226_386, 0.428_682_943_37, 0.017_337_203_997];
        polynomial(x, &over) / polynomial(x, &[1.0, 0.241_978_942_25, 0.012_258_202_635])
    };
    if from_middle < 0.0 { -far } else { far }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Table 26.1 of Abramowitz and Stegun, Handbook of Mathematical Functions.
    #[test]
    fn normal_quantiles_are_those_of_tables() {
        for (x, share) in [
            (0.0, 0.5),
            (0.5, 0.691_462_461_27),
            (1.0, 0.841_344_746_07),
            (2.0, 0.977_249_868_05),
            (3.0, 0.998_650_101_97),
            (4.0, 0.999_968_328_76),
        ] {
            assert!((normal_quantile(share) - x).abs() < 1e-5, "{x}");
            assert!((normal_quantile(1.0 - share) + x).abs() < 1e-5, "-{x}");
        }
        assert!(normal_quantile(0.0) < -30.0 && normal_quantile(1.0) > 30.0);
    }

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
