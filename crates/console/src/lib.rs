//! The files of the console, embedded by the build script in two forms each: gzip and brotli. Few clients take neither; for
//! them a file is unpacked, which costs time and not a third copy in the binary.

use std::borrow::Cow;
use std::io::Read as _;

include!(concat!(env!("OUT_DIR"), "/files.rs"));

/// A file of the console.
pub struct ConsoleFile {
    /// Its path below `/console/`.
    pub path: &'static str,
    /// A hash of the content, without quotes.
    pub etag: &'static str,
    gzip: &'static [u8],
    brotli: &'static [u8],
}

/// The form in which the bytes of a file are sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    Identity,
    Gzip,
    Brotli,
}

impl Coding {
    /// The value of `Content-Encoding`; none for plain bytes.
    pub fn name(self) -> Option<&'static str> {
        match self {
            Coding::Identity => None,
            Coding::Gzip => Some("gzip"),
            Coding::Brotli => Some("br"),
        }
    }

    /// The best form that a client accepts, by the header `Accept-Encoding`.
    pub fn accepted(header: &str) -> Coding {
        let takes = |name: &str| {
            header.split(',').any(|one| {
                let (coding, weight) = one.split_once(';').unwrap_or((one, "q=1"));
                let weight = weight.trim().strip_prefix("q=").and_then(|weight| weight.parse::<f32>().ok());
                coding.trim().eq_ignore_ascii_case(name) && weight.is_some_and(|weight| weight > 0.0)
            })
        };
        if takes("br") {
            Coding::Brotli
        } else if takes("gzip") {
            Coding::Gzip
        } else {
            Coding::Identity
        }
    }
}

impl ConsoleFile {
    pub fn bytes(&self, coding: Coding) -> Cow<'static, [u8]> {
        match coding {
            Coding::Identity => Cow::Owned(self.plain()),
            Coding::Gzip => Cow::Borrowed(self.gzip),
            Coding::Brotli => Cow::Borrowed(self.brotli),
        }
    }

    fn plain(&self) -> Vec<u8> {
        let mut plain = Vec::new();
        let read = flate2::read::GzDecoder::new(self.gzip).read_to_end(&mut plain);
        debug_assert!(read.is_ok(), "{}: {read:?}", self.path);
        plain
    }

    pub fn media_type(&self) -> &'static str {
        match self.path.rsplit_once('.').map(|(_, ending)| ending) {
            Some("html") => "text/html; charset=utf-8",
            Some("js") => "text/javascript; charset=utf-8",
            Some("css") => "text/css; charset=utf-8",
            Some("svg") => "image/svg+xml",
            Some("json") => "application/json",
            _ => "application/octet-stream",
        }
    }

    /// Whether the name contains a hash of the content, so that a client never needs to ask again.
    pub fn is_hashed(&self) -> bool {
        self.path.starts_with("assets/")
    }
}

/// The file at a path below `/console/`.
pub fn file(path: &str) -> Option<&'static ConsoleFile> {
    FILES.iter().find(|file| file.path == path)
}

/// The page that every view begins with.
pub fn index() -> Option<&'static ConsoleFile> {
    file("index.html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_accepted_coding_is_chosen() {
        for (header, coding) in [
            ("gzip, deflate, br, zstd", Coding::Brotli),
            ("gzip;q=1.0, br;q=0", Coding::Gzip),
            ("GZIP", Coding::Gzip),
            ("br;q=0.5", Coding::Brotli),
            ("br;q=x, identity", Coding::Identity),
            ("", Coding::Identity),
            ("brotli, xgzip", Coding::Identity),
        ] {
            assert_eq!(Coding::accepted(header), coding, "{header}");
        }
    }

    #[test]
    fn the_page_names_only_files_that_are_there_and_no_other_host() {
        let page = index().expect("index.html");
        assert_eq!(page.media_type(), "text/html; charset=utf-8");
        assert!(!page.is_hashed());
        let text = String::from_utf8(page.bytes(Coding::Identity).into_owned()).expect("text");
        let named: Vec<&str> = text.split('"').filter_map(|word| word.strip_prefix("/console/")).collect();
        for path in &named {
            let file = file(path).unwrap_or_else(|| panic!("{path} is missing"));
            assert!(file.is_hashed() && file.media_type() != "application/octet-stream", "{path}");
        }
        assert_eq!(!named.is_empty(), IS_BUILT);
        assert!(!text.contains("://") && !text.contains("<style") && !text.contains("<script>"), "{text}");
        assert!(file("assets/missing.js").is_none());
    }

    /// The first view loads every file at most once.
    #[test]
    fn the_first_load_is_at_most_300_kb() {
        let size = |coding| FILES.iter().map(|file| file.bytes(coding).len()).sum::<usize>();
        assert!(size(Coding::Brotli) <= size(Coding::Gzip) && size(Coding::Gzip) <= 300_000, "{}", size(Coding::Gzip));
    }
}
