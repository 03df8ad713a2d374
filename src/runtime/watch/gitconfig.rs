//! Settings of git that make it execute, include or fetch something; read without git.
//!
//! A reading that is more generous than git's: what git would refuse may show up here, what git would obey does.

/// First and last part of a key (`SECTION[.SUB].NAME`), lower case; `*` is any.
const EXECUTING: [(&str, &str); 45] = [
    ("core", "hookspath"),
    ("core", "fsmonitor"),
    ("core", "sshcommand"),
    ("core", "editor"),
    ("core", "pager"),
    ("core", "askpass"),
    ("core", "gitproxy"),
    ("core", "attributesfile"),
    ("core", "worktree"),
    ("core", "alternaterefscommand"),
    ("filter", "*"),
    ("diff", "command"),
    ("diff", "textconv"),
    ("diff", "external"),
    ("merge", "driver"),
    ("difftool", "*"),
    ("mergetool", "*"),
    ("alias", "*"),
    ("include", "*"),
    ("includeif", "*"),
    ("credential", "*"),
    ("gpg", "*"),
    ("user", "signingkey"),
    ("sequence", "editor"),
    ("submodule", "url"),
    ("submodule", "update"),
    ("remote", "url"),
    ("remote", "pushurl"),
    ("remote", "uploadpack"),
    ("remote", "receivepack"),
    ("remote", "proxy"),
    ("remote", "vcs"),
    ("url", "*"),
    ("uploadpack", "packobjectshook"),
    ("protocol", "*"),
    ("pager", "*"),
    ("interactive", "difffilter"),
    ("init", "templatedir"),
    ("http", "*"),
    ("trailer", "*"),
    ("sendemail", "*"),
    ("lfs", "*"),
    ("safe", "*"),
    ("browser", "*"),
    ("extensions", "*"),
];

/// `key = value` of every such setting, in the order of the text.
pub(super) fn executing(text: &str) -> Vec<String> {
    let text = text.replace("\\\r\n", "").replace("\\\n", "");
    let (mut section, mut found) = (String::new(), Vec::new());
    for line in text.lines() {
        let mut rest = line.trim_start_matches(['\u{feff}', ' ', '\t']);
        if let Some(opened) = rest.strip_prefix('[') {
            let end = header_end(opened);
            section = name_of(&opened[..end]);
            // A setting may stand on the line of its header.
            rest = opened[end..].trim_start_matches(']').trim_start();
        }
        if rest.is_empty() || rest.starts_with(['#', ';']) {
            continue;
        }
        let (name, value) = rest.split_once('=').unwrap_or((rest, "true"));
        let key = format!("{section}.{}", name.trim().to_ascii_lowercase());
        if executes(&key) {
            found.push(format!("{key} = {}", value.trim()));
        }
    }
    found
}

/// Where the header's bracket closes: not inside its quoted part.
fn header_end(text: &str) -> usize {
    let (mut quoted, mut escaped) = (false, false);
    for (at, c) in text.char_indices() {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '"' => quoted = !quoted,
            ']' if !quoted => return at,
            _ => {}
        }
    }
    text.len()
}

/// `remote "origin"` as `remote.origin`; the part before the quotes has no case.
fn name_of(header: &str) -> String {
    match header.split_once('"') {
        Some((section, sub)) => {
            format!("{}.{}", section.trim().to_ascii_lowercase(), sub.trim_end().trim_end_matches('"'))
        }
        None => header.trim().to_ascii_lowercase(),
    }
}

fn executes(key: &str) -> bool {
    let first = key.split('.').next().unwrap_or("");
    let last = key.rsplit('.').next().unwrap_or("");
    EXECUTING.iter().any(|(section, name)| *section == first && (*name == "*" || *name == last))
}

#[cfg(test)]
mod tests {
    use super::executing;

    #[test]
    fn every_form_in_which_git_reads_a_setting() {
        let text = "\u{feff}[CORE]\n\tHooksPath=.x\n  bare = false\n[core] fsmonitor = ./y ; z\n\
                    [filter \"a.b]\"] ; c\n\tclean = \"sh \\\n-c x\"\n[remote \"o\"]\n url = u\n fetch = +f\n\
                    [alias]\n\tx = !sh\n# [core]\n[includeIf \"gitdir:/\"]\n path = p\n[branch \"m\"]\n remote = o\n\
                    [Include.x]\npath\n";
        assert_eq!(
            executing(text),
            [
                "core.hookspath = .x",
                "core.fsmonitor = ./y ; z",
                "filter.a.b].clean = \"sh -c x\"",
                "remote.o.url = u",
                "alias.x = !sh",
                "includeif.gitdir:/.path = p",
                "include.x.path = true",
            ]
        );
        assert!(executing("[core\n=\n[\"\n]").is_empty());
    }
}
