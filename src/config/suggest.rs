//! "Did you mean": the nearest known word, if it is similar.

/// The candidate with the fewest edits, if they are few for its length.
pub fn nearest<'a>(word: &str, candidates: impl IntoIterator<Item = &'a str> + Clone) -> Option<&'a str> {
    // A word from a file may be long, but no key is.
    if word.len() > 64 {
        return None;
    }
    let lower = word.to_ascii_lowercase().replace('-', "_");
    let scored = candidates
        .clone()
        .into_iter()
        .map(|c| (strsim::levenshtein(&lower, &c.to_ascii_lowercase().replace('-', "_")), c));
    let near = |&(edits, c): &(usize, &str)| edits <= 1 + c.chars().count() / 4 && edits < c.chars().count();
    let typo = scored.filter(near).min().map(|(_, candidate)| candidate);
    // `allow_hosts` for `allow`: a longer form of the right key.
    let fuller = |c: &&str| c.len() >= 4 && lower.starts_with(&format!("{c}_"));
    typo.or_else(|| candidates.into_iter().filter(fuller).max_by_key(|c| c.len()))
}

#[cfg(test)]
mod tests {
    use super::nearest;

    #[test]
    fn near_words_are_found_and_far_ones_are_not() {
        let keys = ["allow", "deny", "resource_limits", "allow_file"];
        assert_eq!(nearest("allow_hosst", ["allow_hosts", "x"]), Some("allow_hosts"));
        assert_eq!(nearest("alow", keys), Some("allow"));
        assert_eq!(nearest("allow_hosst", keys), Some("allow"));
        assert_eq!(nearest("resourceLimits", keys), Some("resource_limits"));
        assert_eq!(nearest("resource-limits", keys), Some("resource_limits"));
        assert_eq!(nearest("banana", keys), None);
        assert_eq!(nearest("", keys), None);
        assert_eq!(nearest(&"a".repeat(100_000), keys), None);
    }
}
