//! Decides which requests come in: bearer tokens from a file, limits on what waits. Times each answer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::request::{Refusal, Refused};
use crate::node::Shared;
use crate::settings::lock;

/// Distance of looks at the file and at what waits.
const LOOK: Duration = Duration::from_secs(1);

/// Shortest token; a shorter one could be guessed.
const SHORTEST: usize = 16;

/// Pages that need no token: they hold nothing of the namespace.
const OPEN: [&str; 3] = ["/", "/healthz", "/openapi.json"];

/// The tokens of a file, read again when it changes.
pub(crate) struct Tokens {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

struct Known {
    /// Each with whether it may write.
    tokens: HashMap<String, bool>,
    changed: Option<SystemTime>,
    looked: Instant,
}

impl Tokens {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let known = Known {
            tokens: HashMap::new(),
            changed: None,
            looked: Instant::now(),
        };
        Self {
            file,
            known: Mutex::new(known),
        }
    }

    /// Reads the file if it has changed.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line of it is wrong: the tokens stay as they were.
    pub(super) fn load(&self) -> Result<(), String> {
        let Some(file) = &self.file else {
            return Ok(());
        };
        let wrong = |why: String| format!("{}: {why}", file.display());
        let mut known = lock(&self.known);
        known.looked = Instant::now();
        let changed = file.metadata().and_then(|data| data.modified()).ok();
        if known.changed != changed || changed.is_none() {
            known.changed = changed;
            let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
            known.tokens = parsed(&text).map_err(wrong)?;
        }
        Ok(())
    }

    fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.file.is_none() || (method == Method::GET && OPEN.contains(&path)) {
            return Ok(());
        }
        let looked = lock(&self.known).looked;
        if let Some(Err(error)) = (looked.elapsed() >= LOOK).then(|| self.load()) {
            tracing::error!("the tokens stay as they were: {error}");
        }
        let given = headers
            .get(header::AUTHORIZATION)
            .and_then(|value| value.to_str().ok());
        let token = given.and_then(|text| text.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // The map's keyed hash keeps the time of a look-up from telling how much of a token is right.
        let access =
            token.and_then(|(_, token)| lock(&self.known).tokens.get(token.trim()).copied());
        let (status, code, reason) = match access {
            None => (
                StatusCode::UNAUTHORIZED,
                "unauthorized",
                "this needs a header `Authorization: Bearer TOKEN` with a token that is known",
            ),
            Some(false) if method != Method::GET => (
                StatusCode::FORBIDDEN,
                "forbidden",
                "this token may only read",
            ),
            Some(_) => return Ok(()),
        };
        Err(Refusal::new(status, code, reason))
    }
}

fn parsed(text: &str) -> Result<HashMap<String, bool>, String> {
    let mut tokens = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        match line.split_whitespace().collect::<Vec<_>>()[..] {
            [word @ ("read" | "write"), token] if token.len() >= SHORTEST => {
                tokens.insert(token.to_owned(), word == "write");
            }
            [first, ..] if !first.starts_with('#') => {
                // The line itself is not shown: it may hold a token.
                let (number, form) = (number + 1, "`read TOKEN` or `write TOKEN`");
                return Err(format!(
                    "line {number} is not {form} of {SHORTEST} bytes or more"
                ));
            }
            _ => {}
        }
    }
    Ok(tokens)
}

/// Lets a request in, and times its answer.
pub(super) async fn guard(
    State(shared): State<Arc<Shared>>,
    path: Option<MatchedPath>,
    request: Request,
    next: Next,
) -> Response {
    let (started, method) = (Instant::now(), request.method().clone());
    let route = path.map_or_else(|| "other".to_owned(), |path| path.as_str().to_owned());
    let allowed = shared
        .tokens
        .check(&method, request.uri().path(), request.headers());
    let response = match allowed {
        Ok(()) => next.run(request).await,
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

/// What waits, as it was counted last.
pub(crate) type Fill = Mutex<Counted>;

#[derive(Clone, Copy, Default)]
pub(crate) struct Counted {
    pending: u64,
    unread: u64,
    /// Jobs that this node had accepted by then.
    accepted: u64,
}

/// Counts again and again, for as long as the node runs.
pub(crate) async fn watch_fill(shared: Arc<Shared>) {
    loop {
        // Read first: a job that is accepted meanwhile counts twice and not never.
        let accepted = shared.metrics.accepted.get();
        if let Ok(now) = shared.store.overview().await {
            *lock(&shared.fill) = Counted {
                pending: now.pending,
                unread: now.unread,
                accepted,
            };
        }
        tokio::time::sleep(LOOK).await;
    }
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
    if let Some(most) = settings.max_unread.filter(|&most| counted.unread >= most) {
        let unread = counted.unread;
        let reason = format!("{unread} fired jobs wait for a consumer; at most {most} may");
        return Err(too_many("too_many_unread", reason));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wrong_line_of_the_tokens_is_named_and_not_shown() {
        let text = "# who\nread 0123456789abcdef\n\n write  fedcba9876543210\n";
        let tokens = parsed(text).unwrap();
        assert!(!tokens["0123456789abcdef"] && tokens["fedcba9876543210"]);
        for wrong in [
            "write short",
            "0123456789abcdef",
            "all 0123456789abcdef",
            "read 0123456789 abcdef",
        ] {
            let said = parsed(&format!("\n{wrong}")).unwrap_err();
            assert!(said.contains("line 2") && !said.contains(wrong), "{said}");
        }
    }
}
