//! The repos by URL of the server file.

use std::path::PathBuf;

use super::context::{Context, say_drawn};
use super::{ConfigArgs, Failure};
use crate::config::{Remote, Secret, read_token, remotes};
use crate::diagnostic::Diagnostics;

impl Context {
    /// The repo by URL that `args.name` names, and its token. Says what is wrong with the token.
    pub(super) fn remote(&self, args: &ConfigArgs, name: &str) -> Result<(Remote, Option<Secret>), Failure> {
        let inputs = self.inputs(args, PathBuf::from("/"), false)?;
        let (all, sources, _) = remotes(&inputs);
        let Some(remote) = all.into_iter().find(|remote| remote.name == name) else {
            return Err(self.no_remote(args, name));
        };
        match read_token(&inputs, &remote) {
            Ok(token) => Ok((remote, token)),
            Err(finding) => {
                let mut findings = Diagnostics::new();
                findings.push(finding);
                say_drawn(&findings.text(&sources, self.colour()));
                Err(Failure::promise("the token has no usable value; nothing was run"))
            }
        }
    }

    /// Says why there is no repo by URL with this name: the server file has errors, or does not name one.
    fn no_remote(&self, args: &ConfigArgs, name: &str) -> Failure {
        let config = ConfigArgs { name: Some(name.to_owned()), config_from: None, ..args.clone() };
        match self.load(&config, false) {
            Err(failure) => failure,
            Ok(loaded) if loaded.diagnostics.has_errors() => {
                self.tell(&loaded);
                Failure::usage("the config has errors; nothing was run")
            }
            Ok(_) => Failure::usage(format!(
                "the entry `{name}` of the server file has no `repo_url`: conversations are clones of a repo by URL"
            )),
        }
    }

    /// The repos by URL of a server file without errors.
    pub(super) fn sound_remotes(&self, args: &ConfigArgs) -> Result<Vec<Remote>, Failure> {
        let (all, sources, findings) = remotes(&self.inputs(args, PathBuf::from("/"), false)?);
        if !findings.has_errors() {
            return Ok(all);
        }
        say_drawn(&findings.text(&sources, self.colour()));
        Err(Failure::usage("the server file has errors; nothing was done"))
    }

    /// The repos by URL of the server file, whatever else is wrong with it.
    pub(super) fn all_remotes(&self, args: &ConfigArgs) -> Result<Vec<Remote>, Failure> {
        Ok(remotes(&self.inputs(args, PathBuf::from("/"), false)?).0)
    }
}
