//! Splits bytes into lines: LF or CRLF, with a longest line.

use bytes::{Buf as _, Bytes, BytesMut};

pub(crate) struct Lines {
    buffer: BytesMut,
    /// The buffer holds no line end before this position.
    seen: usize,
    longest: usize,
}

/// A line that is longer than the limit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct LineTooLong(pub(crate) usize);

impl std::fmt::Display for LineTooLong {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "a line is longer than {} bytes", self.0)
    }
}

impl Lines {
    pub(crate) fn new(longest: usize) -> Lines {
        Lines { buffer: BytesMut::new(), seen: 0, longest }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
    }

    /// The next whole line, without its end.
    pub(crate) fn next(&mut self) -> Result<Option<Bytes>, LineTooLong> {
        match memchr::memchr(b'\n', &self.buffer[self.seen..]) {
            Some(at) => {
                let mut line = self.buffer.split_to(self.seen + at);
                self.buffer.advance(1);
                self.seen = 0;
                if line.last() == Some(&b'\r') {
                    line.truncate(line.len() - 1);
                }
                if line.len() > self.longest { Err(LineTooLong(self.longest)) } else { Ok(Some(line.freeze())) }
            }
            None => {
                self.seen = self.buffer.len();
                if self.seen > self.longest { Err(LineTooLong(self.longest)) } else { Ok(None) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_come_whole_however_their_bytes_come() {
        let text = b"one\r\n\ntwo \xe2\x82\xac\nthree";
        for size in 1..=text.len() {
            let mut lines = Lines::new(100);
            let mut all = vec![];
            for piece in text.chunks(size) {
                lines.push(piece);
                while let Some(line) = lines.next().unwrap() {
                    all.push(String::from_utf8(line.to_vec()).unwrap());
                }
            }
            assert_eq!(all, ["one", "", "two €"], "{size}");
            assert_eq!(&lines.buffer[..], b"three");
        }
    }

    #[test]
    fn a_line_that_is_too_long_is_refused_before_it_ends() {
        let mut lines = Lines::new(4);
        lines.push(b"1234");
        assert_eq!(lines.next(), Ok(None));
        lines.push(b"5");
        assert_eq!(lines.next(), Err(LineTooLong(4)));
    }
}
