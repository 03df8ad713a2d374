//! The grammar of executable documents (October 2021, 2.2 to 2.12). Anything else is an error: error-tolerant parsers
//! would accept half a line as a document. No recursion is deeper than [`DEPTH`].

use std::collections::BTreeSet;

use super::tokens::{Token, TokenKind as T};
use super::{Argument, DEPTH, Field, Selection, Value, ValueKind, Variable};
use crate::policy::GraphqlKind;

/// An operation or a fragment.
pub(super) struct Definition {
    /// `None` for a fragment.
    pub kind: Option<GraphqlKind>,
    pub name: Option<String>,
    pub variables: Vec<Variable>,
    pub selections: Vec<Selection>,
    /// The names of the fragments that it spreads.
    pub spreads: Vec<String>,
    /// Its text, written again.
    pub text: String,
}

/// Parses all definitions of a document.
pub(super) fn parse(tokens: &[Token]) -> Result<Vec<Definition>, String> {
    let mut parser = Parser { tokens, at: 0, depth: 0, spreads: Vec::new() };
    let mut all = vec![parser.definition()?];
    while !parser.peek(&T::End) {
        all.push(parser.definition()?);
    }
    Ok(all)
}

struct Parser<'a> {
    tokens: &'a [Token],
    at: usize,
    depth: usize,
    spreads: Vec<String>,
}

const OPEN: T = T::Mark('{');
const CLOSE: T = T::Mark('}');

impl Parser<'_> {
    fn kind(&self) -> &T {
        self.tokens.get(self.at).map_or(&T::End, |token| &token.kind)
    }

    fn peek(&self, kind: &T) -> bool {
        self.kind() == kind
    }

    fn text(&self) -> &str {
        self.tokens.get(self.at).map_or("", |token| token.text.as_str())
    }

    fn take(&mut self, kind: &T) -> bool {
        let found = self.peek(kind);
        self.at += usize::from(found);
        found
    }

    fn fail<V>(&self) -> Result<V, String> {
        match self.kind() {
            T::End => Err("an unfinished GraphQL document".to_owned()),
            _ => Err(format!("GraphQL syntax at '{}'", self.text().chars().take(40).collect::<String>())),
        }
    }

    fn expect(&mut self, kind: &T) -> Result<(), String> {
        if self.take(kind) { Ok(()) } else { self.fail() }
    }

    fn name(&mut self) -> Result<String, String> {
        let name = self.text().to_owned();
        self.expect(&T::Name)?;
        Ok(name)
    }

    /// One level deeper.
    fn deeper<V>(&mut self, inside: impl FnOnce(&mut Self) -> Result<V, String>) -> Result<V, String> {
        if self.depth == DEPTH {
            return Err("nested too deeply".to_owned());
        }
        self.depth += 1;
        let result = inside(self);
        self.depth -= 1;
        result
    }

    /// A name that must be unique in its context, and its colon.
    fn key(&mut self, seen: &mut BTreeSet<String>) -> Result<String, String> {
        let name = self.name()?;
        if !seen.insert(name.clone()) {
            return Err(format!("duplicate '{name}'"));
        }
        self.expect(&T::Mark(':'))?;
        Ok(name)
    }

    fn definition(&mut self) -> Result<Definition, String> {
        let first = self.at;
        let mut one = Definition {
            kind: Some(GraphqlKind::Query),
            name: None,
            variables: Vec::new(),
            selections: Vec::new(),
            spreads: Vec::new(),
            text: String::new(),
        };
        if !self.peek(&OPEN) {
            one.kind = match (self.kind(), self.text()) {
                (T::Name, "query") => Some(GraphqlKind::Query),
                (T::Name, "mutation") => Some(GraphqlKind::Mutation),
                (T::Name, "subscription") => Some(GraphqlKind::Subscription),
                (T::Name, "fragment") => None,
                _ => return self.fail(),
            };
            self.at += 1;
            if one.kind.is_none() {
                if self.text() == "on" {
                    return self.fail();
                }
                one.name = Some(self.name()?);
                self.type_condition()?;
            } else {
                if self.peek(&T::Name) {
                    one.name = Some(self.name()?);
                }
                one.variables = self.variables()?;
            }
            self.directives(false)?;
        }
        one.selections = self.selections()?;
        one.spreads = std::mem::take(&mut self.spreads);
        let texts: Vec<&str> = self.tokens.iter().take(self.at).skip(first).map(|token| token.text.as_str()).collect();
        one.text = texts.join(" ");
        Ok(one)
    }

    fn type_condition(&mut self) -> Result<(), String> {
        if !self.peek(&T::Name) || self.text() != "on" {
            return self.fail();
        }
        self.at += 1;
        self.name().map(drop)
    }

    fn variables(&mut self) -> Result<Vec<Variable>, String> {
        let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
        if !self.take(&T::Mark('(')) {
            return Ok(all);
        }
        loop {
            self.expect(&T::Mark('$'))?;
            let name = self.key(&mut seen)?;
            let type_text = self.type_text()?;
            let fallback = if self.take(&T::Mark('=')) { Some(self.value(true)?) } else { None };
            self.directives(true)?;
            all.push(Variable { name, type_text, fallback, given: None });
            if self.take(&T::Mark(')')) {
                return Ok(all);
            }
        }
    }

    fn type_text(&mut self) -> Result<String, String> {
        let inner = match self.take(&T::Mark('[')) {
            true => {
                let inner = self.deeper(Self::type_text)?;
                self.expect(&T::Mark(']'))?;
                format!("[{inner}]")
            }
            false => self.name()?,
        };
        Ok(if self.take(&T::Mark('!')) { inner + "!" } else { inner })
    }

    /// A value; `constant` means that it must not be a variable.
    fn value(&mut self, constant: bool) -> Result<Value, String> {
        let plain = |kind: ValueKind| Value { kind, text: String::new() };
        let value = match self.kind() {
            T::Text(text) => Value { kind: ValueKind::Text, text: text.clone() },
            T::Number => plain(ValueKind::Number),
            T::Block => plain(ValueKind::Other),
            T::Name => plain(match self.text() {
                "true" | "false" => ValueKind::Boolean,
                "null" => ValueKind::Null,
                _ => ValueKind::Other,
            }),
            T::Mark('$') if !constant => {
                self.at += 1;
                return Ok(Value { kind: ValueKind::Variable, text: self.name()? });
            }
            T::Mark('[') => {
                self.at += 1;
                while !self.take(&T::Mark(']')) {
                    self.deeper(|inside| inside.value(constant))?;
                }
                return Ok(plain(ValueKind::Other));
            }
            T::Mark('{') => {
                self.at += 1;
                let mut seen = BTreeSet::new();
                while !self.take(&CLOSE) {
                    self.key(&mut seen)?;
                    self.deeper(|inside| inside.value(constant))?;
                }
                return Ok(plain(ValueKind::Other));
            }
            _ => return self.fail(),
        };
        self.at += 1;
        Ok(value)
    }

    fn arguments(&mut self, constant: bool) -> Result<Vec<Argument>, String> {
        let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
        if self.take(&T::Mark('(')) {
            loop {
                let name = self.key(&mut seen)?;
                all.push(Argument { name, value: self.value(constant)? });
                if self.take(&T::Mark(')')) {
                    break;
                }
            }
        }
        Ok(all)
    }

    fn directives(&mut self, constant: bool) -> Result<(), String> {
        while self.take(&T::Mark('@')) {
            self.name()?;
            self.arguments(constant)?;
        }
        Ok(())
    }

    fn selections(&mut self) -> Result<Vec<Selection>, String> {
        self.expect(&OPEN)?;
        let mut all = Vec::new();
        loop {
            all.push(if self.take(&T::Spread) { self.fragment()? } else { Selection::Field(self.field()?) });
            if self.take(&CLOSE) {
                return Ok(all);
            }
        }
    }

    fn field(&mut self) -> Result<Field, String> {
        let mut name = self.name()?;
        if self.take(&T::Mark(':')) {
            name = self.name()?;
        }
        let arguments = self.arguments(false)?;
        self.directives(false)?;
        let selections = if self.peek(&OPEN) { self.deeper(Self::selections)? } else { Vec::new() };
        Ok(Field { name, arguments, selections })
    }

    /// What follows `...`.
    fn fragment(&mut self) -> Result<Selection, String> {
        if self.peek(&T::Name) && self.text() != "on" {
            let name = self.name()?;
            self.directives(false)?;
            self.spreads.push(name.clone());
            return Ok(Selection::Spread(name));
        }
        if self.peek(&T::Name) {
            self.type_condition()?;
        }
        self.directives(false)?;
        self.deeper(Self::selections).map(Selection::Inline)
    }
}
