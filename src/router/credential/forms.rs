//! The forms in which a value may come back.
