//! Which artifacts have been passed on, and how much of each.
//!
//! After a gap (a broken connection, a restart, a server that does not stream) the other side shows its task whole. What is
//! new in it is found by comparing: the parts that were passed on are remembered as a count and a hash, so that an artifact
//! of many chunks costs nothing to remember.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use model::ports::agent::Piece;
use model::{Artifact, Content, Part, Task};

#[derive(Debug, Default)]
pub(super) struct Known(HashMap<String, Passed>);

/// The parts of one artifact that were passed on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    count: usize,
    hash: u64,
}

impl Passed {
    fn with(self, parts: &[Part]) -> Passed {
        parts.iter().fold(self, |so_far, part| Passed { count: so_far.count + 1, hash: next_hash(so_far.hash, part) })
    }
}

impl Known {
    /// What the log of our task has already.
    pub(super) fn of(task: &Task) -> Known {
        let all = task.artifacts.iter();
        Known(all.map(|artifact| (artifact.id.to_string(), Passed::default().with(&artifact.parts))).collect())
    }

    /// A chunk as it is passed on; nothing for one that says nothing.
    pub(super) fn chunk(&mut self, artifact: Artifact, append: bool, last: bool) -> Option<Piece> {
        let known = self.0.get(&*artifact.id).copied();
        if known.is_none() && artifact.parts.is_empty() {
            return None;
        }
        let append = append && known.is_some();
        let before = if append { known.unwrap_or_default() } else { Passed::default() };
        self.0.insert(artifact.id.to_string(), before.with(&artifact.parts));
        Some(piece(artifact, append, last))
    }

    /// A whole artifact: what of it has not been passed on.
    pub(super) fn whole(&mut self, mut artifact: Artifact, last: bool) -> Option<Piece> {
        let known = self.0.get(&*artifact.id).copied().unwrap_or_default();
        let goes_on = known.count > 0
            && artifact.parts.get(..known.count).is_some_and(|same| Passed::default().with(same) == known);
        if goes_on {
            artifact.parts.drain(..known.count);
            if artifact.parts.is_empty() {
                return None;
            }
        }
        self.chunk(artifact, goes_on, last)
    }
}

fn piece(artifact: Artifact, append: bool, last: bool) -> Piece {
    let Artifact { id, name, description, parts, metadata, extensions } = artifact;
    Piece { key: id.to_string(), name, description, parts, metadata, extensions, append, last, seamless: false }
}

fn next_hash(before: u64, part: &Part) -> u64 {
    let Part { content, filename, media_type, metadata } = part;
    let mut hasher = DefaultHasher::new();
    before.hash(&mut hasher);
    match content {
        Content::Text(text) => (0_u8, text).hash(&mut hasher),
        Content::Raw(bytes) => (1_u8, bytes).hash(&mut hasher),
        Content::Url(url) => (2_u8, url).hash(&mut hasher),
        Content::Data(json) => (3_u8, json.text()).hash(&mut hasher),
        Content::Blob(blob) => (4_u8, blob.hash).hash(&mut hasher),
    }
    (filename, media_type, metadata.as_ref().map(model::Json::text)).hash(&mut hasher);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn artifact(id: &str, texts: &[String]) -> Artifact {
        let parts = texts.iter().map(Part::text).collect();
        Artifact { id: id.into(), name: None, description: None, parts, metadata: None, extensions: vec![] }
    }

    fn texts(list: &[&str]) -> Vec<String> {
        list.iter().map(|text| (*text).to_owned()).collect()
    }

    #[test]
    fn only_what_is_new_in_a_whole_artifact_is_passed_on() {
        let mut known = Known::default();
        let whole = |list: &[&str]| artifact("a", &texts(list));
        assert!(!known.chunk(whole(&["1"]), false, false).unwrap().append);
        assert!(known.chunk(whole(&["2"]), true, false).unwrap().append);
        assert_eq!(known.whole(whole(&["1", "2"]), true), None);
        let tail = known.whole(whole(&["1", "2", "3"]), true).unwrap();
        assert_eq!((tail.append, tail.last, tail.parts.len()), (true, true, 1));
        // Something else in its place is something else.
        let other = known.whole(whole(&["1", "x", "3"]), false).unwrap();
        assert_eq!((other.append, other.parts.len()), (false, 3));
        let shorter = known.whole(whole(&["1"]), false).unwrap();
        assert_eq!((shorter.append, shorter.parts.len()), (false, 1));
    }

    #[test]
    fn an_artifact_begins_with_something_and_a_chunk_of_an_unknown_one_begins_it() {
        let mut known = Known::default();
        assert_eq!(known.chunk(artifact("a", &[]), true, true), None);
        assert_eq!(known.whole(artifact("a", &[]), true), None);
        assert!(!known.chunk(artifact("a", &texts(&["1"])), true, false).unwrap().append);
        let end = known.chunk(artifact("a", &[]), true, true).unwrap();
        assert_eq!((end.append, end.last, end.parts.len()), (true, true, 0));
    }

    proptest! {
        /// However a task is seen, in chunks with gaps or whole, what was passed on adds up to what there is.
        #[test]
        fn what_is_passed_on_adds_up(
            chunks in prop::collection::vec("[a-c]{0,2}", 1..12),
            heard in prop::collection::vec(any::<bool>(), 12),
            looks in prop::collection::vec(any::<bool>(), 12),
        ) {
            let mut known = Known::default();
            let mut ours: Vec<String> = Vec::new();
            let mut take = |piece: Option<Piece>| {
                let Some(piece) = piece else { return };
                if !piece.append {
                    ours.clear();
                }
                ours.extend(piece.parts.iter().filter_map(|part| part.as_text().map(str::to_owned)));
            };
            for at in 0..chunks.len() {
                if heard[at] {
                    take(known.chunk(artifact("a", &chunks[at..=at]), at > 0, false));
                }
                if looks[at] {
                    take(known.whole(artifact("a", &chunks[..=at]), false));
                }
            }
            take(known.whole(artifact("a", &chunks), true));
            prop_assert_eq!(ours, chunks);
        }
    }
}
