//! Decides which requests come in: tokens, sites, kinds of bodies, limits on what waits. Times each answer, and answers
//! late ones itself.

use std::sync::Arc;
use std::time::Instant;

use axum::extract::{MatchedPath, Request, State};
use axum::http::{Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use tickwheel_util::time;

use super::deliveries::LONGEST_WAIT;
use super::origin::{check_kind, check_site};
use super::request::{Reading, Refusal, Refused};
use crate::access::Access;
use crate::node::Shared;
use crate::units::lock;

/// Pages that need no token: they hold nothing of the namespace.
const OPEN: [&str; 4] = ["/", "/healthz", "/readyz", "/openapi.json"];

/// Refuses a request that is not for this node, or whose token does not allow it.
fn check(shared: &Shared, request: &Request) -> Result<(), Refusal> {
    let reads = [Method::GET, Method::HEAD].contains(request.method());
    if reads && OPEN.contains(&request.uri().path()) {
        return Ok(());
    }
    let settings = shared.store.settings();
    if settings.tokens.is_none() {
        check_site(&settings.hosts, request)?;
        return check_kind(request);
    }
    let given = request
        .headers()
        .get(header::AUTHORIZATION)
        .and_then(|value| value.to_str().ok());
    let token = given.and_then(|text| text.split_once(' '));
    let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    let access = shared.tokens.access(token.map(|(_, token)| token));
    let (status, code, reason) = match access {
        None => (
            StatusCode::UNAUTHORIZED,
            "unauthorized",
            "this needs a header `Authorization: Bearer TOKEN` with a token that is known",
        ),
        Some(Access::Read) if !reads => (
            StatusCode::FORBIDDEN,
            "forbidden",
            "this token may only read",
        ),
        Some(_) => return check_kind(request),
    };
    Err(Refusal::new(status, code, reason))
}

/// Answers a request that has taken too long: its client has not sent all of it, or Redis is slow.
fn late(reading: &Reading) -> Refusal {
    if reading.is_under_way() {
        let reason = "the rest of the request has not come in time";
        return Refusal::new(StatusCode::REQUEST_TIMEOUT, "request_timeout", reason);
    }
    let reason = "this takes too long; it may have been carried out, in whole or in part";
    Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "too_slow", reason)
}

/// Lets a request in, and times its answer.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    path: Option<MatchedPath>,
    mut request: Request,
    next: Next,
) -> Response {
    let (started, method) = (Instant::now(), request.method().clone());
    let route = path.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
    let allowed = check(&shared, &request);
    let response = match allowed {
        Ok(()) => {
            let reading = Reading::default();
            request.extensions_mut().insert(reading.clone());
            let mut limit = shared.store.settings().request_timeout;
            if route == "/v1/deliveries" {
                limit = limit.saturating_add(LONGEST_WAIT);
            }
            let answer = time::timeout(limit, next.run(request)).await;
            answer.unwrap_or_else(|_| late(&reading).into_response())
        }
        Err(refusal) => refusal.into_response(),
    };
    if response.extensions().get::<Refused>().is_some() {
        Refusal::count(response.status(), &shared.metrics);
    }
    shared.metrics.answered(
        &method,
        route,
        response.status().as_u16(),
        started.elapsed(),
    );
    response
}

/// Refuses `more` jobs for which there is no room.
pub(super) fn room(shared: &Shared, more: u64) -> Result<(), Refusal> {
    let settings = shared.store.settings();
    let too_many = |code, reason| Refusal::new(StatusCode::TOO_MANY_REQUESTS, code, reason);
    let counted = *lock(&shared.fill);
    let since = shared
        .metrics
        .accepted
        .get()
        .saturating_sub(counted.accepted);
    let pending = counted.pending.saturating_add(since);
    if let Some(most) = settings
        .max_pending
        .filter(|&most| pending.saturating_add(more) > most)
    {
        let reason = format!("{pending} jobs are pending, and at most {most} may be");
        return Err(too_many("too_many_pending", reason));
    }
    if let Some(most) = settings.max_waiting.filter(|&most| counted.waiting >= most) {
        let waiting = counted.waiting;
        let reason = format!("{waiting} jobs wait for a consumer; at most {most} may");
        return Err(too_many("too_many_waiting", reason));
    }
    Ok(())
}
