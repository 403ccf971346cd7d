//! What all handlers share: the node, answers, how long lists are.

use std::sync::Arc;

use axum::extract::State;
use serde::Deserialize;
use serde_json::Value;

use super::json::Json;
use super::request::Refusal;
use crate::node::Shared;

pub(super) type Shares = State<Arc<Shared>>;

pub(super) type Answer<T = Value> = Result<Json<T>, Refusal>;

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
