//! `A2A-Version`: which protocol a request speaks, if it says.

use model::{Fault, Kind};

use crate::framing::shape::shortened;

/// What a request says of its version.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Version {
    /// Nothing, or an empty header: the method or route decides.
    Unstated,
    V1,
}

/// Reads the header and the query parameter of that name. They may both stand there if they agree.
///
/// Only Major.Minor counts: `1`, `1.0` and `1.0.1` are the same version. A list of versions is none.
pub fn check(header: Option<&str>, query: Option<&str>) -> Result<Version, Fault> {
    match (stated(header)?, stated(query)?) {
        (None, None) => Ok(Version::Unstated),
        (Some(_), None) | (None, Some(_)) => Ok(Version::V1),
        (Some(a), Some(b)) if a == b => Ok(Version::V1),
        (Some(_), Some(_)) => Err(unsupported("the A2A-Version of the header and of the query differ".to_owned())),
    }
}

fn stated(text: Option<&str>) -> Result<Option<(u32, u32)>, Fault> {
    let Some(text) = text.map(str::trim).filter(|text| !text.is_empty()) else {
        return Ok(None);
    };
    match parse(text) {
        Some((1, 0)) => Ok(Some((1, 0))),
        Some(_) => Err(unsupported(format!("A2A-Version {} is not supported here", shortened(text, 32)))),
        None => Err(unsupported(format!("A2A-Version {:?} is not one version number", shortened(text, 32)))),
    }
}

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

fn unsupported(message: String) -> Fault {
    Fault::new(Kind::VersionNotSupported, message).fact("supportedVersions", super::VERSION)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_major_and_minor_count() {
        for text in ["1.0", "1", "1.0.0", "1.0.1", " 1.0 ", "01.00"] {
            assert_eq!(check(Some(text), None).unwrap(), Version::V1, "{text}");
            assert_eq!(check(None, Some(text)).unwrap(), Version::V1, "{text}");
        }
    }

    #[test]
    fn a_missing_or_empty_version_is_unstated() {
        for text in [None, Some(""), Some("  ")] {
            assert_eq!(check(text, None).unwrap(), Version::Unstated);
            assert_eq!(check(None, text).unwrap(), Version::Unstated);
        }
    }

    #[test]
    fn any_other_version_is_not_supported_and_the_fault_says_which_are() {
        for text in
            ["99.0", "1.7", "0.3", "2", "1.0,0.3", "1.0, 1.0", "v1", "1.0-beta", "1.", ".1", "1.0.0.0", "+1.0", "١.٠"]
        {
            let fault = check(Some(text), None).unwrap_err();
            assert_eq!(fault.kind, Kind::VersionNotSupported, "{text}");
            assert_eq!(fault.facts, [("supportedVersions", "1.0".to_owned())]);
        }
    }

    #[test]
    fn header_and_query_may_both_speak_if_they_agree() {
        assert_eq!(check(Some("1.0"), Some("1.0.1")).unwrap(), Version::V1);
        assert!(check(Some("1.0"), Some("0.3")).is_err());
    }
}
