//! One file of the corpus, read strictly: the format is described in `tests/conformance/README.md`.

use std::collections::BTreeMap;

use super::text::Text;

/// `key: value` lines, in order.
pub type Pairs = Vec<(String, String)>;

/// One case.
#[derive(Clone, Debug)]
pub struct Case {
    /// Its path below the corpus, without `.case`.
    pub name: String,
    /// What it shows.
    pub why: String,
    /// What must still work.
    pub twin: Option<String>,
    /// The config: the repo's file, the server's.
    pub config: (String, Option<String>),
    /// Where the client connects.
    pub connect: Connect,
    /// What it does.
    pub steps: Vec<Step>,
    /// What comes of it.
    pub expect: Expect,
    /// The lines of the network log, each with the fields that matter.
    pub logs: Vec<Pairs>,
    /// What `explain` is asked.
    pub question: (String, String),
    /// What it answers: the exit code, and fields.
    pub answer: (i32, Pairs),
    /// The operation in the body: its type and its top-level fields.
    pub graphql: Option<(String, Vec<String>)>,
}

/// Where a client connects.
#[derive(Clone, Debug)]
pub struct Connect {
    /// The host whose named port it is; the web ports are the same for all.
    pub host: Option<String>,
    /// The port that the client means.
    pub port: u16,
    /// The name in a TLS handshake; without one the bytes are sent as they are.
    pub tls: Option<String>,
    /// Protocols to choose from in the handshake.
    pub alpn: Option<String>,
    /// How a query of names goes: `udp` or `tcp`.
    pub transport: Option<String>,
}

/// One thing that a client does.
#[derive(Clone, Debug)]
pub enum Step {
    /// Bytes in one write.
    Send(Text),
    /// Milliseconds.
    Pause(u64),
    /// Reads until this has come.
    Await(Text),
}

/// What reaches the other side.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Upstream {
    /// Not one byte.
    Nothing,
    /// Exactly what was sent.
    Bytes,
    /// A request whose first line cannot be said beforehand.
    Request,
    /// Requests with these first lines.
    Requests(Vec<Text>),
}

/// What comes of a case.
#[derive(Clone, Debug)]
pub struct Expect {
    /// `allow` or `deny`.
    pub verdict: String,
    /// A reason code.
    pub reason: String,
    /// HTTP status codes in order; or `alert`, `none`, `refused` alone; or the code of a name server's answer.
    pub status: Vec<String>,
    /// What a name server's answer holds: `inside` or `none`.
    pub address: Option<String>,
    /// The router ends the connection while the client keeps its side open.
    pub closed: bool,
    /// What reaches the other side.
    pub upstream: Upstream,
    /// Header lines that reach it.
    pub headers: Vec<Text>,
    /// The body that reaches it.
    pub body: Option<Text>,
    /// What reaches it.
    pub upstream_with: Vec<Text>,
    /// What does not reach it.
    pub upstream_without: Vec<Text>,
    /// What the client reads.
    pub answer_with: Vec<Text>,
    /// What it does not read.
    pub answer_without: Vec<Text>,
}

/// The known keys of a section, one use each unless marked `*`; those with `!` must be there.
const KEYS: [(&str, &[&str]); 6] = [
    ("case", &["!why", "twin", "replay"]),
    ("connect", &["host", "!port", "tls", "alpn", "transport"]),
    (
        "expect",
        &[
            "!verdict",
            "!reason",
            "!status",
            "address",
            "closed",
            "*upstream",
            "*upstream-header",
            "upstream-body",
            "*upstream-with",
            "*upstream-without",
            "*answer-with",
            "*answer-without",
        ],
    ),
    ("log", &["tier", "verdict", "rule", "reason", "host", "port", "method", "path", "status", "credentials"]),
    ("explain", &["!method", "!target", "!exit", "!verdict", "!reason", "rule", "tier", "reads_body", "credentials"]),
    ("graphql", &["!type", "!fields"]),
];

impl Case {
    /// Reads a file.
    pub fn read(name: &str, text: &str) -> Result<Self, String> {
        let sections = sections(text)?;
        let mut steps = Vec::new();
        let mut logs = Vec::new();
        let mut once: BTreeMap<&str, &str> = BTreeMap::new();
        for (title, body) in &sections {
            match title.split_once(' ').map_or((title.as_str(), ""), |(word, rest)| (word, rest)) {
                ("send", "") => steps.push(Step::Send(Text::read(body)?)),
                ("send", "hex") => steps.push(Step::Send(Text::read_hex(body)?)),
                ("pause", ms) if body.is_empty() => {
                    steps.push(Step::Pause(ms.parse().map_err(|_| "`pause` needs milliseconds")?));
                }
                ("await", "") => steps.push(Step::Await(Text::read(body)?)),
                ("log", "") => logs.push(pairs("log", body)?),
                ("case" | "repo" | "server" | "connect" | "expect" | "explain" | "graphql", "") => {
                    if once.insert(title, body).is_some() {
                        return Err(format!("`{title}` is there twice"));
                    }
                }
                _ => return Err(format!("`{title}` is no section")),
            }
        }
        let section = |title: &str| once.get(title).copied().ok_or(format!("`{title}` is missing"));
        let about = pairs("case", section("case")?)?;
        let connect = pairs("connect", section("connect")?)?;
        let asked = pairs("explain", section("explain")?)?;
        let graphql = section("graphql").ok().map(|body| pairs("graphql", body)).transpose()?;
        let need = |from: &Pairs, key: &str| one(from, key).ok_or(format!("`{key}` is missing"));
        let port = need(&connect, "port")?.parse().map_err(|_| "`port` is no port")?;
        let exit = need(&asked, "exit")?.parse().map_err(|_| "`exit` is no code")?;
        let fields = |pairs: &Pairs| need(pairs, "fields").map(|f| f.split(' ').map(str::to_owned).collect());
        Ok(Self {
            name: name.to_owned(),
            why: need(&about, "why")?,
            twin: one(&about, "twin"),
            config: (section("repo")?.to_owned(), section("server").ok().map(str::to_owned)),
            connect: Connect {
                host: one(&connect, "host"),
                port,
                tls: one(&connect, "tls").filter(|name| name != "none"),
                alpn: one(&connect, "alpn"),
                transport: one(&connect, "transport"),
            },
            steps,
            expect: expect(&pairs("expect", section("expect")?)?)?,
            logs,
            question: (need(&asked, "method")?, need(&asked, "target")?),
            answer: (
                exit,
                asked
                    .iter()
                    .filter(|(key, _)| !["method", "target", "exit"].contains(&key.as_str()))
                    .cloned()
                    .collect(),
            ),
            graphql: graphql.map(|pairs| Ok::<_, String>((need(&pairs, "type")?, fields(&pairs)?))).transpose()?,
        })
    }

    /// True if it is a query of names.
    pub fn is_dns(&self) -> bool {
        self.connect.transport.is_some()
    }

    /// What `explain` says of a field.
    pub fn answered(&self, key: &str) -> Option<&str> {
        self.answer.1.iter().find(|(name, _)| name == key).map(|(_, value)| value.as_str())
    }
}

fn expect(pairs: &Pairs) -> Result<Expect, String> {
    let texts = |key: &str| all(pairs, key).iter().map(|text| Text::read(text)).collect::<Result<Vec<_>, _>>();
    let word = |key: &str| one(pairs, key).ok_or(format!("`{key}` is missing"));
    let closed = match one(pairs, "closed").as_deref() {
        None => false,
        Some("yes") => true,
        Some(other) => return Err(format!("`closed: {other}`")),
    };
    let upstream = match all(pairs, "upstream").as_slice() {
        [] => return Err("`upstream` is missing".to_owned()),
        [one] if one == "nothing" => Upstream::Nothing,
        [one] if one == "bytes" => Upstream::Bytes,
        [one] if one == "one request" => Upstream::Request,
        _ => Upstream::Requests(texts("upstream")?),
    };
    Ok(Expect {
        verdict: word("verdict")?,
        reason: word("reason")?,
        status: word("status")?.split(' ').map(str::to_owned).collect(),
        address: one(pairs, "address"),
        closed,
        upstream,
        headers: texts("upstream-header")?,
        body: texts("upstream-body")?.pop(),
        upstream_with: texts("upstream-with")?,
        upstream_without: texts("upstream-without")?,
        answer_with: texts("answer-with")?,
        answer_without: texts("answer-without")?,
    })
}

/// The file's sections: `== TITLE` and what follows.
fn sections(text: &str) -> Result<Vec<(String, String)>, String> {
    let mut all: Vec<(String, String)> = Vec::new();
    for line in text.lines() {
        match (line.strip_prefix("== "), all.last_mut()) {
            (Some(title), _) => all.push((title.to_owned(), String::new())),
            (None, Some((_, body))) => {
                body.push_str(line);
                body.push('\n');
            }
            (None, None) => return Err("something stands before the first section".to_owned()),
        }
    }
    Ok(all)
}

fn pairs(section: &str, body: &str) -> Result<Pairs, String> {
    let known = KEYS.iter().find(|(name, _)| *name == section).map_or(&[][..], |(_, keys)| *keys);
    let mut all = Pairs::new();
    for line in body.lines() {
        let (key, value) = line.split_once(": ").ok_or(format!("{section}: `{line}` is no `key: value`"))?;
        let rule = known.iter().find(|known| known.trim_start_matches(['!', '*']) == key);
        let rule = rule.ok_or(format!("{section}: `{key}` is no key"))?;
        if !rule.starts_with('*') && one(&all, key).is_some() {
            return Err(format!("{section}: `{key}` is there twice"));
        }
        all.push((key.to_owned(), value.to_owned()));
    }
    let missing = known.iter().filter_map(|known| known.strip_prefix('!')).find(|key| one(&all, key).is_none());
    missing.map_or(Ok(all), |key| Err(format!("{section}: `{key}` is missing")))
}

fn one(pairs: &Pairs, key: &str) -> Option<String> {
    all(pairs, key).pop()
}

fn all(pairs: &Pairs, key: &str) -> Vec<String> {
    pairs.iter().filter(|(name, _)| name == key).map(|(_, value)| value.clone()).collect()
}
