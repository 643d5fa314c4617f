//! Caches all Pods of a cluster in a store of kube-rs: see benchmarks/peers/__init__.py.

use std::collections::HashMap;
use std::future::ready;

use futures::StreamExt;
use k8s_openapi::api::core::v1::Pod;
use kube::runtime::reflector::{ObjectRef, Store};
use kube::runtime::{WatchStreamExt, reflector, watcher};
use kube::{Api, Client, ResourceExt};
use serde::Serialize;
use tokio::io::{AsyncBufReadExt, BufReader, stdin};

const NOTE: &str = "bench.kubewright.dev/note";

/// What the store knows about the Pods.
#[derive(Serialize)]
struct Answer<'a> {
    count: usize,
    pods: HashMap<&'a str, [String; 2]>,
}

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    tracing_subscriber::fmt().with_writer(std::io::stderr).init();
    let client = Client::try_default().await?;
    let (store, writer) = reflector::store();
    let pods = watcher(Api::<Pod>::all(client), watcher::Config::default())
        .default_backoff()
        .reflect(writer)
        .for_each(|event| {
            if let Err(error) = event {
                tracing::warn!(%error, "the watch failed");
            }
            ready(())
        });
    tokio::select! {
        () = pods => Ok(()),
        answered = answer(store) => answered,
    }
}

/// Reads lines of Pod names, and writes what the store holds.
async fn answer(store: Store<Pod>) -> anyhow::Result<()> {
    store.wait_until_ready().await?;
    let mut lines = BufReader::new(stdin()).lines();
    while let Some(line) = lines.next_line().await? {
        let pods = line.split_whitespace().filter_map(|name| {
            let pod = store.get(&ObjectRef::new(name).within("default"))?;
            let note = pod.annotations().get(NOTE).cloned().unwrap_or_default();
            Some((name, [pod.resource_version().unwrap_or_default(), note]))
        });
        let found = Answer { count: store.len(), pods: pods.collect() };
        println!("{}", serde_json::to_string(&found)?);
    }
    Ok(())
}
