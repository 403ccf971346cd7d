//! What all handlers share: the node, answers, pages of lists.

use std::sync::Arc;

use axum::extract::State;
use serde::{Deserialize, Serialize};
use serde_json::{Value, from_str, json};

use super::json::Json;
use super::request::Refusal;
use crate::node::Shared;
use crate::store::Page;

pub(super) type Shares = State<Arc<Shared>>;

pub(super) type Answer = Result<Json<Value>, Refusal>;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    pub(super) limit: Option<usize>,
    pub(super) from: Option<String>,
}

pub(super) fn limit(limit: Option<usize>) -> Result<usize, Refusal> {
    let limit = limit.unwrap_or(100);
    let fits = (1..=1000).contains(&limit);
    fits.then_some(limit)
        .ok_or_else(|| Refusal::bad("limit: use 1 to 1000"))
}

/// A job or schedule as JSON, its payload as it was given.
pub(super) fn shown(one: &impl Serialize) -> Value {
    let mut shown = json!(one);
    if let Some(text) = shown["payload"].as_str() {
        if let Ok(payload) = from_str(text) {
            shown["payload"] = payload;
        }
    }
    shown
}

pub(super) fn page_of(page: &Page) -> Json<Value> {
    let jobs: Vec<Value> = page.jobs.iter().map(shown).collect();
    Json(json!({ "jobs": jobs, "next": page.next }))
}
