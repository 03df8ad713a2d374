//! Materials for manifests that others play: Kubernetes secrets, from which `podman kube play` creates podman secrets.

use std::collections::BTreeMap;

use k8s_openapi::ByteString;
use k8s_openapi::api::core::v1::Secret as Document;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;

use super::{Files, SessionMaterials};
use crate::config::{SecretValues, yaml};
use crate::plan::{Materials as Needed, Part, SESSION_LABEL, trust};
use crate::runtime::RuntimeError;

/// Returns the secrets that a plan refers to, as one YAML stream.
pub fn secrets(
    session: &str,
    needed: &Needed,
    prefix: &str,
    made: &SessionMaterials,
    values: &SecretValues,
) -> Result<String, RuntimeError> {
    let text = |map: &BTreeMap<String, String>| -> Files {
        map.iter().map(|(name, value)| (name.clone(), value.clone().into_bytes())).collect()
    };
    let agent = |java: bool| -> Files {
        let chosen = made.agent.iter().filter(|(name, _)| (name.as_str() == trust::JAVA) == java);
        chosen.map(|(name, bytes)| (name.clone(), bytes.clone())).collect()
    };
    let mut documents = Vec::new();
    for &part in &needed.parts {
        let files = match part {
            Part::Router => made.router.clone(),
            Part::Trust => agent(false),
            Part::Java => agent(true),
            Part::Surrogates => text(&made.variables),
            Part::Secrets => text(&values.plain.iter().map(|(n, v)| (n.clone(), v.expose().to_owned())).collect()),
        };
        let document = Document {
            metadata: ObjectMeta {
                name: Some(part.name(prefix)),
                labels: Some(BTreeMap::from([(SESSION_LABEL.to_owned(), session.to_owned())])),
                ..ObjectMeta::default()
            },
            data: Some(files.into_iter().map(|(name, bytes)| (name, ByteString(bytes))).collect()),
            ..Document::default()
        };
        documents.push(yaml::write(&document).map_err(RuntimeError::Host)?);
    }
    Ok(documents.join("---\n"))
}
