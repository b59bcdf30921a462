//! Splits a command line into words as a shell does: quotes and backslashes only. Variables, globs and pipes are
//! not interpreted; use `sh -c '…'` for those.

pub(crate) fn split(line: &str) -> Result<Vec<String>, String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut chars = line.chars();
    while let Some(c) = chars.next() {
        match c {
            ' ' | '\t' | '\n' | '\r' => words.extend(word.take()),
            '\'' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('\'') => break,
                        Some(c) => word.push(c),
                        None => return Err("a single quote is not closed".into()),
                    }
                }
            }
            '"' => {
                let word = word.get_or_insert_default();
                loop {
                    match chars.next() {
                        Some('"') => break,
                        // In double quotes a backslash escapes only characters that are special there.
                        Some('\\') => match chars.next() {
                            Some(c @ ('"' | '\\' | '$' | '`')) => word.push(c),
                            Some(c) => word.extend(['\\', c]),
                            None => return Err("a double quote is not closed".into()),
                        },
                        Some(c) => word.push(c),
                        None => return Err("a double quote is not closed".into()),
                    }
                }
            }
            '\\' => match chars.next() {
                Some(c) => word.get_or_insert_default().push(c),
                None => return Err("the line ends in a backslash".into()),
            },
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    Ok(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_split_as_a_shell_splits_them() {
        for (line, words) in [
            ("", &[][..]),
            ("  a  b\tc ", &["a", "b", "c"]),
            (r#"sh -c 'echo "$A" | cat'"#, &["sh", "-c", r#"echo "$A" | cat"#]),
            (r#"a "b c" d\ e "" x"y"'z'"#, &["a", "b c", "d e", "", "xyz"]),
            (r#""\"\\\$\n""#, &[r#""\$\n"#]),
        ] {
            assert_eq!(split(line).unwrap(), words, "{line}");
        }
        for bad in ["'", "a \"b", "a\\", "\"\\"] {
            assert!(split(bad).is_err(), "{bad}");
        }
    }
}
