//! Large content on its way into a JSON value.
//!
//! A blob comes out of the store in pieces of any size; [`Transform`] turns each piece into what may stand at its place
//! in the JSON: base64 for raw bytes, escapes for text, data as it is but on one line.

use model::BlobKind;

use super::json::{base64_into, escape_bytes_into, has};

/// Turns the pieces of one blob into JSON text. The same bytes come out however the content is cut.
#[derive(Clone, Debug)]
pub struct Transform {
    kind: BlobKind,
    /// Raw bytes that do not make a group of three yet.
    carry: [u8; 2],
    carried: usize,
}

impl Transform {
    pub fn new(kind: BlobKind) -> Transform {
        Transform { kind, carry: [0; 2], carried: 0 }
    }

    /// Appends what `piece` becomes.
    pub fn push(&mut self, out: &mut Vec<u8>, piece: &[u8]) {
        match self.kind {
            BlobKind::Raw => self.base64(out, piece),
            BlobKind::Text => escape_bytes_into(out, piece),
            BlobKind::Data | BlobKind::Object => flatten_into(out, piece),
        }
    }

    /// Appends what is left after the last piece.
    pub fn finish(self, out: &mut Vec<u8>) {
        base64_into(out, &self.carry[..self.carried]);
    }

    fn base64(&mut self, out: &mut Vec<u8>, mut piece: &[u8]) {
        if self.carried > 0 {
            let missing = 3 - self.carried;
            if piece.len() < missing {
                self.keep(piece);
                return;
            }
            let (head, rest) = piece.split_at(missing);
            let mut group = [0; 3];
            group[..self.carried].copy_from_slice(&self.carry[..self.carried]);
            group[self.carried..].copy_from_slice(head);
            base64_into(out, &group);
            self.carried = 0;
            piece = rest;
        }
        let (whole, rest) = piece.split_at(piece.len() - piece.len() % 3);
        base64_into(out, whole);
        self.keep(rest);
    }

    fn keep(&mut self, rest: &[u8]) {
        self.carry[self.carried..self.carried + rest.len()].copy_from_slice(rest);
        self.carried += rest.len();
    }
}

/// Appends JSON text with its line breaks as spaces: a break can only stand between tokens, and an SSE frame has one line.
pub fn flatten_into(out: &mut Vec<u8>, json: &[u8]) {
    let start = out.len();
    out.extend_from_slice(json);
    if has_break(json) {
        for byte in &mut out[start..] {
            if matches!(byte, b'\n' | b'\r') {
                *byte = b' ';
            }
        }
    }
}

fn has_break(bytes: &[u8]) -> bool {
    let words = bytes.chunks_exact(8);
    let rest = words.remainder();
    let breaks = |word: &[u8]| {
        let mut eight = [0; 8];
        eight.copy_from_slice(word);
        let word = u64::from_le_bytes(eight);
        has(word, b'\n') || has(word, b'\r')
    };
    rest.iter().any(|b| matches!(b, b'\n' | b'\r')) || words.into_iter().any(breaks)
}

#[cfg(test)]
mod tests {
    use super::*;
    use base64::Engine as _;
    use base64::engine::general_purpose::STANDARD;
    use proptest::prelude::*;

    fn transformed(kind: BlobKind, content: &[u8], cuts: &[usize]) -> Vec<u8> {
        let mut out = Vec::new();
        let mut transform = Transform::new(kind);
        let mut rest = content;
        for cut in cuts {
            let (piece, after) = rest.split_at((*cut).min(rest.len()));
            transform.push(&mut out, piece);
            rest = after;
        }
        transform.push(&mut out, rest);
        transform.finish(&mut out);
        out
    }

    proptest! {
        #[test]
        fn raw_content_is_base64_however_it_is_cut(content: Vec<u8>, cuts in prop::collection::vec(0usize..8, 0..20)) {
            prop_assert_eq!(transformed(BlobKind::Raw, &content, &cuts), STANDARD.encode(&content).into_bytes());
        }

        #[test]
        fn text_is_escaped_however_it_is_cut(content: String, cuts in prop::collection::vec(0usize..8, 0..20)) {
            let mut out = vec![b'"'];
            out.extend(transformed(BlobKind::Text, content.as_bytes(), &cuts));
            out.push(b'"');
            prop_assert_eq!(serde_json::from_slice::<String>(&out).unwrap(), content);
        }
    }

    #[test]
    fn data_comes_out_on_one_line() {
        let data = "{\n  \"a\": 1,\r\n  \"b\": [\n1 ]}";
        assert_eq!(transformed(BlobKind::Data, data.as_bytes(), &[3, 1]), b"{   \"a\": 1,    \"b\": [ 1 ]}");
    }
}
