//! Paths inside, and which paths a manifest can name at all.

use std::path::{Path, PathBuf};

use super::read::shorten;
use super::value::{absolute_problem, path_finding};
use crate::diagnostic::Diagnostics;
use crate::source::Located;

/// Where the agent's home volume is mounted, by identity.
const HOMES: [&str; 2] = ["/home/agent", "/root"];

/// Directories that belong to the kernel, the image's system or sandboxc.
const SYSTEM: [&str; 5] = ["/proc", "/sys", "/dev", "/etc", "/run"];

/// Why a path of the host cannot be in a manifest, if so: YAML and unit files are text, and kube play parses what
/// follows a colon as mount options.
pub(super) fn unfit(path: &Path) -> Option<&'static str> {
    match path.to_str() {
        None => Some("it is not UTF-8"),
        Some(text) if text.chars().any(char::is_control) => Some("it has a control character"),
        Some(text) if text.contains(':') => Some("it has a colon, which podman reads as the start of mount options"),
        Some(_) => None,
    }
}

/// Reads a path inside.
pub(super) fn target(text: &Located<String>, d: &mut Diagnostics) -> Option<PathBuf> {
    // Rebuilt from components: `/data/` and `/data//x/.` mean the same as the plain form.
    let path: PathBuf = Path::new(&text.value).components().collect();
    let problem = absolute_problem(&text.value, &path)
        .or_else(|| {
            unfit(&path).map(|problem| format!("`{}` cannot be a mount target: {problem}", shorten(&text.value)))
        })
        .or_else(|| taken(&path));
    let Some(problem) = problem else { return Some(path) };
    d.push(path_finding(&problem, text.span, "write another absolute path, e.g. `/workspace`"));
    None
}

/// Why a path inside cannot be used, if so.
pub(super) fn taken(path: &Path) -> Option<String> {
    if let Some(system) = SYSTEM.iter().find(|system| path.starts_with(system)) {
        return Some(format!("`{system}` inside the container belongs to the system"));
    }
    let home = HOMES.iter().find(|home| Path::new(home).starts_with(path))?;
    Some(if Path::new(home) == path {
        format!("`{home}` inside the container is the agent's home")
    } else {
        format!("it would hide `{home}`")
    })
}
