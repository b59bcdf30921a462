//! The list of known violations: lines of rule, subject and number, sorted.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context as _;

const HEAD: &str = "# Violations that `cargo xtask tidy` knows: rule, subject, number. The list only shrinks.\n";

#[derive(Debug, Default)]
pub(super) struct Allowed {
    counts: BTreeMap<(String, String), usize>,
}

impl Allowed {
    pub(super) fn read(path: &Path) -> anyhow::Result<Allowed> {
        let text = std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        Allowed::parse(&text)
    }

    fn parse(text: &str) -> anyhow::Result<Allowed> {
        let mut counts = BTreeMap::new();
        for line in text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let words: Vec<&str> = line.split(' ').collect();
            let [rule, subject, count] = words.as_slice() else {
                anyhow::bail!("tidy.allow: not `rule subject number`: {line}");
            };
            let count = count.parse().with_context(|| format!("tidy.allow: {line}"))?;
            counts.insert(((*rule).to_owned(), (*subject).to_owned()), count);
        }
        Ok(Allowed { counts })
    }

    pub(super) fn count(&self, rule: &str, subject: &str) -> usize {
        self.counts.get(&(rule.to_owned(), subject.to_owned())).copied().unwrap_or(0)
    }

    pub(super) fn of(&self, rule: &str) -> impl Iterator<Item = (&str, usize)> {
        let of_rule = self.counts.iter().filter(move |((of, _), _)| of == rule);
        of_rule.map(|((_, subject), count)| (subject.as_str(), *count))
    }

    pub(super) fn total(&self) -> usize {
        self.counts.values().sum()
    }

    /// Lowers each number of a rule to what is found now, and never raises one.
    pub(super) fn shrink(&mut self, rule: &str, found: impl Fn(&str) -> usize) {
        for ((of, subject), count) in &mut self.counts {
            if of == rule {
                *count = found(subject).min(*count);
            }
        }
        self.counts.retain(|_, count| *count > 0);
    }

    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let lines = self.counts.iter().map(|((rule, subject), count)| format!("{rule} {subject} {count}\n"));
        let text = std::iter::once(HEAD.to_owned()).chain(lines).collect::<String>();
        std::fs::write(path, text).with_context(|| format!("cannot write {}", path.display()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_shrinks_and_never_grows() {
        let mut allowed = Allowed::parse("# x\n\nlength a.rs 1\nprose b.rs 5\nprose c.rs 2\n").unwrap();
        allowed.shrink("prose", |subject| if subject == "b.rs" { 9 } else { 0 });
        assert_eq!((allowed.count("prose", "b.rs"), allowed.count("prose", "c.rs")), (5, 0));
        assert_eq!((allowed.count("length", "a.rs"), allowed.total()), (1, 6));
        assert_eq!(allowed.of("prose").collect::<Vec<_>>(), [("b.rs", 5)]);
        assert!(Allowed::parse("length a.rs\n").is_err());
    }
}
