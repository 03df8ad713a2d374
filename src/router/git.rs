//! Git over smart HTTP (gitprotocol-http, gitprotocol-pack): which refs a push would change, read before anything of it
//! goes up, and refusals that git shows to its user.

/// One line of a push: what a ref was, and what it shall be. Object ids are lower-case hexadecimal; zeros are no object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RefUpdate {
    /// The object that the client saw there; zeros where it makes the ref.
    pub old: String,
    /// The object that shall be there; zeros where it deletes the ref.
    pub new: String,
    /// The ref's whole name, as in `refs/heads/main`.
    pub name: String,
}

/// Reads the commands at the head of a `git-receive-pack` body. The body must be sent as it came, without a content
/// encoding.
#[derive(Clone, Debug, Default)]
pub struct Commands {}

impl Commands {
    /// Takes more of the body. True once all commands are there: what follows is the pack, which nobody reads. The error
    /// is for `git`'s user.
    pub fn push(&mut self, _bytes: &[u8]) -> Result<bool, String> {
        Err("pushes cannot be read yet".to_owned())
    }

    /// The body has ended. An error if it did so inside of the commands; a body of nothing but the end mark changes nothing
    /// (git sends it to see whether it may push).
    pub fn end(&self) -> Result<(), String> {
        Err("pushes cannot be read yet".to_owned())
    }

    /// The commands so far.
    pub fn updates(&self) -> &[RefUpdate] {
        &[]
    }
}

/// What a git client gets instead of the host's answer: status 200, since it shows the body of nothing else.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refused {
    /// The value of `Content-Type`.
    pub content_type: &'static str,
    /// The body.
    pub body: Vec<u8>,
}

/// Refuses a push whose commands were read as far as this; git shows `remote: TEXT` and each ref as rejected.
pub fn refuse_push(_commands: &Commands, _text: &str) -> Refused {
    Refused { content_type: "application/x-git-receive-pack-result", body: Vec::new() }
}

/// Refuses `info/refs?service=SERVICE`; git shows `remote error: TEXT`.
pub fn refuse_refs(push: bool, _text: &str) -> Refused {
    let content_type = match push {
        true => "application/x-git-receive-pack-advertisement",
        false => "application/x-git-upload-pack-advertisement",
    };
    Refused { content_type, body: Vec::new() }
}
