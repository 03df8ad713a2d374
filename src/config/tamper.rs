//! `on_tamper`: what happens when the command changes what it must not.

use super::read;
use super::resolved::OnTamper;
use super::yaml::Node;
use crate::diagnostic::Diagnostics;
use crate::source::Located;

/// Reads the key.
pub(super) fn read(node: &Node, d: &mut Diagnostics) -> Option<Located<OnTamper>> {
    read::choice(node, "`on_tamper`", [("stop", OnTamper::Stop), ("report", OnTamper::Report)], d)
}
