//! Decides which requests come in: bearer tokens from a file, limits on what waits. Times each answer.

use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant, SystemTime};

use axum::extract::{MatchedPath, Request, State};
use axum::http::{HeaderMap, Method, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::refusal::Refusal;
use crate::node::Shared;

/// Distance of looks at the file and at what waits.
const LOOK: Duration = Duration::from_secs(1);

/// Shortest token; a shorter one could be guessed.
const SHORTEST: usize = 16;

/// Pages that need no token: they hold nothing of the namespace.
const OPEN: [&str; 3] = ["/", "/healthz", "/openapi.json"];

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Read,
    Write,
}

/// The tokens of a file, read again when it changes.
pub(crate) struct Tokens {
    file: Option<PathBuf>,
    known: Mutex<Known>,
}

struct Known {
    tokens: HashMap<String, Access>,
    changed: Option<SystemTime>,
    looked: Instant,
}

impl Tokens {
    pub(crate) fn new(file: Option<PathBuf>) -> Self {
        let known = Known { tokens: HashMap::new(), changed: None, looked: Instant::now() };
        Self { file, known: Mutex::new(known) }
    }

    fn known(&self) -> MutexGuard<'_, Known> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Reads the file.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or a line of it is wrong.
    pub(super) fn load(&self) -> Result<(), String> {
        let Some(file) = &self.file else { return Ok(()) };
        let wrong = |why: String| format!("{}: {why}", file.display());
        let changed = file.metadata().and_then(|data| data.modified()).ok();
        let text = std::fs::read_to_string(file).map_err(|error| wrong(error.to_string()))?;
        let tokens = parsed(&text).map_err(wrong)?;
        *self.known() = Known { tokens, changed, looked: Instant::now() };
        Ok(())
    }

    fn load_if_changed(&self) {
        let Some(file) = &self.file else { return };
        let mut known = self.known();
        if known.looked.elapsed() < LOOK {
            return;
        }
        known.looked = Instant::now();
        let changed = file.metadata().and_then(|data| data.modified()).ok();
        let same = known.changed == changed;
        known.changed = changed;
        drop(known);
        if same {
            return;
        }
        if let Err(error) = self.load() {
            tracing::error!("the tokens stay as they were: {error}");
        }
    }

    fn check(&self, method: &Method, path: &str, headers: &HeaderMap) -> Result<(), Refusal> {
        if self.file.is_none() || (method == Method::GET && OPEN.contains(&path)) {
            return Ok(());
        }
        self.load_if_changed();
        let given = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
        let token = given.and_then(|text| text.split_once(' '));
        let token = token.filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
        // The map's keyed hash keeps the time of a look-up from telling how much of a token is right.
        let access = token.and_then(|(_, token)| self.known().tokens.get(token.trim()).copied());
        match access {
            None => Err(Refusal::no_token()),
            Some(Access::Read) if method != Method::GET => Err(Refusal::only_reads()),
            Some(_) => Ok(()),
        }
    }
}

fn parsed(text: &str) -> Result<HashMap<String, Access>, String> {
    let mut tokens = HashMap::new();
    for (number, line) in text.lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let access = match line.split_once(char::is_whitespace) {
            Some(("read", token)) => Some((token, Access::Read)),
            Some(("write", token)) => Some((token, Access::Write)),
            _ => None,
        };
        // The line itself is not shown: it may hold a token.
        let (token, access) = access
            .map(|(token, access)| (token.trim(), access))
            .filter(|(token, _)| token.len() >= SHORTEST && !token.contains(char::is_whitespace))
            .ok_or_else(|| {
                let (number, least) = (number + 1, SHORTEST);
                format!(
                    "line {number} is not `read TOKEN` or `write TOKEN` of {least} bytes or more"
                )
            })?;
        tokens.insert(token.to_owned(), access);
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
    let allowed = shared.tokens.check(&method, request.uri().path(), request.headers());
    let response = match allowed {
        Ok(()) => next.run(request).await,
        Err(refusal) => refusal.into_response(),
    };
    shared.metrics.answered(&method, route, response.status().as_u16(), started.elapsed());
    response
}

/// What waits, as it was counted last.
#[derive(Default)]
pub(crate) struct Fill {
    counted: Mutex<Counted>,
}

#[derive(Clone, Copy, Default)]
struct Counted {
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
            let counted = Counted { pending: now.pending, unread: now.unread, accepted };
            *shared.fill.counted.lock().unwrap_or_else(PoisonError::into_inner) = counted;
        }
        tokio::time::sleep(LOOK).await;
    }
}

/// Refuses `more` jobs for which there is no room.
pub(super) fn room(shared: &Shared, more: u64) -> Result<(), Refusal> {
    let settings = shared.store.settings();
    let counted = *shared.fill.counted.lock().unwrap_or_else(PoisonError::into_inner);
    let since = shared.metrics.accepted.get().saturating_sub(counted.accepted);
    let pending = counted.pending.saturating_add(since);
    if let Some(most) = settings.max_pending.filter(|&most| pending.saturating_add(more) > most) {
        let reason = format!("{pending} jobs are pending, and at most {most} may be");
        return Err(Refusal::too_many("too_many_pending", reason));
    }
    if let Some(most) = settings.max_unread.filter(|&most| counted.unread >= most) {
        let unread = counted.unread;
        let reason = format!("{unread} fired jobs wait for a consumer; at most {most} may");
        return Err(Refusal::too_many("too_many_unread", reason));
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
        assert_eq!(tokens["0123456789abcdef"], Access::Read);
        assert_eq!(tokens["fedcba9876543210"], Access::Write);
        for wrong in
            ["write short", "0123456789abcdef", "all 0123456789abcdef", "read 0123456789 abcdef"]
        {
            let said = parsed(&format!("\n{wrong}")).unwrap_err();
            assert!(said.contains("line 2") && !said.contains(wrong), "{said}");
        }
    }
}
