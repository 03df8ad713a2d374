//! git settings that make git execute, include or fetch something.

use super::syntax::{Setting, settings};

/// Section and name, lower case; `*` matches any. `true` if git acts on it without being asked, in commands as plain as
/// `git status`, `git log` or `git fetch`; `false` if a person has to ask for it by name, or if it only changes which
/// server git talks to.
const EXECUTING: [(&str, &str, bool); 52] = [
    ("core", "hookspath", true),
    ("core", "fsmonitor", true),
    ("core", "sshcommand", true),
    ("core", "editor", true),
    ("core", "pager", true),
    ("core", "askpass", true),
    ("core", "gitproxy", true),
    ("core", "attributesfile", true),
    ("core", "worktree", true),
    ("core", "alternaterefscommand", true),
    ("filter", "*", true),
    ("diff", "command", true),
    ("diff", "textconv", true),
    ("diff", "external", true),
    ("merge", "driver", true),
    ("difftool", "*", false),
    ("mergetool", "*", false),
    ("alias", "*", false),
    ("include", "*", true),
    ("includeif", "*", true),
    ("credential", "*", true),
    ("gpg", "*", true),
    ("user", "signingkey", false),
    ("sequence", "editor", true),
    ("submodule", "url", false),
    ("submodule", "update", true),
    ("remote", "url", false),
    ("remote", "pushurl", false),
    ("remote", "uploadpack", true),
    ("remote", "receivepack", true),
    ("remote", "proxy", false),
    ("remote", "vcs", true),
    ("url", "*", false),
    ("uploadpack", "packobjectshook", true),
    ("protocol", "*", true),
    ("pager", "*", true),
    ("interactive", "difffilter", true),
    ("init", "templatedir", true),
    ("http", "*", false),
    ("trailer", "*", true),
    ("sendemail", "*", false),
    ("lfs", "path", true),
    ("lfs", "standalonetransferagent", true),
    ("lfs", "*", false),
    ("safe", "*", true),
    ("browser", "*", false),
    ("man", "*", false),
    ("web", "browser", false),
    ("instaweb", "*", false),
    ("guitool", "*", false),
    ("bundle", "*", false),
    ("extensions", "*", true),
];

/// `key = value` of every such setting, in the order of the text.
pub fn executing(text: &str) -> Vec<String> {
    shown(text, |_| true)
}

/// Those that git acts on without being asked.
pub fn executing_unasked(text: &str) -> Vec<String> {
    shown(text, |unasked| unasked)
}

fn shown(text: &str, wanted: impl Fn(bool) -> bool) -> Vec<String> {
    let found = settings(text).into_iter().filter(|setting| kind(setting).is_some_and(&wanted));
    found.map(|setting| format!("{} = {}", setting.key(), setting.value)).collect()
}

/// Whether git acts on a setting without being asked.
pub(super) fn is_unasked(setting: &Setting) -> bool {
    kind(setting) == Some(true)
}

fn kind(setting: &Setting) -> Option<bool> {
    let fits = |name: &str| name == "*" || name == setting.name;
    EXECUTING
        .iter()
        .find(|(section, name, _)| *section == setting.section && fits(name))
        .map(|(_, _, unasked)| *unasked)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_executes_is_told_from_what_does_not() {
        let text = "[core]\nbare = false\nFSMonitor = ./y\n[remote \"o\"]\nurl = u\nfetch = f\n[alias]\nx = !sh\n\
                    [branch \"m\"]\nremote = o\n[include]\npath = p\n[extensions]\nworktreeConfig = true\n";
        assert_eq!(
            executing(text),
            [
                "core.fsmonitor = ./y",
                "remote.o.url = u",
                "alias.x = !sh",
                "include.path = p",
                "extensions.worktreeconfig = true"
            ]
        );
        assert_eq!(
            executing_unasked(text),
            ["core.fsmonitor = ./y", "include.path = p", "extensions.worktreeconfig = true"]
        );
    }
}
