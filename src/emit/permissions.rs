//! The list of permissions that manifests and units contain.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::visible::escaped;

/// Every permission and its place, one per line.
pub(super) fn permissions(plan: &Plan) -> String {
    let mut text = String::new();
    for grant in &plan.grants {
        let what = escaped(&grant.what);
        let _ = writeln!(text, "  {:<8} {what}  ({})", grant.kind, grant.from.short());
    }
    text
}
