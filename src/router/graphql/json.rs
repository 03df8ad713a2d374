//! A strict JSON parser: others differ about duplicate keys, lone surrogates and broken UTF-8, so all of these are
//! errors.

use std::cell::Cell;
use std::fmt;

use serde::de::{Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::{DEPTH, Value, ValueKind};

/// The maximum number of values in a body.
const MOST: usize = 20_000;

/// A value. For numbers, only that it is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Json {
    Null,
    Boolean,
    Number,
    Text(String),
    List(Vec<Json>),
    Object(Vec<(String, Json)>),
}

impl Json {
    pub(super) fn member(&self, name: &str) -> Option<&Self> {
        let Self::Object(members) = self else { return None };
        members.iter().find(|(one, _)| one == name).map(|(_, value)| value)
    }

    pub(super) fn value(&self) -> Value {
        let kind = match self {
            Self::Null => ValueKind::Null,
            Self::Boolean => ValueKind::Boolean,
            Self::Number => ValueKind::Number,
            Self::Text(_) => ValueKind::Text,
            Self::List(_) | Self::Object(_) => ValueKind::Other,
        };
        let text = if let Self::Text(text) = self { text.clone() } else { String::new() };
        Value { kind, text }
    }
}

/// Parses a complete body.
pub(super) fn read(bytes: &[u8]) -> Result<Json, String> {
    let text = std::str::from_utf8(bytes).map_err(|_| "no UTF-8".to_owned())?;
    let count = Cell::new(0);
    let mut reader = serde_json::Deserializer::from_str(text);
    let value = Seed { depth: 0, count: &count }.deserialize(&mut reader).map_err(|error| said(&error))?;
    reader.end().map_err(|_| "text after the JSON value".to_owned())?;
    Ok(value)
}

/// Our own messages, or serde's without the position.
fn said(error: &serde_json::Error) -> String {
    let text = error.to_string();
    let text = text.split(" at line ").next().unwrap_or_default();
    if error.is_data() { text.to_owned() } else { format!("invalid JSON: {text}") }
}

/// The text of a member of a parsed object.
pub(super) fn member_text(bytes: &[u8], name: &str) -> Result<Option<String>, String> {
    let members: Members<'_> = serde_json::from_slice(bytes).map_err(|error| said(&error))?;
    Ok(members.0.into_iter().find(|(one, _)| one == name).map(|(_, raw)| raw.get().to_owned()))
}

/// A string as it is written.
pub(super) fn text(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}

struct Members<'a>(Vec<(String, &'a RawValue)>);

impl<'de> Deserialize<'de> for Members<'de> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Each;
        impl<'de> Visitor<'de> for Each {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }
        deserializer.deserialize_map(Each)
    }
}

/// Counts levels and values.
#[derive(Clone, Copy)]
struct Seed<'a> {
    depth: usize,
    count: &'a Cell<usize>,
}

impl Seed<'_> {
    fn inside<E: Error>(self) -> Result<Self, E> {
        if self.depth == DEPTH {
            return Err(E::custom("nested too deeply"));
        }
        Ok(Self { depth: self.depth + 1, ..self })
    }
}

impl<'de> DeserializeSeed<'de> for Seed<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        self.count.set(self.count.get() + 1);
        if self.count.get() > MOST {
            return Err(D::Error::custom("too many values"));
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Seed<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Json, E> {
        Ok(Json::Boolean)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Json, E> {
        Ok(Json::Number)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Json, A::Error> {
        let (inside, mut all) = (self.inside()?, Vec::new());
        while let Some(one) = list.next_element_seed(inside)? {
            all.push(one);
        }
        Ok(Json::List(all))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let (inside, mut all) = (self.inside()?, Vec::new());
        let mut seen = std::collections::BTreeSet::new();
        while let Some(key) = map.next_key::<String>()? {
            if !seen.insert(key.clone()) {
                return Err(A::Error::custom("a duplicate key"));
            }
            all.push((key, map.next_value_seed(inside)?));
        }
        Ok(Json::Object(all))
    }
}
