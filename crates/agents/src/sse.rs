//! Parses server-sent events: names and `data` lines. Ids and comments are ignored.

use crate::lines::{LineTooLong, Lines};

pub(crate) struct Sse {
    lines: Lines,
    longest: usize,
    /// The data lines of the current event.
    data: Option<String>,
    name: String,
    first: bool,
}

/// One event.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct SseEvent {
    /// Empty if the event has no name.
    pub(crate) name: String,
    pub(crate) data: String,
}

impl Sse {
    /// No line and no event may be longer than this.
    pub(crate) fn new(longest: usize) -> Sse {
        Sse { lines: Lines::new(longest), longest, data: None, name: String::new(), first: true }
    }

    pub(crate) fn push(&mut self, bytes: &[u8]) {
        self.lines.push(bytes);
    }

    /// The data of the next whole event.
    pub(crate) fn next(&mut self) -> Result<Option<String>, LineTooLong> {
        Ok(self.frame()?.map(|frame| frame.data))
    }

    /// The next whole event.
    pub(crate) fn frame(&mut self) -> Result<Option<SseEvent>, LineTooLong> {
        while let Some(line) = self.lines.next()? {
            let line = String::from_utf8_lossy(&line);
            let line = if std::mem::take(&mut self.first) { line.trim_start_matches('\u{feff}') } else { &*line };
            if line.is_empty() {
                let name = std::mem::take(&mut self.name);
                if let Some(data) = self.data.take() {
                    return Ok(Some(SseEvent { name, data }));
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            if field == "event" {
                value.clone_into(&mut self.name);
            }
            if field != "data" {
                continue;
            }
            match &mut self.data {
                Some(data) => {
                    data.push('\n');
                    data.push_str(value);
                }
                None => self.data = Some(value.to_owned()),
            }
            if self.data.as_ref().is_some_and(|data| data.len() > self.longest) {
                return Err(LineTooLong(self.longest));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str, size: usize) -> Vec<String> {
        let mut sse = Sse::new(1_000);
        let mut all = vec![];
        for piece in text.as_bytes().chunks(size) {
            sse.push(piece);
            while let Some(data) = sse.next().unwrap() {
                all.push(data);
            }
        }
        all
    }

    #[test]
    fn events_come_whole_however_their_bytes_come() {
        let text = "\u{feff}: hello\r\n\r\nevent: x\r\ndata: {\"a\":\r\ndata:1}\r\nid: 7\r\n\r\n\n\ndata\n\ndata:  €\n\ndata: cut";
        for size in 1..=text.len() {
            assert_eq!(read(text, size), ["{\"a\":\n1}", "", " €"], "{size}");
        }
    }

    #[test]
    fn a_name_is_its_own_event_s_only() {
        let mut sse = Sse::new(100);
        sse.push(b"event: lost\n\ndata: 1\nevent: a\nid: 3\n\ndata: 2\n\n");
        let frame = |name: &str, data: &str| Ok(Some(SseEvent { name: name.into(), data: data.into() }));
        assert_eq!(sse.frame(), frame("a", "1"));
        assert_eq!(sse.frame(), frame("", "2"));
        assert_eq!(sse.frame(), Ok(None));
    }

    #[test]
    fn an_event_of_many_lines_is_bounded_too() {
        let mut sse = Sse::new(10);
        sse.push(b"data: 12345\ndata: 67890\n");
        assert_eq!(sse.next(), Err(LineTooLong(10)));
    }
}
