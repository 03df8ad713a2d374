//! Mounts of a `.container` unit.

use std::path::Path;

use super::syntax::csv_field;
use super::unit::path_text;
use super::writer::UnitWriter;
use super::{EmitError, Maker};
use crate::plan::pod::{MaterialSet, Mount, MountOption, Source};
use crate::plan::trust;

/// The source of a bind mount.
enum Bind {
    /// A path of the host. If it starts with `./`, it is relative to the unit file.
    Path(String),
    /// A plain path below the user's runtime directory.
    Runtime(String),
}

impl Maker<'_> {
    /// Named volumes come first, since other mounts may be inside them.
    pub(super) fn write_mounts(&self, w: &mut UnitWriter, mounts: &[Mount]) -> Result<(), EmitError> {
        let (volumes, binds): (Vec<_>, Vec<_>) =
            mounts.iter().partition(|mount| matches!(mount.source, Source::Volume(_)));
        volumes.into_iter().chain(binds).try_for_each(|mount| self.write_mount(w, mount))
    }

    fn write_mount(&self, w: &mut UnitWriter, mount: &Mount) -> Result<(), EmitError> {
        let Mount { name, source, target, read_only, relabel, options, from: _ } = mount;
        let target = path_text(target)?;
        let options = Options { read_only: *read_only, relabel: *relabel, more: options };
        let bind = match source {
            Source::Memory(bytes) => return w.arg(&format!("--tmpfs={target}:size={bytes},mode=1777")),
            Source::Program(image) => {
                let source = csv_field(&format!("source={image}"));
                return w.arg(&format!("--mount=type=image,{source},{}", csv_field(&format!("destination={target}"))));
            }
            Source::Volume(_) => return volume(w, &self.units.file(name, "volume"), &target, options),
            Source::Files { set, file: Some(file) } => Bind::Path(format!("./{}/{file}", set.dir())),
            Source::Files { set, file: None } => Bind::Path(format!("./{}", set.dir())),
            Source::Handover(_) => Bind::Runtime(self.handover()),
            Source::Host(_) | Source::StandIn { .. } => Bind::Runtime(format!("{}/{name}", self.pinned())),
            Source::Material { set, file } => {
                let part = match set {
                    MaterialSet::Router => trust::router_dir,
                    MaterialSet::Agent => trust::agent_dir,
                    MaterialSet::Secrets => trust::secrets_dir,
                };
                Bind::Runtime(self.held_path(part, file.unwrap_or_default())?)
            }
        };
        bind.write(w, &target, options)
    }

    fn held_path(&self, part: fn(&Path) -> std::path::PathBuf, name: &str) -> Result<String, EmitError> {
        path_text(&part(Path::new(&self.held())).join(name)).map(|text| text.trim_end_matches('/').to_owned())
    }
}

/// The options of a mount.
#[derive(Clone, Copy)]
struct Options<'a> {
    read_only: bool,
    relabel: bool,
    more: &'a [MountOption],
}

impl Options<'_> {
    /// The same options in the syntax of `Volume=`.
    fn words(self) -> String {
        let mode = if self.read_only { "ro" } else { "rw" };
        let options = self.more.iter().map(|option| option.word());
        [mode].into_iter().chain(options).chain(self.relabel.then_some("z")).collect::<Vec<_>>().join(",")
    }
}

impl Bind {
    /// `Volume=` splits at colons, trims, and generates a `RequiresMountsFor=` that breaks at spaces (before 5.8). So
    /// any path that is not plain becomes a `--mount` argument of podman, which is parsed as CSV.
    fn write(&self, w: &mut UnitWriter, target: &str, options: Options<'_>) -> Result<(), EmitError> {
        let plain = |c: char| c.is_alphanumeric() && c != '\u{80}' || "/._-+@=".contains(c);
        let words = options.words();
        let (Self::Path(source) | Self::Runtime(source)) = self;
        let is_plain = source.chars().chain(target.chars()).all(plain);
        let volume = format!("{source}:{target}:{words}");
        let mut fields = vec![csv_field(&format!("destination={target}"))];
        fields.extend(options.read_only.then(|| "ro=true".to_owned()));
        fields.extend(options.more.iter().map(|option| option.word().to_owned()));
        fields.extend(options.relabel.then(|| "relabel=shared".to_owned()));
        let fields = fields.join(",");
        match self {
            Self::Path(_) if is_plain => w.set("Volume", &volume),
            Self::Runtime(_) if is_plain => w.below_runtime("Volume", &volume),
            Self::Path(_) => w.arg(&format!("--mount=type=bind,{},{fields}", csv_field(&format!("source={source}")))),
            Self::Runtime(_) => w.arg_below_runtime("--mount=type=bind,source=", &format!("{source},{fields}")),
        }
    }
}

/// `Volume=` for a named volume's unit. Its target must not be split or trimmed.
fn volume(w: &mut UnitWriter, unit: &str, target: &str, options: Options<'_>) -> Result<(), EmitError> {
    if target.contains(':') {
        return Err(EmitError::CannotKeep {
            what: format!("the path {target}"),
            why: "podman would parse what follows the colon as the volume's options".to_owned(),
        });
    }
    let words = options.words();
    // podman mounts a volume read-write by default.
    let words = if words == "rw" { String::new() } else { format!(":{words}") };
    w.set("Volume", &format!("{unit}:{target}{words}"))
}
