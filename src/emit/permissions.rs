//! The list of permissions, as manifests and units show it.

use std::fmt::Write as _;

use crate::plan::Plan;
use crate::visible::escaped;

/// Every permission and the place that gave it, one a line.
pub(super) fn permissions(plan: &Plan) -> String {
    let mut text = String::new();
    for grant in &plan.grants {
        let what = escaped(&grant.what);
        let _ = writeln!(text, "  {:<8} {what}  ({})", grant.kind, grant.from.short());
    }
    text
}
