//! The generated pages of `docs/reference`. `UPDATE_GOLDEN=1` rewrites them, for review.

use std::fs;
use std::path::{Path, PathBuf};

use sandboxc::cli;
use sandboxc::config::schema;
use sandboxc::diagnostic::Code;
use serde_json::Value;

use crate::config::fixtures::{code, fixtures, shown};

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

/// Compares a page with its generated form, or writes it.
fn page(name: &str, text: &str) {
    let path = root().join("docs/reference").join(name);
    if std::env::var_os("UPDATE_GOLDEN").is_some() {
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(&path, text).unwrap();
    }
    let there = fs::read_to_string(&path).unwrap_or_default();
    assert!(there == text, "docs/reference/{name} is out of date: run `make golden` and review the diff");
}

/// Text inside a cell of a Markdown table.
fn cell(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace('|', "\\|").replace('<', "&lt;")
}

// The config files.

#[test]
fn the_reference_of_the_config_files_is_that_of_their_schemas() {
    page("repo.md", &config_page("The repo file", REPO, &schema::repo()));
    page("server.md", &config_page("The server file", SERVER, &schema::server()));
}

const REPO: &str = "`.sandboxc/sandbox.yaml` describes what a repository asks for. Every key is optional except `version`. \
The server file limits what is granted. `sandboxc schema repo` prints the JSON Schema of this file.";

const SERVER: &str = "`$XDG_CONFIG_HOME/sandboxc/server.yaml` belongs to the owner of the machine. It grants what repository files may only \
ask for, limits resources and holds credentials. The tags `!env NAME`, `!var NAME` and `!file PATH` stand for strings and numbers. \
`sandboxc schema server` prints the JSON Schema of this file.";

fn config_page(title: &str, intro: &str, schema: &str) -> String {
    let schema: Value = serde_json::from_str(schema).unwrap();
    let mut text = format!("# {title}\n\n<!-- Generated from the JSON Schema; run `make golden`. -->\n\n{intro}\n");
    let mut queue = vec![("Top level".to_owned(), schema.clone())];
    let mut done = std::collections::BTreeSet::new();
    while !queue.is_empty() {
        let (name, object) = queue.remove(0);
        if !done.insert(name.clone()) {
            continue;
        }
        text.push_str(&format!("\n## {name}\n\n"));
        if name != "Top level" {
            text.push_str(&format!("{}\n\n", paragraph(&object)));
        }
        text.push_str(&values(&object));
        text.push_str(&keys(&object));
        for reference in references(&object) {
            let definition = schema["definitions"][&reference].clone();
            queue.push((reference, definition));
        }
    }
    text
}

fn paragraph(object: &Value) -> String {
    object["description"]
        .as_str()
        .unwrap_or_default()
        .split_whitespace()
        .collect::<Vec<_>>()
        .join(" ")
        .replace('<', "&lt;")
}

/// The alternatives of a value that is not a mapping.
fn values(object: &Value) -> String {
    let alternatives = ["oneOf", "anyOf"].iter().find_map(|key| object[*key].as_array());
    let mut text = String::new();
    for one in alternatives.into_iter().flatten() {
        let form = one["const"].as_str().map_or_else(|| kind(one), |constant| format!("`{constant}`"));
        let meaning = paragraph(one);
        let meaning = if meaning.is_empty() { meaning } else { format!(": {meaning}") };
        text.push_str(&format!("* {form}{meaning}\n"));
    }
    if !text.is_empty() {
        text.push('\n');
    }
    text
}

fn keys(object: &Value) -> String {
    let Some(properties) = object["properties"].as_object() else { return String::new() };
    let required: Vec<&str> = object["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
    let mut text = "| key | value | meaning |\n|---|---|---|\n".to_owned();
    for (key, property) in properties {
        let must = if required.contains(&key.as_str()) { " (required)" } else { "" };
        let meaning = property["description"].as_str().unwrap_or_default();
        text.push_str(&format!("| `{key}`{must} | {} | {} |\n", kind(property), cell(meaning)));
    }
    text
}

/// What a value is, with a link to the section of its own keys.
fn kind(value: &Value) -> String {
    if let Some(name) = reference(value) {
        return format!("[{name}](#{})", name.to_lowercase());
    }
    if let Some(constant) = value.get("const") {
        return format!("`{constant}`");
    }
    if let Some(words) = value["enum"].as_array() {
        let words: Vec<String> = words.iter().filter_map(Value::as_str).map(|word| format!("`{word}`")).collect();
        return words.join(" or ");
    }
    let alternatives = ["oneOf", "anyOf", "allOf"].iter().find_map(|key| value[*key].as_array());
    if let Some(alternatives) = alternatives {
        let mut kinds: Vec<String> = alternatives.iter().filter(|one| one["type"] != "null").map(kind).collect();
        kinds.dedup();
        return kinds.join(" or ");
    }
    if let Some(items) = value.get("items") {
        return format!("list of {}", kind(items));
    }
    if let Some(items) = value.get("additionalProperties").filter(|items| items.is_object()) {
        return format!("mapping of names to {}", kind(items));
    }
    match &value["type"] {
        Value::String(one) => one.clone(),
        Value::Array(many) => {
            let many: Vec<&str> = many.iter().filter_map(Value::as_str).filter(|one| *one != "null").collect();
            many.join(" or ")
        }
        _ => "any value".to_owned(),
    }
}

fn reference(value: &Value) -> Option<String> {
    let path = value.get("$ref")?.as_str()?;
    path.rsplit('/').next().map(str::to_owned)
}

/// Every definition that a value refers to, in order.
fn references(value: &Value) -> Vec<String> {
    match value {
        Value::Object(map) => {
            let own = map.get("$ref").and_then(|_| reference(value));
            let inner = map.iter().filter(|(key, _)| *key != "definitions").flat_map(|(_, inner)| references(inner));
            own.into_iter().chain(inner).collect()
        }
        Value::Array(items) => items.iter().flat_map(references).collect(),
        _ => Vec::new(),
    }
}

// The command line.

#[test]
fn the_reference_of_the_command_line_is_that_of_its_help() {
    let mut command = cli::command();
    command.build();
    let mut text = format!(
        "# Command line\n\n<!-- Generated from the commands' own help; run `make golden`. -->\n\n{}\n\n\
         Exit codes are on [a page of their own](exit-codes.md). Every command has these options:\n\n\
         | argument | meaning |\n|---|---|\n{}",
        command.get_about().unwrap(),
        command.get_arguments().filter(|arg| arg.is_global_set()).map(argument).collect::<String>()
    );
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let nested: Vec<&clap::Command> = sub.get_subcommands().filter(|one| one.get_name() != "help").collect();
        if nested.is_empty() {
            text.push_str(&command_section("sandboxc", sub));
        }
        for one in nested {
            text.push_str(&command_section(&format!("sandboxc {}", sub.get_name()), one));
        }
    }
    page("cli.md", &text);
}

fn command_section(prefix: &str, command: &clap::Command) -> String {
    let name = format!("{prefix} {}", command.get_name());
    let usage = command.clone().render_usage().to_string().replace("Usage: ", "");
    let about = command.get_about().map(ToString::to_string).unwrap_or_default();
    let mut text = format!("\n## {name}\n\n{about}.\n\n```text\n{usage}\n```\n");
    let rows: Vec<String> =
        command.get_arguments().filter(|arg| arg.get_id() != "help" && !arg.is_global_set()).map(argument).collect();
    if !rows.is_empty() {
        text.push_str(&format!("\n| argument | meaning |\n|---|---|\n{}", rows.concat()));
    }
    let codes = command.get_after_help().map(ToString::to_string).unwrap_or_default();
    let codes: Vec<String> = codes.lines().skip(1).map(code_row).collect();
    text.push_str(&format!("\n| exit code | meaning |\n|---|---|\n{}", codes.concat()));
    text
}

fn code_row(line: &str) -> String {
    let (code, meaning) = line.trim().split_once(' ').unwrap();
    format!("| {code} | {} |\n", cell(meaning))
}

/// Each code of a command's help is explained on the page about exit codes.
#[test]
fn every_exit_code_is_in_the_help_and_on_its_page() {
    let page = fs::read_to_string(root().join("docs/reference/exit-codes.md")).unwrap();
    let mut command = cli::command();
    command.build();
    for sub in command.get_subcommands().filter(|sub| sub.get_name() != "help") {
        let nested: Vec<&clap::Command> = sub.get_subcommands().filter(|one| one.get_name() != "help").collect();
        for one in if nested.is_empty() { vec![sub] } else { nested } {
            let help = one.clone().render_help().to_string();
            let codes = help.split_once("Exit codes:\n").unwrap_or_else(|| panic!("{}", one.get_name())).1;
            for code in codes.lines().filter_map(|line| line.split_whitespace().next()) {
                let shown = code.replace("0-123", "0–123").replace('+', " + ");
                let explained = page.contains(&format!("| {shown} |"))
                    || (code == "1" && page.contains(&format!("`{}`", one.get_name())));
                assert!(explained || code == "0", "{}: {code}", one.get_name());
            }
        }
    }
}

fn argument(arg: &clap::Arg) -> String {
    let values: Vec<&str> = arg.get_value_names().into_iter().flatten().map(clap::builder::Str::as_str).collect();
    let takes = arg.get_action().takes_values();
    let value = if takes { format!(" {}", values.join(" ")) } else { String::new() };
    let name = match (arg.get_short(), arg.get_long()) {
        (Some(short), Some(long)) => format!("-{short}, --{long}{value}"),
        (Some(short), None) => format!("-{short}{value}"),
        (None, Some(long)) => format!("--{long}{value}"),
        (None, None) => values.join(" "),
    };
    let help = arg.get_help().map(ToString::to_string).unwrap_or_default();
    let possible: Vec<String> = match takes {
        true => arg.get_possible_values().iter().map(|one| format!("`{}`", one.get_name())).collect(),
        false => Vec::new(),
    };
    let possible = if possible.is_empty() { String::new() } else { format!("\u{a0}One of {}.", possible.join(", ")) };
    format!("| `{}` | {}.{} |\n", name.trim().replace('|', "\\|"), cell(&help), cell(&possible))
}

// Diagnostics.

#[test]
fn the_reference_of_diagnostics_shows_a_broken_config_for_each() {
    let mut text = "# Diagnostics\n\n<!-- Generated from the broken configs under tests/it/bad; run `make golden`. -->\n\n\
                    Every finding has a code that never changes its meaning. The samples are real output, `@` stands for the directory.\n"
        .to_owned();
    for code in Code::ALL {
        text.push_str(&format!("\n## {code}\n\n{} ({}).\n", code.describe(), severity(*code)));
        if let Some(sample) = sample(*code) {
            text.push_str(&sample);
        }
    }
    page("diagnostics.md", &text);
}

fn severity(code: Code) -> &'static str {
    match code.severity() {
        sandboxc::diagnostic::Severity::Error => "error",
        sandboxc::diagnostic::Severity::Warning => "warning",
        sandboxc::diagnostic::Severity::Note => "note",
    }
}

/// The broken files for a code, the first finding, and the corrected files.
fn sample(wanted: Code) -> Option<String> {
    let fixture = fixtures().into_iter().filter(|name| code(name) == wanted).min_by_key(String::len)?;
    let finding = shown(&fixture, wanted)?;
    let mut text = String::new();
    for (title, dir) in [("Broken", fixture.clone()), ("Right", format!("fixed/{fixture}"))] {
        for file in ["sandbox.yaml", "server.yaml", "allowed-hosts"] {
            let Ok(content) = fs::read_to_string(Path::new("tests/it/bad").join(&dir).join(file)) else { continue };
            // Some samples are about raw control characters, which no page can show.
            if content.lines().count() > 14 || content.chars().any(|c| c.is_control() && c != '\n') {
                continue;
            }
            let language = if file == "allowed-hosts" { "text" } else { "yaml" };
            text.push_str(&format!("\n{title} `{file}`:\n\n```{language}\n{}\n```\n", content.trim_end()));
        }
        if title == "Broken" {
            text.push_str(&format!("\n```text\n{}\n```\n", finding.trim_end()));
        }
    }
    Some(text)
}

// Building the book checks links between pages; this only checks that each page is part of it.

#[test]
fn every_page_is_in_the_table_of_contents() {
    let contents = fs::read_to_string(root().join("mkdocs.yml")).unwrap();
    let mut pages = Vec::new();
    collect(&root().join("docs"), &mut pages);
    assert!(pages.len() > 10, "{pages:?}");
    for page in pages {
        assert!(contents.contains(&page), "mkdocs.yml does not list {page}");
    }
}

fn collect(dir: &Path, pages: &mut Vec<String>) {
    for entry in fs::read_dir(dir).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            collect(&path, pages);
        } else if path.extension().is_some_and(|extension| extension == "md") {
            pages.push(path.strip_prefix(root().join("docs")).unwrap().to_str().unwrap().to_owned());
        }
    }
}
