//! The artifacts that were passed on, and how much of each.
//!
//! After a gap (a broken connection, a restart, a server that does not stream) the remote agent shows its task as a
//! snapshot. A comparison finds the rest that is new: the content passed on of an artifact is stored as a length
//! and a hash, so memory does not grow with the number of chunks. The comparison joins adjacent plain texts,
//! because servers differ in whether a snapshot joins the chunks of a stream.

use std::collections::HashMap;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};

use model::ports::agent::ArtifactChunk;
use model::{Artifact, Content, Part, Task};

#[derive(Debug, Default)]
pub(super) struct PassedArtifacts(HashMap<String, Passed>);

/// The content of one artifact that was passed on.
#[derive(Clone, Debug, Default)]
struct Passed {
    /// Bytes of text, and one for each beginning of a text and each other part.
    len: usize,
    hasher: DefaultHasher,
    /// The media type of the text that further text would continue.
    open_text: Option<Option<String>>,
    /// Number of parts in our copy, where appended text joins the text before it.
    parts: usize,
    /// The remote agent sent it in chunks.
    chunked: bool,
}

/// The part of a snapshot that has not been passed on.
struct Rest {
    parts: Vec<Part>,
    /// Its first part continues the text that was passed on.
    continues: bool,
    /// The snapshot splits the content into more parts than our copy: the remote agent shows its chunks.
    shows_chunks: bool,
}

impl Passed {
    fn add(&mut self, part: &Part) {
        match plain_text(part) {
            Some(text) => {
                self.begin_text(part);
                self.add_text(text);
            }
            None => {
                self.open_text = None;
                self.len += 1;
                hash_part(&mut self.hasher, part);
            }
        }
    }

    /// Starts a text, unless the part continues the previous one.
    fn begin_text(&mut self, part: &Part) {
        if self.open_text.as_ref() != Some(&part.media_type) {
            self.len += 1;
            (0_u8, &part.media_type).hash(&mut self.hasher);
            self.open_text = Some(part.media_type.clone());
        }
    }

    fn add_text(&mut self, text: &str) {
        self.len += text.len();
        // Bytes, not a str: two texts in a row must hash like their concatenation.
        self.hasher.write(text.as_bytes());
    }

    fn with(mut self, parts: &[Part]) -> Passed {
        parts.iter().for_each(|part| self.add(part));
        self.parts += parts.len();
        self
    }

    /// The rest of `parts`, if they begin with this content.
    fn rest_of(&self, parts: &[Part]) -> Option<Rest> {
        let mut seen = Passed::default();
        let mut left = parts.iter();
        while seen.len < self.len {
            let part = left.next()?;
            seen.parts += 1;
            let Some(text) = plain_text(part) else {
                seen.add(part);
                continue;
            };
            seen.begin_text(part);
            let missing = self.len.checked_sub(seen.len)?;
            if text.len() > missing {
                let (same, more) = text.split_at_checked(missing)?;
                seen.add_text(same);
                let more = Part { content: Content::Text(more.to_owned()), ..part.clone() };
                let parts = std::iter::once(more).chain(left.cloned()).collect();
                return seen.is_same_as(self).then_some(Rest {
                    parts,
                    continues: true,
                    shows_chunks: seen.parts > self.parts,
                });
            }
            seen.add_text(text);
        }
        let parts = left.skip_while(|part| plain_text(part) == Some("")).cloned().collect();
        seen.is_same_as(self).then_some(Rest { parts, continues: false, shows_chunks: seen.parts > self.parts })
    }

    fn is_same_as(&self, other: &Passed) -> bool {
        self.len == other.len && self.hasher.finish() == other.hasher.finish()
    }
}

impl PassedArtifacts {
    /// The artifacts that the log of our task has.
    pub(super) fn of(task: &Task) -> PassedArtifacts {
        let all = task.artifacts.iter();
        PassedArtifacts(
            all.map(|artifact| (artifact.id.to_string(), Passed::default().with(&artifact.parts))).collect(),
        )
    }

    /// A chunk to pass on; none if it has no content.
    pub(super) fn chunk(&mut self, artifact: Artifact, append: bool, last: bool) -> Option<ArtifactChunk> {
        let known = self.0.get(&*artifact.id);
        if known.is_none() && artifact.parts.is_empty() {
            return None;
        }
        let append = append && known.is_some();
        let before = if append { known.cloned().unwrap_or_default() } else { Passed::default() };
        let passed = Passed { chunked: append, ..before.with(&artifact.parts) };
        self.0.insert(artifact.id.to_string(), passed);
        Some(piece(artifact, append, false, last))
    }

    /// The part of a whole artifact that has not been passed on.
    pub(super) fn whole(&mut self, mut artifact: Artifact, last: bool) -> Option<ArtifactChunk> {
        let known = self.0.get(&*artifact.id).filter(|known| known.len > 0);
        let Some((known, rest)) = known.and_then(|known| Some((known, known.rest_of(&artifact.parts)?))) else {
            return self.chunk(artifact, false, last);
        };
        if rest.parts.is_empty() {
            return None;
        }
        let chunked = known.chunked || rest.shows_chunks;
        let passed = known.clone().with(&rest.parts);
        // A server that sent chunks shows each chunk as a part: new parts are further chunks.
        artifact.parts = if chunked { joined(rest.parts) } else { rest.parts };
        let parts = passed.parts - usize::from(rest.continues);
        self.0.insert(artifact.id.to_string(), Passed { parts, chunked, ..passed });
        Some(piece(artifact, true, !rest.continues && !chunked, last))
    }
}

fn piece(artifact: Artifact, append: bool, bordered: bool, last: bool) -> ArtifactChunk {
    let Artifact { id, name, description, parts, metadata, extensions } = artifact;
    let key = id.to_string();
    ArtifactChunk { key, name, description, parts, metadata, extensions, append, bordered, last, seamless: false }
}

/// Joins adjacent plain texts into one part.
fn joined(parts: Vec<Part>) -> Vec<Part> {
    let mut all: Vec<Part> = Vec::with_capacity(parts.len());
    for part in parts {
        if !all.last_mut().is_some_and(|last| last.continue_with(&part)) {
            all.push(part);
        }
    }
    all
}

/// The text of a part that a following text may continue.
fn plain_text(part: &Part) -> Option<&str> {
    part.as_text().filter(|_| part.is_plain_text())
}

fn hash_part(hasher: &mut DefaultHasher, part: &Part) {
    let Part { content, filename, media_type, metadata } = part;
    match content {
        Content::Text(text) => (1_u8, text).hash(hasher),
        Content::Raw(bytes) => (2_u8, bytes).hash(hasher),
        Content::Url(url) => (3_u8, url).hash(hasher),
        Content::Data(json) => (4_u8, json.text()).hash(hasher),
        Content::Blob(blob) => (5_u8, blob.hash).hash(hasher),
    }
    (filename, media_type, metadata.as_ref().map(model::Json::text)).hash(hasher);
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
        let mut known = PassedArtifacts::default();
        let whole = |list: &[&str]| artifact("a", &texts(list));
        assert!(!known.chunk(whole(&["1"]), false, false).unwrap().append);
        assert!(known.chunk(whole(&["2"]), true, false).unwrap().append);
        assert_eq!(known.whole(whole(&["1", "2"]), true), None);
        let tail = known.whole(whole(&["1", "2", "3"]), true).unwrap();
        assert_eq!((tail.append, tail.last, tail.parts.len()), (true, true, 1));
        // The remote agent sent chunks, so this is one more.
        assert!(!tail.bordered);
        // Other content replaces the artifact.
        let other = known.whole(whole(&["1", "x", "3"]), false).unwrap();
        assert_eq!((other.append, other.parts.len()), (false, 3));
        let shorter = known.whole(whole(&["1"]), false).unwrap();
        assert_eq!((shorter.append, shorter.parts.len()), (false, 1));
    }

    #[test]
    fn parts_of_snapshots_keep_their_borders_and_a_text_that_grew_goes_on() {
        let mut known = PassedArtifacts::default();
        let whole = |list: &[&str]| artifact("a", &texts(list));
        assert!(!known.whole(whole(&["1"]), false).unwrap().append);
        let next = known.whole(whole(&["1", "2"]), false).unwrap();
        assert_eq!((next.append, next.bordered, next.parts), (true, true, vec![Part::text("2")]));
        let grown = known.whole(whole(&["1", "234"]), false).unwrap();
        assert_eq!((grown.append, grown.bordered, grown.parts), (true, false, vec![Part::text("34")]));
        assert_eq!(known.whole(whole(&["1", "234"]), true), None);
    }

    #[test]
    fn a_server_that_joins_its_chunks_and_one_that_does_not_are_the_same() {
        for shown in [&["1", "2", "3"][..], &["123"], &["12", "3"]] {
            let mut known = PassedArtifacts::default();
            known.chunk(artifact("a", &texts(&["1"])), false, false);
            known.chunk(artifact("a", &texts(&["2"])), true, false);
            let rest = known.whole(artifact("a", &texts(shown)), true).unwrap();
            assert_eq!((rest.append, rest.bordered, rest.parts), (true, false, vec![Part::text("3")]), "{shown:?}");
        }
    }

    #[test]
    fn after_a_restart_a_server_that_shows_its_chunks_is_known_by_their_number() {
        let task = |text: &str| {
            let mut stage = PassedArtifacts::default();
            stage.0.insert("a".to_owned(), Passed::default().with(&[Part::text(text)]));
            stage
        };
        let rest = task("12").whole(artifact("a", &texts(&["1", "2", "3", "4"])), true).unwrap();
        assert_eq!((rest.append, rest.bordered, rest.parts), (true, false, vec![Part::text("34")]));
        let rest = task("12").whole(artifact("a", &texts(&["12", "3"])), true).unwrap();
        assert_eq!((rest.append, rest.bordered, rest.parts), (true, true, vec![Part::text("3")]));
    }

    #[test]
    fn a_text_cut_within_a_letter_is_another_text() {
        let mut known = PassedArtifacts::default();
        known.chunk(artifact("a", &texts(&["é"])), false, false);
        let other = known.whole(artifact("a", &texts(&["x€"])), false).unwrap();
        assert!(!other.append);
    }

    #[test]
    fn an_artifact_begins_with_something_and_a_chunk_of_an_unknown_one_begins_it() {
        let mut known = PassedArtifacts::default();
        assert_eq!(known.chunk(artifact("a", &[]), true, true), None);
        assert_eq!(known.whole(artifact("a", &[]), true), None);
        assert!(!known.chunk(artifact("a", &texts(&["1"])), true, false).unwrap().append);
        let end = known.chunk(artifact("a", &[]), true, true).unwrap();
        assert_eq!((end.append, end.last, end.parts.len()), (true, true, 0));
    }

    proptest! {
        /// Chunks with gaps, or snapshots: the content passed on always adds up to the whole.
        #[test]
        fn what_is_passed_on_adds_up(
            chunks in prop::collection::vec("[a-c]{0,2}", 1..12),
            heard in prop::collection::vec(any::<bool>(), 12),
            looks in prop::collection::vec(any::<bool>(), 12),
        ) {
            let mut known = PassedArtifacts::default();
            let mut ours: Vec<String> = Vec::new();
            let mut take = |piece: Option<ArtifactChunk>| {
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
            prop_assert_eq!(ours.concat(), chunks.concat());
        }
    }
}
