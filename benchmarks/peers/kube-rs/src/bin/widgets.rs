//! The Widget operator on kube-rs.

use std::sync::Arc;

use futures::StreamExt;
use k8s_openapi::api::core::v1::ConfigMap;
use k8s_openapi::apimachinery::pkg::apis::meta::v1::{Condition, ObjectMeta, Time};
use k8s_openapi::jiff::Timestamp;
use kube::api::{Patch, PatchParams};
use kube::runtime::controller::{Action, Controller};
use kube::runtime::watcher;
use kube::{Api, Client, CustomResource, Resource, ResourceExt};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_json::json;
use std::time::Duration;

const FIELD_MANAGER: &str = "widgets.bench.kubewright.dev";

/// The desired state of a Widget.
#[derive(CustomResource, Clone, Debug, Deserialize, Serialize, JsonSchema)]
#[kube(group = "bench.kubewright.dev", version = "v1", kind = "Widget", namespaced, status = "WidgetStatus")]
struct WidgetSpec {
    /// A message for the ConfigMap.
    message: String,
    /// A number for the ConfigMap.
    size: i32,
}

/// The observed state of a Widget.
#[derive(Clone, Debug, Default, Deserialize, Serialize, PartialEq, JsonSchema)]
#[serde(rename_all = "camelCase")]
struct WidgetStatus {
    /// The generation that the status describes.
    #[serde(skip_serializing_if = "Option::is_none")]
    observed_generation: Option<i64>,
    /// The name of the ConfigMap.
    #[serde(default)]
    config_map: String,
    /// Whether the ConfigMap matches the spec.
    #[serde(default)]
    conditions: Vec<Condition>,
}

struct Context {
    client: Client,
}

#[derive(Debug, thiserror::Error)]
enum Error {
    #[error("the API server refused: {0}")]
    Kube(#[from] kube::Error),
    #[error("the Widget has no namespace or uid")]
    Incomplete,
}

/// Maintains the ConfigMap of a Widget and reports it in the status.
async fn reconcile(widget: Arc<Widget>, ctx: Arc<Context>) -> Result<Action, Error> {
    let name = widget.name_any();
    let namespace = widget.namespace().ok_or(Error::Incomplete)?;
    let apply = PatchParams::apply(FIELD_MANAGER).force();

    let config_map = ConfigMap {
        metadata: ObjectMeta {
            name: Some(name.clone()),
            owner_references: Some(vec![widget.controller_owner_ref(&()).ok_or(Error::Incomplete)?]),
            ..ObjectMeta::default()
        },
        data: Some(
            [
                ("message".to_string(), widget.spec.message.clone()),
                ("size".to_string(), widget.spec.size.to_string()),
            ]
            .into(),
        ),
        ..ConfigMap::default()
    };
    Api::<ConfigMap>::namespaced(ctx.client.clone(), &namespace)
        .patch(&name, &apply, &Patch::Apply(&config_map))
        .await?;

    let status = status_of(&widget, name.clone());
    if widget.status.as_ref() != Some(&status) {
        let patch = json!({"apiVersion": Widget::api_version(&()), "kind": Widget::kind(&()), "status": status});
        Api::<Widget>::namespaced(ctx.client.clone(), &namespace)
            .patch_status(&name, &apply, &Patch::Apply(&patch))
            .await?;
    }
    Ok(Action::await_change())
}

fn status_of(widget: &Widget, config_map: String) -> WidgetStatus {
    let ready = widget.status.iter().flat_map(|status| &status.conditions).find(|each| each.type_ == "Ready");
    let since = ready.map_or_else(|| Time(Timestamp::now()), |each| each.last_transition_time.clone());
    WidgetStatus {
        observed_generation: widget.metadata.generation,
        config_map,
        conditions: vec![Condition {
            type_: "Ready".to_string(),
            status: "True".to_string(),
            reason: "ConfigMapUpToDate".to_string(),
            message: "the ConfigMap matches the spec".to_string(),
            observed_generation: widget.metadata.generation,
            last_transition_time: since,
        }],
    }
}

fn error_policy(_: Arc<Widget>, error: &Error, _: Arc<Context>) -> Action {
    tracing::warn!(%error, "reconcile failed");
    Action::requeue(Duration::from_secs(5))
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = Client::try_default().await?;
    Controller::new(Api::<Widget>::all(client.clone()), watcher::Config::default())
        .owns(Api::<ConfigMap>::all(client.clone()), watcher::Config::default())
        .shutdown_on_signal()
        .run(reconcile, error_policy, Arc::new(Context { client }))
        .for_each(|result| async move {
            match result {
                Ok((widget, _)) => tracing::debug!(%widget, "reconciled"),
                Err(error) => tracing::warn!(%error, "reconcile failed"),
            }
        })
        .await;
    Ok(())
}
