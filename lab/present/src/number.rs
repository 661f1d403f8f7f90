//! Formats numbers: never with more digits than the scorer gives, decimal points aligned.

/// The significant digits of an error, as given by the passive party's scorer.
const DIGITS: i32 = 3;
/// The most decimals of a number; beyond them it is written in scientific notation.
const MAX_DECIMALS: i32 = 4;

/// Formats an error or a ratio: three significant digits and at most four decimals; scientific
/// notation below 1e-3 and from 1e4 on; `0` only for zero itself.
pub fn significant(x: f64) -> String {
    if x == 0.0 {
        return "0".into();
    }
    if !x.is_finite() {
        return "not finite".into();
    }
    let scientific = format!("{x:.2e}");
    // The exponent after rounding to three digits, so that 0.9996 is 1.00 and not 1.000.
    let exponent: i32 =
        scientific.split_once('e').and_then(|(_, e)| e.parse().ok()).unwrap_or_default();
    if !(-3..4).contains(&exponent) {
        return scientific;
    }
    if exponent == DIGITS {
        return format!("{:.0}", (x / 10.0).round() * 10.0);
    }
    let decimals = (DIGITS - 1 - exponent).clamp(0, MAX_DECIMALS);
    format!("{x:.*}", decimals as usize)
}

/// Formats an error as [`significant`] does, or with the standard deviation of its noise to two
/// digits: `0.0213 ± 0.0041`.
pub fn figure(x: f64, sigma: Option<f64>) -> String {
    match sigma.filter(|s| s.is_finite() && *s > 0.0) {
        None => significant(x),
        Some(sigma) => {
            let decimals = (1.0 - sigma.log10().floor()).clamp(0.0, 9.0) as usize;
            format!("{x:.decimals$} ± {sigma:.decimals$}")
        }
    }
}

/// Formats a share or an accuracy with four decimals.
pub fn four(x: f64) -> String {
    format!("{x:.4}")
}

/// Formats a signed change with four decimals and a sign; "unchanged" if it is 0.
pub fn change(x: f64) -> String {
    if x == 0.0 { "unchanged".into() } else { format!("{x:+.4}") }
}

/// Formats a ratio; `None` if the denominator is 0.
pub fn ratio(x: f64, of: f64) -> Option<String> {
    let r = x / of;
    r.is_finite().then(|| significant(r))
}

/// Formats the reduction from `of` to `x` as a whole percentage that is never rounded up to 100.
pub fn percent_below(x: f64, of: f64) -> String {
    let percent = 100.0 * (1.0 - x / of);
    if percent >= 99.5 {
        "more than 99 %".into()
    } else if percent < 1.0 {
        "less than 1 %".into()
    } else {
        format!("{percent:.0} %")
    }
}

/// Pads texts with `pad` on the left so that their decimal points (or ends of integers) are
/// aligned.
pub fn align_left(texts: &[String], pad: char) -> Vec<String> {
    let whole = |text: &str| text.find(['.', 'e']).unwrap_or(text.chars().count());
    let widest = texts.iter().map(|t| whole(t)).max().unwrap_or_default();
    texts
        .iter()
        .map(|text| {
            let mut padded: String = std::iter::repeat_n(pad, widest - whole(text)).collect();
            padded.push_str(text);
            padded
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn three_digits_and_no_more_than_four_decimals() {
        let cases = [
            (0.0, "0"),
            (1.2345e-27, "1.23e-27"),
            (9.99e-4, "9.99e-4"),
            (9.996e-4, "0.0010"),
            (0.001, "0.0010"),
            (0.00961, "0.0096"),
            (0.0912, "0.0912"),
            (0.102, "0.102"),
            (0.9996, "1.00"),
            (1.5, "1.50"),
            (12.34, "12.3"),
            (999.6, "1000"),
            (1237.0, "1240"),
            (9996.0, "1.00e4"),
            (12345.0, "1.23e4"),
        ];
        for (x, text) in cases {
            assert_eq!(significant(x), text, "{x}");
        }
    }

    #[test]
    fn a_small_gain_is_not_called_none_and_a_large_one_not_all() {
        assert_eq!(percent_below(0.999, 1.0), "less than 1 %");
        assert_eq!(percent_below(0.37, 1.0), "63 %");
        assert_eq!(percent_below(1e-9, 1.0), "more than 99 %");
    }

    #[test]
    fn decimal_points_stand_under_one_another() {
        let padded = align_left(
            &["12.3".into(), "0.0912".into(), "1.20e-27".into(), "0".into(), "–".into()],
            ' ',
        );
        assert_eq!(padded, ["12.3", " 0.0912", " 1.20e-27", " 0", " –"]);
    }

    #[test]
    fn noise_decides_how_many_digits_are_written() {
        assert_eq!(figure(0.02134, Some(0.0041)), "0.0213 ± 0.0041");
        assert_eq!(figure(-0.001, Some(0.012)), "-0.001 ± 0.012");
        assert_eq!(figure(0.5, Some(0.000_012_3)), "0.500000 ± 0.000012");
        assert_eq!(figure(0.5, None), "0.500");
        assert_eq!(figure(0.5, Some(0.0)), "0.500");
    }

    #[test]
    fn a_change_keeps_its_sign() {
        assert_eq!(change(-0.01234), "-0.0123");
        assert_eq!(change(0.5), "+0.5000");
        assert_eq!(change(0.0), "unchanged");
        assert_eq!(ratio(1.0, 0.0), None);
    }
}
