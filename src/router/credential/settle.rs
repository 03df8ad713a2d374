//! Applies credentials to a request.

use super::github::{self, Bound};
use super::sigv4::{self, Answer};
use super::surrogate::swap;
use super::table::{One, SecretKind, Table};
use super::{Body, Clock, CredentialRefusal, Pass, RequestHead, Settled, Tokens};
use crate::policy::{HostName, Reason, canonical};
use crate::router::clear;
use crate::router::message::{Field, same_name};

/// The state so far. Credentials are identified by their index in the table.
struct State<'a> {
    table: &'a Table,
    head: &'a RequestHead<'a>,
    body: Option<&'a Body<'a>>,
    tokens: &'a dyn Tokens,
    /// Those whose scope includes the host; their headers are checked.
    held: Vec<usize>,
    /// Those that are for this request.
    active: Vec<usize>,
    /// The headers to forward.
    sent: Vec<Field>,
    pass: Pass,
    /// Apps whose token was inserted.
    apps: Vec<usize>,
    /// Tokens of Basic as forwarded and as received.
    echoes: Vec<(Vec<u8>, Vec<u8>)>,
    refusals: Vec<(Reason, usize, String)>,
    /// The credential that needs the body, and whether as GraphQL.
    waits: Option<(usize, bool)>,
    /// The request is signed with this credential's surrogates.
    signed: bool,
    /// Whether its surrogates are in the right place, so that any error is about something else.
    excused: Option<usize>,
    drops_range: bool,
}

impl Table {
    /// Applies credentials to a request on port 443 to an inspected host.
    pub fn settle(
        &self,
        head: &RequestHead<'_>,
        body: Option<&Body<'_>>,
        tokens: &dyn Tokens,
        clock: Clock,
    ) -> Settled {
        settle(self, head, body, tokens, clock)
    }
}

fn settle(
    table: &Table,
    request: &RequestHead<'_>,
    body: Option<&Body<'_>>,
    tokens: &dyn Tokens,
    clock: Clock,
) -> Settled {
    let those = |keep: &dyn Fn(&One) -> bool| -> Vec<usize> {
        table.all.iter().enumerate().filter(|(_, one)| keep(one)).map(|(at, _)| at).collect()
    };
    let held = those(&|one| one.is_for(request.host));
    let active = those(&|one| one.is_for(request.host) && one.permits(request.method, request.target));
    let drops_range = held.iter().filter_map(|at| table.all.get(*at)).any(|one| !one.is_aws());
    let mut state = State {
        table,
        head: request,
        body,
        tokens,
        held,
        active,
        sent: request.headers.to_vec(),
        pass: Pass::default(),
        apps: Vec::new(),
        echoes: Vec::new(),
        refusals: Vec::new(),
        waits: None,
        signed: false,
        excused: None,
        drops_range,
    };
    state.aws(clock);
    state.headers();
    state.github();
    state.answer()
}

impl<'a> State<'a> {
    fn one(&self, at: usize) -> Option<&'a One> {
        self.table.all.get(at)
    }

    fn refuse(&mut self, reason: Reason, at: usize, said: impl Into<String>) {
        self.refusals.push((reason, at, said.into()));
    }

    fn uses(&mut self, at: usize) {
        let name = self.one(at).map(|one| one.name.clone()).unwrap_or_default();
        if !self.pass.used.contains(&name) {
            self.pass.used.push(name);
        }
    }

    /// Replaces the fields with a name, or removes them with `None`.
    fn set(&mut self, name: &str, value: Option<Vec<u8>>) {
        let came = self.sent.iter().any(|(one, _)| one.eq_ignore_ascii_case(name.as_bytes()));
        self.sent.retain(|(one, _)| !one.eq_ignore_ascii_case(name.as_bytes()));
        match value {
            Some(value) => {
                self.sent.push((name.as_bytes().to_vec(), value.clone()));
                self.pass.set.push((name.as_bytes().to_vec(), value));
            }
            None if came => self.pass.remove.push(name.as_bytes().to_vec()),
            None => {}
        }
    }

    fn values(&self, name: &'static [u8]) -> Vec<Vec<u8>> {
        let named = self.sent.iter().filter(|(one, _)| same_name(one, name));
        named.map(|(_, value)| value.clone()).collect()
    }

    /// Signs for AWS, or returns why not.
    fn aws(&mut self, clock: Clock) {
        let signers = |list: &[usize]| -> Vec<usize> {
            list.iter().copied().filter(|at| self.one(*at).is_some_and(One::is_aws)).collect()
        };
        let (held, active) = (signers(&self.held), signers(&self.active));
        let Some(first) = held.first().copied() else { return };
        let key = sigv4::access_key_id(self.head.target, self.head.headers);
        let is_own = |at: &usize| match self.one(*at).map(|one| &one.kind) {
            Some(SecretKind::Aws(keys)) => key.as_ref() == Some(&keys.id.surrogate),
            _ => false,
        };
        let own = active.iter().copied().find(|at| is_own(at));
        self.signed = own.is_some();
        let at = own.or(active.first().copied()).unwrap_or(first);
        let Some(one) = self.one(at) else { return };
        if active.is_empty() {
            // Out of scope, a surrogate is a leak, which the scan finds, and a stranger's key is foreign.
            if key.is_some() && !one.foreign {
                self.refuse(Reason::ForeignCredential, at, "");
            }
            return;
        }
        let SecretKind::Aws(keys) = &one.kind else { return };
        let request = sigv4::Request {
            method: self.head.method,
            host: self.head.host.as_str(),
            target: self.head.target,
            headers: self.head.headers,
            body: self.body,
            clock,
            allow_foreign: one.foreign,
            drops_range: self.drops_range,
        };
        match sigv4::resign(&request, keys) {
            Answer::Unsigned => self.unsigned(at, one),
            Answer::Refuse(reason, said) => {
                self.excused = Some(at);
                self.refuse(reason, at, said);
            }
            Answer::NeedsBody => self.waits = Some((at, false)),
            Answer::Signed(signed) => self.sign(at, signed),
        }
    }

    /// A request without a signature must not contain another credential where signatures belong.
    fn unsigned(&mut self, at: usize, one: &One) {
        let blank = |value: &Vec<u8>| value.trim_ascii().is_empty();
        let others = self.values(b"authorization").iter().any(|value| !blank(value));
        let is_masked =
            |at: &usize| self.one(*at).is_some_and(|one| one.headers.iter().any(|name| name == "authorization"));
        if others && !self.held.iter().any(is_masked) && !one.foreign {
            self.refuse(Reason::ForeignCredential, at, "");
        }
    }

    fn sign(&mut self, at: usize, signed: sigv4::Signed) {
        for (name, value) in signed.headers {
            self.set(name, value);
        }
        self.pass.target = signed.target.map(String::into_bytes);
        self.drops_range |= signed.drops_range;
        self.uses(at);
        if let Some(source) = signed.reads {
            let host = HostName::from_wire(&source.host);
            let inside = |host: &HostName, one: &One| one.is_for(host) && one.permits("GET", source.target.as_bytes());
            match host.filter(|host| self.one(at).is_some_and(|one| inside(host, one))) {
                Some(host) => self.pass.reads = Some((host, source.target)),
                None => self.refuse(Reason::Leak, at, "The source of this copy is out of the credential's scope."),
            }
        }
    }

    /// Inserts values into headers.
    fn headers(&mut self) {
        let mut names: Vec<&'a str> = Vec::new();
        for one in self.held.iter().filter_map(|at| self.one(*at)) {
            names.extend(one.headers.iter().map(String::as_str));
        }
        names.sort_unstable();
        names.dedup();
        let signed = self.signed;
        for name in names.into_iter().filter(|name| !(signed && *name == "authorization")) {
            self.header(name);
        }
    }

    fn header(&mut self, name: &str) {
        let lists = |at: &usize| self.one(*at).is_some_and(|one| one.headers.iter().any(|header| header == name));
        let listing: Vec<usize> = self.held.iter().copied().filter(lists).collect();
        let listed: Vec<usize> = self.active.iter().copied().filter(lists).collect();
        let Some(first) = listing.first().copied() else { return };
        let all: Vec<&Field> = self.head.headers.iter().filter(|(one, _)| same_name(one, name.as_bytes())).collect();
        let mut missing: Vec<usize> = Vec::new();
        let swaps: Vec<_> = all
            .iter()
            .map(|(one, value)| {
                // A header under its other name is not replaced, so it is a leak.
                let own = one.eq_ignore_ascii_case(name.as_bytes());
                let of = |token: &[u8]| {
                    listed.iter().copied().find(|at| self.one(*at).is_some_and(|one| one.is_surrogate(token)))
                };
                let real = |at| {
                    self.real(at).unwrap_or_else(|| {
                        missing.push(at);
                        Vec::new()
                    })
                };
                own.then(|| swap(value, of, real)).flatten()
            })
            .collect();
        for at in missing {
            self.refuse(Reason::CredentialUnavailable, at, "");
        }
        if all.len() > 1 {
            // Checked one by one: what is in the right place is not a leak, only a duplicate.
            self.sent.retain(|(one, _)| !same_name(one, name.as_bytes()));
            let rest = all.iter().zip(&swaps).filter(|(_, swap)| swap.is_none()).map(|(field, _)| (*field).clone());
            self.sent.extend(rest);
            self.refuse(Reason::DuplicateCredential, first, "");
            return;
        }
        let Some((_, value)) = all.first().filter(|(_, value)| !value.trim_ascii().is_empty()) else { return };
        let Some(done) = swaps.into_iter().next().flatten() else {
            let strict = listing.into_iter().find(|at| self.one(*at).is_some_and(|one| !one.foreign));
            if let Some(at) = strict {
                self.refuse(Reason::ForeignCredential, at, "");
            }
            return;
        };
        debug_assert!(!value.is_empty());
        self.set(name, Some(done.value));
        for at in done.used {
            self.uses(at);
            if self.one(at).is_some_and(|one| matches!(one.kind, SecretKind::Github(_))) {
                self.apps.push(at);
            }
        }
        self.echoes.extend(done.echo);
    }

    /// The value of a credential; `None` if there is none at the moment.
    fn real(&self, at: usize) -> Option<Vec<u8>> {
        let one = self.one(at)?;
        let value = match &one.kind {
            SecretKind::Masked(pair) => Some(pair.value.clone()),
            SecretKind::Github(_) => self.tokens.token(&one.name),
            SecretKind::Aws(_) => None,
        };
        value.filter(|value| !value.is_empty()).map(String::into_bytes)
    }

    /// Requests with tokens of GitHub Apps are restricted to repositories. For GraphQL requests, the body tells which.
    fn github(&mut self) {
        for at in self.apps.clone() {
            let Some(one) = self.one(at) else { continue };
            let SecretKind::Github(app) = &one.kind else { continue };
            let Some(repositories) = &app.repositories else { continue };
            let target = std::str::from_utf8(self.head.target).ok().and_then(|target| canonical(target).ok());
            let path = target.unwrap_or_default();
            if github::is_graphql(&path) && self.head.method == "POST" && self.body.is_none() {
                self.waits = Some((at, true));
                continue;
            }
            let owner = self.tokens.owner(&one.name);
            let bound = Bound { repositories, owner: owner.as_deref() };
            let document = self.body.and_then(|body| body.graphql);
            if let Err(said) = github::check(bound, self.head.method, &path, document) {
                self.refuse(Reason::RepositoryNotAllowed, at, said);
            }
        }
    }

    /// A leak is reported before anything else. A request that needs its body is checked again with it.
    fn answer(mut self) -> Settled {
        if self.waits.is_none() {
            let target = self.pass.target.as_deref().unwrap_or(self.head.target);
            let sent = self.sent.iter().map(|(name, value)| (name.as_slice(), value.as_slice()));
            if let Some(at) = self.table.watch.leaked(target, sent, self.excused) {
                return self.refusal(Reason::Leak, at, String::new());
            }
        }
        // A missing token may exist later, so it is only reported if nothing else is wrong.
        let lasting = self.refusals.iter().position(|(reason, ..)| *reason != Reason::CredentialUnavailable);
        if !self.refusals.is_empty() {
            let (reason, at, said) = self.refusals.swap_remove(lasting.unwrap_or(0));
            return self.refusal(reason, at, said);
        }
        if let Some((at, graphql)) = self.waits {
            let credential = self.one(at).map(|one| one.name.clone()).unwrap_or_default();
            return Settled::NeedsBody { credential, graphql };
        }
        match self.replacer() {
            Ok(replacer) => self.pass.clear = replacer,
            Err(_) => return self.refusal(Reason::CredentialUnavailable, usize::MAX, String::new()),
        }
        if self.pass.clear.is_some() {
            self.readable();
        }
        Settled::Pass(self.pass)
    }

    fn refusal(&self, reason: Reason, at: usize, said: String) -> Settled {
        let credential = self.one(at).map(|one| one.name.clone()).unwrap_or_default();
        Settled::Refuse(CredentialRefusal { reason, credential, said })
    }

    /// What the response is cleared of. Forms include Basic, unless a value and its surrogate differ in length.
    fn replacer(&self) -> Result<Option<clear::Replacer>, clear::Unreadable> {
        let plain = self.table.replacer(self.head.host, self.tokens)?;
        let covered = |(sent, came): &(Vec<u8>, Vec<u8>)| {
            plain.as_ref().and_then(|plain| plain.text(sent)).is_some_and(|cleared| cleared == *came)
        };
        if self.echoes.iter().all(covered) {
            return Ok(plain);
        }
        self.table.replacer_with(self.head.host, self.tokens, &self.echoes)
    }

    /// Requests a response that can be cleared: uncompressed or in a supported encoding, and complete.
    fn readable(&mut self) {
        let accepted = self.values(b"accept-encoding");
        let accepted: Vec<&[u8]> = accepted.iter().map(Vec::as_slice).collect();
        let offered = clear::offer(&accepted);
        if accepted != [offered.as_slice()] {
            self.set("accept-encoding", Some(offered));
        }
        // gRPC compresses messages one by one.
        self.set("grpc-accept-encoding", None);
        if self.drops_range {
            self.set("range", None);
            self.set("if-range", None);
        }
        // WebSocket extensions would make messages unreadable.
        self.set("sec-websocket-extensions", None);
    }
}
