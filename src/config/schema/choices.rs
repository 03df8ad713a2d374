//! Keys with a few values, in the schemas.

use schemars::JsonSchema;

/// Which repos share a home directory.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub(super) enum Home {
    /// A volume for each repo.
    Private,
    /// A volume for all repos with this setting.
    Shared,
}

/// Whose name and email git uses inside.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub(super) enum GitIdentity {
    /// Those of the invoking user.
    Host,
}

/// Which network the steps of a build use.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub(super) enum ImageBuild {
    /// That of a session.
    Sandboxed,
    /// The host's.
    Host,
}

/// Whether there may be containers inside.
#[derive(JsonSchema)]
#[schemars(untagged)]
pub(super) enum NestedContainers {
    /// With or without.
    Plain(bool),
    /// With more.
    With(Nested),
}

/// What containers inside may have besides.
#[derive(JsonSchema)]
#[schemars(deny_unknown_fields)]
pub(super) struct Nested {
    networks: Option<bool>,
    docker_socket: Option<bool>,
}

/// What happens when the command changes a name that is watched.
#[derive(JsonSchema)]
#[schemars(rename_all = "kebab-case")]
pub(super) enum OnTamper {
    /// It is stopped.
    Stop,
    /// It is reported at the end.
    Report,
}
