//! How a version is written: `Major.Minor`, with a patch that is ignored.

/// Major and minor of a version; the patch is read and forgotten.
pub fn parse(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split('.');
    let number = |text: &str| -> Option<u32> {
        if text.is_empty() || !text.bytes().all(|b| b.is_ascii_digit()) { None } else { text.parse().ok() }
    };
    let major = number(numbers.next()?)?;
    let minor = numbers.next().map_or(Some(0), number)?;
    if let Some(patch) = numbers.next() {
        number(patch)?;
    }
    if numbers.next().is_some() { None } else { Some((major, minor)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_major_and_minor_count() {
        for text in ["1.0", "1", "1.0.0", "1.0.1", " 1.0 ", "01.00"] {
            assert_eq!(parse(text), Some((1, 0)), "{text}");
        }
        assert_eq!(parse("0.3.2"), Some((0, 3)));
    }

    #[test]
    fn what_is_no_single_version_is_none() {
        for text in ["", "1.0,0.3", "1.0, 1.0", "v1", "1.0-beta", "1.", ".1", "1.0.0.0", "+1.0", "\u{661}.\u{660}"] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
