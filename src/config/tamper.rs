//! `on_tamper`: what happens when the command changes what it must not.

use super::read::{self, shorten};
use super::resolved::OnTamper;
use super::suggest::nearest;
use super::yaml::Node;
use crate::diagnostic::{Code, Diagnostic, Diagnostics};
use crate::source::Located;

/// Reads the key.
pub(super) fn read(node: &Node, d: &mut Diagnostics) -> Option<Located<OnTamper>> {
    let text = read::string(node, "`on_tamper`", d)?;
    match text.value.as_str() {
        "stop" => Some(text.map(|_| OnTamper::Stop)),
        "report" => Some(text.map(|_| OnTamper::Report)),
        other => {
            let label = nearest(other, ["stop", "report"]).map(|near| format!("did you mean `{near}`?"));
            let finding =
                Diagnostic::new(Code::BadValue, format!("`{}` is not a choice for `on_tamper`", shorten(other)));
            d.push(finding.at(text.span, label.unwrap_or_default()).help("write `stop` or `report`"));
            None
        }
    }
}
