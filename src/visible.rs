//! Makes visible the characters that a terminal acts on or hides.
//!
//! Paths, names and messages come from strangers. Whatever shows them to a person (`cli`, the header of a manifest,
//! diagnostics) uses this module. Depends on nothing.

/// Whether a character can hide or reorder text: controls, line separators, bidirectional overrides.
pub fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{061c}' | '\u{200e}' | '\u{200f}' | '\u{feff}')
        || ('\u{202a}'..='\u{202e}').contains(&c)
        || ('\u{2066}'..='\u{2069}').contains(&c)
}

/// Returns the text with hidden characters written as `\u{…}`. Everything that a stranger named goes through this
/// before it is shown.
pub fn escaped(text: &str) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if is_hidden(c) {
            out.extend(c.escape_unicode());
        } else {
            out.push(c);
        }
        out
    })
}

/// Returns the text with hidden characters replaced by visible ones of the same length, so that offsets stay correct.
/// Tabs, line feeds and one-byte controls stay: the rendering library replaces them itself.
pub(crate) fn masked(text: &str) -> String {
    let mask = |c: char| match c.len_utf8() {
        2 if is_hidden(c) => '\u{bf}',
        3 if is_hidden(c) => '\u{fffd}',
        _ => c,
    };
    text.chars().map(mask).collect()
}
