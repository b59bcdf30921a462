//! Parses traces: the calls of all threads, in the order in which they began and ended.
//!
//! The order is the tracer's: the lines on which a call first and last appears. A tracer stops a thread at both
//! ends of a call, so the effects of a call in another thread appear after it.

use std::collections::HashMap;

/// A system call, with the positions of its entry and exit.
#[derive(Debug, Clone)]
pub(crate) struct Call {
    pub name: String,
    pub fd: String,
    /// The target of the descriptor, if the tracer prints it: a path or a socket.
    pub target: String,
    /// The first bytes read or written.
    pub data: String,
    pub began: usize,
    pub ended: usize,
    pub succeeded: bool,
}

impl Call {
    pub(crate) fn is_read(&self) -> bool {
        matches!(self.name.as_str(), "read" | "readv" | "recvfrom" | "recvmsg")
    }

    pub(crate) fn is_write(&self) -> bool {
        matches!(self.name.as_str(), "write" | "writev" | "sendto" | "sendmsg")
    }

    pub(crate) fn is_sync(&self) -> bool {
        matches!(self.name.as_str(), "fdatasync" | "fsync")
    }
}

/// Lines of `strace -f -ttt -y -o`:
///
/// ```text
/// 17 1700000000.000001 recvfrom(9<socket:[4]>, "POST /"..., 8192, 0, NULL, NULL) = 310
/// 18 1700000000.000002 fdatasync(5</data/wal> <unfinished ...>
/// 17 1700000000.000003 writev(9<socket:[4]>, [{iov_base="HTTP/1.1 200"..., iov_len=99}], 1) = 99
/// 18 1700000000.000004 <... fdatasync resumed>) = 0
/// ```
pub(crate) fn of_strace(text: &str) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut unfinished: HashMap<&str, (usize, String)> = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let mut words = line.splitn(3, ' ').filter(|word| !word.is_empty());
        let Some(thread) = words.next() else { continue };
        // A pid may be padded: the text up to the second space is padding and the time.
        let rest = line[thread.len()..].trim_start();
        let Some((_time, call)) = rest.split_once(' ') else {
            continue;
        };
        if let Some(start) = call.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, (number, start.trim_end().to_owned()));
        } else if let Some(resumed) = call.strip_prefix("<... ") {
            let (Some((began, start)), Some((_, end))) = (unfinished.remove(thread), resumed.split_once(" resumed>"))
            else {
                continue;
            };
            calls.extend(parse(&format!("{start}{end}"), began, number));
        } else {
            calls.extend(parse(call, number, number));
        }
    }
    calls
}

/// One whole call, as strace writes it on a line.
fn parse(call: &str, began: usize, ended: usize) -> Option<Call> {
    let (name, rest) = call.split_once('(')?;
    if !name.chars().all(|letter| letter.is_ascii_alphanumeric() || letter == '_') {
        return None;
    }
    let fd: String = rest.chars().take_while(char::is_ascii_digit).collect();
    let target = rest[fd.len()..]
        .strip_prefix('<')
        .and_then(|rest| rest.split_once('>'))
        .map(|(target, _)| target.to_owned())
        .unwrap_or_default();
    let (_, result) = call.rsplit_once(" = ")?;
    let data = rest.split_once('"').map(|(_, quoted)| unquote(quoted)).unwrap_or_default();
    Some(Call {
        name: name.to_owned(),
        fd,
        target,
        data,
        began,
        ended,
        succeeded: !result.starts_with('-') && !result.starts_with('?'),
    })
}

/// A C string up to its closing quote; relevant escapes are undone.
fn unquote(quoted: &str) -> String {
    let mut text = String::new();
    let mut letters = quoted.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '"' => break,
            '\\' => match letters.next() {
                Some('r') => text.push('\r'),
                Some('n') => text.push('\n'),
                Some('t') => text.push('\t'),
                Some(other) => text.push(other),
                None => break,
            },
            other => text.push(other),
        }
    }
    text
}

/// Lines of the shim: `began ended name fd result hex`.
pub(crate) fn of_shim(text: &str) -> Vec<Call> {
    text.lines()
        .filter_map(|line| {
            let mut words = line.split(' ');
            let began = words.next()?.parse().ok()?;
            let ended = words.next()?.parse().ok()?;
            let name = words.next()?.to_owned();
            let fd = words.next()?.to_owned();
            let result: i64 = words.next()?.parse().ok()?;
            let hex = words.next().unwrap_or("");
            let data = hex
                .as_bytes()
                .chunks_exact(2)
                .filter_map(|pair| {
                    let pair = std::str::from_utf8(pair).ok()?;
                    u8::from_str_radix(pair, 16).ok().map(char::from)
                })
                .collect();
            Some(Call { name, fd, target: String::new(), data, began, ended, succeeded: result >= 0 })
        })
        .collect()
}

#[test]
fn a_call_in_two_halves_keeps_both_its_moments() {
    let calls = of_strace(concat!(
        "17    1.1 recvfrom(9<socket:[4]>, \"POST /a2a/echo HTTP/1.1\\r\\nx-turn: 7\\r\\n\"..., 8192, 0, NULL, NULL) = 310\n",
        "18    1.2 fdatasync(5</data/x-wal> <unfinished ...>\n",
        "17    1.3 read(9<socket:[4]>, 0x7f, 10) = -1 EAGAIN (Resource temporarily unavailable)\n",
        "19    1.3 +++ exited with 0 +++\n",
        "18    1.4 <... fdatasync resumed>) = 0\n",
        "17    1.5 writev(9<socket:[4]>, [{iov_base=\"HTTP/1.1 200 OK\\r\\n\"..., iov_len=9}, {iov_base=\"x\", iov_len=1}], 2) = 10\n",
    ));
    let shown: Vec<_> = calls
        .iter()
        .map(|call| (call.name.as_str(), call.fd.as_str(), call.began, call.ended, call.succeeded))
        .collect();
    assert_eq!(
        shown,
        [
            ("recvfrom", "9", 0, 0, true),
            ("read", "9", 2, 2, false),
            ("fdatasync", "5", 1, 4, true),
            ("writev", "9", 5, 5, true),
        ]
    );
    assert!(calls[0].data.contains("x-turn: 7\r\n"));
    assert!(calls[3].data.starts_with("HTTP/1.1 200"));
}
