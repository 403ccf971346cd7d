//! The page in a headless browser, where there is one.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use axum::extract::{Request, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use serde_json::json;
use tokio::process::Command;

use crate::support::{HOUR, MS, Scene, job, patient};

/// The text of the element with this id, without markup.
fn text_of<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page
        .find(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("no {id} in {page}"));
    let rest = &page[start..];
    let rest = &rest[rest.find('>').unwrap() + 1..];
    &rest[..rest.find('<').unwrap()]
}

async fn look(browser: &OsStr, url: &str, more: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
        ])
        .args([
            "--disable-background-networking",
            "--no-first-run",
            "--virtual-time-budget=3000",
        ])
        .arg(format!("--user-data-dir={}", profile.path().display()))
        .args(more)
        .arg(url)
        .stderr(Stdio::null())
        .output();
    let output = tokio::time::timeout(90_000 * MS, output)
        .await
        .expect("a browser that ends");
    String::from_utf8_lossy(&output.unwrap().stdout).into_owned()
}

/// The browser, if there is one.
async fn browser() -> Option<OsString> {
    let browser = std::env::var_os("CHROMIUM").unwrap_or("chromium".into());
    let found = Command::new(&browser).arg("--version").output().await;
    if found.is_err() {
        eprintln!("SKIPPED: the page was not looked at, there is no `chromium` (or set CHROMIUM)");
    }
    found.is_ok().then_some(browser)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_jobs_ahead_nodes_and_partitions() {
    let Some(browser) = browser().await else {
        return;
    };
    let (mut scene, node) = Scene::served_with(patient).await;
    for _ in 0..1_234 {
        scene.create(job("x", HOUR)).await;
    }
    for second in 20..28 {
        scene.create(job("x", second * 1_000 * MS)).await;
    }
    tokio::time::sleep(400 * MS).await;
    let page = look(&browser, node.address(), &["--dump-dom"]).await;
    assert_eq!(text_of(&page, "pending").replace(',', ""), "1242", "{page}");
    assert_eq!(
        (text_of(&page, "alive"), text_of(&page, "free")),
        ("1", "0")
    );
    assert_eq!(text_of(&page, "lag"), "0 ms");
    assert_eq!(text_of(&page, "trouble"), "");
    assert_eq!(page.matches("<rect").count(), 30, "a bar for each second");
    assert!(
        page.matches("<title>1 within second").count() >= 7,
        "{page}"
    );
    assert!(page.contains(node.address()) && page.matches(" ms</td>").count() >= 8);

    let ids = scene.store.list(None, 1000).await.unwrap().jobs;
    assert!(page.contains(ids[0].id.as_str()) && page.contains("<button>fire now</button>"));
    assert_eq!(text_of(&page, "unconsumed"), "");
    scene.fill(4, MS).await;
    tokio::time::sleep(10_500 * MS).await;
    let page = look(&browser, node.address(), &["--dump-dom"]).await;
    assert!(
        text_of(&page, "unconsumed")
            .starts_with("Nobody takes from the queue default: 4 fired jobs"),
        "{page}"
    );

    scene.redis.kill().await.unwrap();
    let page = look(&browser, node.address(), &["--dump-dom"]).await;
    assert!(
        text_of(&page, "trouble").starts_with("No news: Redis is away"),
        "{page}"
    );
}

/// Shows the page in a frame of each width, and says what sticks out of it, or has no size to be pressed.
const FRAMES: &str = r#"<!DOCTYPE html><body><script>
const widths = [390, 700, 1200];
for (const width of widths) {
  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  frame.src = '/page' + location.hash;
  const judge = () => {
    const inner = frame.contentDocument;
    const seen = selector => [...inner.querySelectorAll(selector)].filter(one => one.checkVisibility());
    const buttons = seen('table button');
    const out = buttons.concat(seen('dialog[open] button, dialog[open] pre')).filter(one => {
      const box = one.getBoundingClientRect();
      return box.left < 0 || box.right > width || box.width < 20;
    });
    const said = document.body.appendChild(document.createElement('p'));
    said.id = `at${width}`;
    said.textContent = `${buttons.length} buttons, out: ${out.map(one => one.textContent)}, `
      + `cut: ${seen('#jobs td:first-child').filter(one => one.scrollWidth > one.clientWidth).length}, `
      + `wide: ${inner.documentElement.scrollWidth > width}, `
      + `cards: ${getComputedStyle(inner.querySelector('#jobs tr:last-child')).display}, `
      + `first: ${seen('#jobs tr:nth-child(2) td')[0].textContent === inner.querySelector('#jobs td').textContent}`;
  };
  const wait = () => {
    const inner = frame.contentDocument;
    const ready = inner && inner.querySelector('#jobs td') && inner.querySelector('#schedules td')
      && inner.querySelector('#queues td') && (!location.hash || inner.querySelector('#facts dd'));
    if (ready) judge(); else setTimeout(wait, 50);
  };
  wait();
}
</script></body>"#;

/// Passes a request on to the node, so that the frames are of the origin that judges them.
async fn pass(State(node): State<Arc<String>>, request: Request) -> Response {
    let path = request.uri().path_and_query().unwrap().as_str();
    let path = if path == "/page" { "/" } else { path };
    let answer = reqwest::get(format!("{node}{path}")).await.unwrap();
    let text = answer.text().await.unwrap();
    match path {
        "/" => Html(text).into_response(),
        _ => ([("content-type", "application/json")], text).into_response(),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn every_button_can_be_reached_at_each_width_and_a_job_is_shown_in_full() {
    let Some(browser) = browser().await else {
        return;
    };
    let (_scene, node) = Scene::served_with(patient).await;
    let long = format!("<b>{}</b>", "a long text ".repeat(60));
    let mut ids = Vec::new();
    for (queue, delay) in [("a-queue-with-quite-a-long-name", "2h"), ("default", "1h")] {
        let payload = json!({ "text": long, "list": [1, 2] });
        let body = json!({ "payload": payload, "delay": delay, "queue": queue });
        ids.push(node.post("/v1/jobs", body).await["id"].clone());
    }
    let schedule = json!({ "cron": "0 9 * * MON-FRI", "timezone": "America/Argentina/Buenos_Aires",
        "payload": { "text": long } });
    for name in ["a-schedule-with-a-name-that-is-long-too", "report"] {
        let (status, _) = node
            .ask("PUT", &format!("/v1/schedules/{name}"), &schedule)
            .await;
        assert_eq!(status, 201);
    }
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/", get(Html(FRAMES)))
        .fallback(pass)
        .with_state(Arc::new(node.address().to_owned()));
    tokio::spawn(axum::serve(listener, router).into_future());
    let id = ids[0].as_str().unwrap();
    for url in [url.clone(), format!("{url}#{id}")] {
        let page = look(&browser, &url, &["--dump-dom"]).await;
        for (id, cards) in [
            ("at390", "block"),
            ("at700", "table-row"),
            ("at1200", "table-row"),
        ] {
            let said = text_of(&page, id);
            // Four jobs with three buttons, two schedules with two, and two queues with one.
            let whole =
                format!("18 buttons, out: , cut: 0, wide: false, cards: {cards}, first: true");
            assert_eq!(said, whole, "{id}");
        }
    }
    // The detail of a job by its address: everything of it, as a text.
    let page = look(
        &browser,
        &format!("{}#{id}", node.address()),
        &["--dump-dom"],
    )
    .await;
    let payload = text_of(&page, "payload")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload, json!({ "text": long, "list": [1, 2] }));
    // What is due first is listed first, and schedules are there.
    let jobs = &page[page.find("id=\"jobs\"").unwrap()..];
    let place = |what: &str| jobs.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(place(ids[1].as_str().unwrap()) < place(id));
    assert!(place("cron America/Argentina/Buenos_Aires 0 9 * * 1-5") > place(id));
    // Paused elsewhere, shown here.
    node.post("/v1/queues/default/pause", "").await;
    let page = look(&browser, node.address(), &["--dump-dom"]).await;
    assert!(page.contains(">paused</td>") && page.contains("<button>resume</button>"));
}
