//! The page in a headless browser, where there is one.

use std::ffi::{OsStr, OsString};
use std::process::Stdio;
use std::sync::Arc;

use axum::Router;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request, State};
use axum::response::{Html, IntoResponse, Response};
use axum::routing::get;
use delayed_jobs::{Limits, Rate};
use serde_json::json;
use tokio::process::Command;

use crate::support::{Api, HOUR, MS, Scene, job, patient, say, until};

/// The text of the element with this id, without markup.
fn text_of<'a>(page: &'a str, id: &str) -> &'a str {
    let start = page
        .find(&format!("id=\"{id}\""))
        .unwrap_or_else(|| panic!("no {id} in {page}"));
    let rest = &page[start..];
    let rest = &rest[rest.find('>').unwrap() + 1..];
    &rest[..rest.find('<').unwrap()]
}

/// Returns the page as it is after so many seconds of its own time, which stands while it waits for answers.
async fn look(browser: &OsStr, url: &str, seconds: u32, more: &[&str]) -> String {
    let profile = tempfile::tempdir().unwrap();
    let output = Command::new(browser)
        .args([
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-quic",
        ])
        .args([
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-sync",
        ])
        .args([
            "--disable-background-networking",
            "--disable-component-update",
        ])
        .arg("--dump-dom")
        .arg(format!("--virtual-time-budget={}", seconds * 1_000))
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
async fn the_page_shows_counts_nodes_and_what_was_done() {
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
    until("the node has said where it listens", async || {
        let nodes = scene.store.overview().await.unwrap().nodes;
        nodes.iter().any(|one| one.address == node.address())
    })
    .await;
    let page = look(&browser, node.address(), 3, &[]).await;
    let numbers = |page: &str| {
        ["pending", "waiting", "running", "dead", "alive", "free"]
            .map(|id| text_of(page, id).to_owned())
    };
    assert_eq!(numbers(&page), ["1,242", "0", "0", "0", "1", "0"], "{page}");
    assert_eq!(
        (text_of(&page, "lag"), text_of(&page, "trouble")),
        ("0 ms", "")
    );
    // A bar for each second ahead, and for each 10 s of ten minutes what was fired, failed, and late.
    assert_eq!(page.matches("<rect").count(), 30 + 3 * 60);
    assert!(
        page.matches("<title>1 job within second").count() >= 7,
        "{page}"
    );
    assert_eq!(text_of(&page, "fired-said"), "0 jobs in 10 min");
    assert!(page.contains(node.address()));
    let ids = scene.store.list(None, 1000).await.unwrap().jobs;
    assert!(page.contains(ids[0].id.as_str()) && page.contains(">fire now</button>"));
    assert_eq!(
        (text_of(&page, "unconsumed"), text_of(&page, "lost")),
        ("", "")
    );

    // What nobody has taken is not handed out; what a consumer holds is.
    scene.fill(4, MS).await;
    until("all have fired", async || {
        scene.store.overview().await.unwrap().waiting == 4
    })
    .await;
    let mut receipts = Vec::new();
    for _ in 0..2 {
        let taken = node.post("/v1/deliveries?wait=5s&hold=1h", "").await;
        receipts.push(taken["deliveries"][0]["receipt"].clone());
    }
    let nack = json!({ "receipts": [receipts[0]], "delay": "1h" });
    node.post("/v1/deliveries/nack", nack).await;
    until("the node has said what it did", async || {
        let past = scene.store.overview().await.unwrap().past;
        past.iter().map(|one| one.failed).sum::<u64>() == 1
    })
    .await;
    let page = look(&browser, node.address(), 3, &[]).await;
    assert_eq!(numbers(&page), ["1,243", "2", "1", "0", "1", "0"]);
    let row = ["default", "1,243", "2", "1", "–", "open"].map(|text| format!(">{text}</td>"));
    let queues = &page[page.find("id=\"queues\"").unwrap()..page.find("id=\"at-jobs\"").unwrap()];
    let mut rest = queues;
    for cell in row {
        rest = &rest[rest
            .find(&cell)
            .unwrap_or_else(|| panic!("no {cell} in {queues}"))..];
    }
    assert_eq!(text_of(&page, "fired-said"), "4 jobs in 10 min");
    assert_eq!(text_of(&page, "failed-said"), "1 attempt in 10 min");
    assert!(page.contains("<title>1 attempt failed "), "{page}");

    scene
        .store
        .set_limits(&"mail".parse().unwrap(), &limits())
        .await
        .unwrap();
    node.post("/v1/jobs", json!({ "queue": "mail" })).await;
    tokio::time::sleep(10_500 * MS).await;
    let page = look(&browser, node.address(), 3, &[]).await;
    let said = text_of(&page, "unconsumed");
    let one = "Nobody takes from the queue mail: 1 job waits for a consumer, for more than 10 s.";
    assert_eq!(
        said, one,
        "two jobs of the other queue are handed out or wait"
    );
    assert!(page.contains(">5 at a time, 100 per min</td>"), "{page}");

    let _: String = say(&scene.redis, "FLUSHALL").await;
    until("the node has found Redis empty", async || {
        let now = scene.store.overview().await;
        now.is_ok_and(|now| now.lost_ms.is_some())
    })
    .await;
    let page = look(&browser, node.address(), 3, &[]).await;
    let said = text_of(&page, "lost");
    assert!(said.starts_with("Redis was found empty at 20"), "{said}");

    scene.redis.kill().await.unwrap();
    let page = look(&browser, node.address(), 3, &[]).await;
    assert!(
        text_of(&page, "trouble").starts_with("No news: Redis is away"),
        "{page}"
    );
}

/// Five jobs at a time, 100 per minute.
fn limits() -> Limits {
    Limits {
        concurrency: Some(5),
        rate: Some(Rate {
            jobs: 100,
            per: 60_000 * MS,
        }),
    }
}

/// Shows the page in a frame of each width, and says what is wrong there.
const FRAMES: &str = r#"<!DOCTYPE html><body><script>
const widths = [390, 1024, 1600];
// How a colour, given as `rgb(..)`, stands out: the relative luminance of WCAG.
const light = colour => {
  const [r, g, b] = colour.match(/[\d.]+/g).slice(0, 3).map(one => {
    const part = one / 255;
    return part <= 0.04045 ? part / 12.92 : ((part + 0.055) / 1.055) ** 2.4;
  });
  return 0.2126 * r + 0.7152 * g + 0.0722 * b;
};
const ground = one => {
  const colour = getComputedStyle(one).backgroundColor;
  return colour === 'rgba(0, 0, 0, 0)' && one.parentElement ? ground(one.parentElement) : colour;
};
const contrast = one => {
  const [a, b] = [light(getComputedStyle(one).color), light(ground(one))].sort((x, y) => y - x);
  return (a + 0.05) / (b + 0.05);
};
for (const width of widths) {
  const frame = document.body.appendChild(document.createElement('iframe'));
  frame.style.cssText = `width: ${width}px; height: 900px; border: 0`;
  frame.src = '/page' + location.hash;
  const judge = () => {
    const inner = frame.contentDocument;
    const seen = selector => [...inner.querySelectorAll(selector)].filter(one => one.checkVisibility());
    const buttons = seen('table button');
    const out = buttons.concat(seen('dialog[open] button, dialog[open] pre, table input, nav a')).filter(one => {
      const box = one.getBoundingClientRect();
      return box.left < 0 || box.right > width || box.width < 18 || box.height < 18;
    });
    const own = one => [...one.childNodes].some(node => node.nodeType === 3 && node.data.trim());
    const pale = seen('body *').filter(one => own(one) && !one.disabled && contrast(one) < 4.5);
    const named = one => one.textContent.trim() || one.getAttribute('aria-label') || (one.labels || []).length;
    const nameless = seen('button, a, input, select, svg, table').filter(
      one => !named(one) && !one.getAttribute('aria-labelledby'));
    const cut = seen('#jobs td:nth-child(2), #schedules td:nth-child(2), #queues td')
      .filter(one => one.scrollWidth > one.clientWidth);
    const payload = Math.min(...seen('#jobs td.payload').map(one => one.clientWidth));
    const times = seen('td, dd, #said').filter(one => /(^|\s)\d\d?:\d\d/.test(one.textContent) && !one.matches('.payload'));
    const odd = times.filter(one => !/(^|as of )\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d\d:\d\d$/.test(one.textContent));
    const said = document.body.appendChild(document.createElement('p'));
    said.id = `at${width}`;
    said.textContent = `${buttons.length} buttons, out: ${out.map(one => one.textContent)}, cut: ${cut.length}, `
      + `wide: ${inner.documentElement.scrollWidth > width}, narrow payload: ${payload < 150}, `
      + `cards: ${getComputedStyle(inner.querySelector('#jobs tbody tr')).display}, pale: ${pale.map(one => one.id
        || one.textContent)}, nameless: ${nameless.map(one => one.id || one.className)}, times: ${times.length > 3}, `
      + `odd: ${odd.map(one => one.textContent)}, dark: ${inner.defaultView.matchMedia('(prefers-color-scheme: dark)').matches}`;
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
    let path = request.uri().path_and_query().unwrap().to_string();
    let path = if path == "/page" { "/" } else { &path };
    let method = request.method().clone();
    let body = Bytes::from_request(request, &()).await.unwrap();
    let asked = reqwest::Client::new().request(method, format!("{node}{path}"));
    let asked = asked.header("content-type", "application/json");
    let answer = asked.body(body).send().await.unwrap();
    let status = answer.status();
    let text = answer.text().await.unwrap();
    match path {
        "/" => Html(text).into_response(),
        _ => (status, [("content-type", "application/json")], text).into_response(),
    }
}

/// Serves a page that has the node's page in frames, and says where.
async fn framed(page: &'static str, node: &Api) -> String {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let router = Router::new()
        .route("/", get(Html(page)))
        .fallback(pass)
        .with_state(Arc::new(node.address().to_owned()));
    tokio::spawn(axum::serve(listener, router).into_future());
    url
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
        let body = json!({ "payload": payload, "delay": delay, "queue": queue, "priority": 7 });
        ids.push(node.post("/v1/jobs", body).await["id"].clone());
    }
    let schedule = json!({ "cron": "0 9 * * MON-FRI", "timezone": "America/Argentina/Buenos_Aires",
        "payload": { "text": long } });
    for (name, schedule) in [
        ("a-schedule-with-a-name-that-is-long-too", &schedule),
        ("often", &json!({ "every": "90m" })),
    ] {
        let (status, _) = node
            .ask("PUT", &format!("/v1/schedules/{name}"), schedule)
            .await;
        assert_eq!(status, 201);
    }
    let url = framed(FRAMES, &node).await;
    let id = ids[0].as_str().unwrap();
    for (url, dark) in [
        (url.clone(), false),
        (format!("{url}#{id}"), false),
        (format!("{url}#{id}"), true),
    ] {
        let scheme = format!("--blink-settings=preferredColorScheme={}", u8::from(!dark));
        let page = look(&browser, &url, 3, &[&scheme]).await;
        for (id, cards) in [
            ("at390", "block"),
            ("at1024", "table-row"),
            ("at1600", "table-row"),
        ] {
            let said = text_of(&page, id);
            // Two jobs and two schedules with two buttons each, and two queues with one.
            let whole = format!(
                "10 buttons, out: , cut: 0, wide: false, narrow payload: false, cards: {cards}, \
                 pale: , nameless: , times: true, odd: , dark: {dark}"
            );
            assert_eq!(said, whole, "{id}");
        }
    }
    // The detail of a job by its address: everything of it, as a text.
    let page = look(&browser, &format!("{}#{id}", node.address()), 3, &[]).await;
    let payload = text_of(&page, "payload")
        .replace("&lt;", "<")
        .replace("&gt;", ">");
    let payload: serde_json::Value = serde_json::from_str(&payload).unwrap();
    assert_eq!(payload, json!({ "text": long, "list": [1, 2] }));
    assert!(page.contains("<dt>priority</dt><dd>7</dd>"), "{page}");
    // What is due first is listed first, and schedules are there, with their times as people say them.
    let jobs = &page[page.find("id=\"jobs\"").unwrap()..];
    let place = |what: &str| jobs.find(what).unwrap_or_else(|| panic!("no {what}"));
    assert!(place(ids[1].as_str().unwrap()) < place(id));
    assert!(place("0 9 * * 1-5 (America/Argentina/Buenos_Aires)") > place(id));
    assert!(place("every 1 h 30 min") > place(id));
    // Paused elsewhere, shown here.
    node.post("/v1/queues/default/pause", "").await;
    let page = look(&browser, node.address(), 3, &[]).await;
    assert!(page.contains(">paused</td>") && page.contains(">resume</button>"));
}

/// Uses the page as an operator does, step by step, and writes down what it shows after each.
const OPERATOR: &str = r#"<!DOCTYPE html><body><iframe src="/page" style="width: 390px; height: 844px"></iframe><script>
const frame = document.querySelector('iframe');
const note = (id, text) => {
  const said = document.body.appendChild(document.createElement('p'));
  said.id = id;
  said.textContent = text;
};
const make = (delay, more) => fetch('/v1/jobs', { method: 'POST', body: JSON.stringify({ delay, ...more }) });
onload = async () => {
  const inner = frame.contentDocument;
  frame.contentWindow.confirm = () => true;
  const at = id => inner.getElementById(id);
  const rows = () => [...inner.querySelectorAll('#jobs tbody tr')];
  const press = name => [...inner.querySelectorAll('#bulk button')].find(one => one.textContent === name).click();
  const until = async is => { while (!is()) await new Promise(done => setTimeout(done, 50)); };
  await until(() => rows().length > 0);
  note('first', `${rows().length}, more: ${!at('more').hidden}`);
  // A phone reaches the schedules by one tap, and the list before them is short.
  note('links', [...inner.querySelectorAll('nav a')].map(one => Boolean(at(one.hash.slice(1)))).join());
  const kept = rows()[3];
  rows()[3].querySelector('input').click();
  // The list hears of a job that was made elsewhere, and what is chosen stays.
  await make('10m', { idempotency_key: 'early' });
  await until(() => rows()[0].dataset.key !== kept.dataset.key && rows()[4] === kept);
  note('fresh', `${rows().length}, chosen: ${kept.querySelector('input').checked}`);
  at('all').click();
  press('cancel 10');
  await until(() => at('outcome').textContent);
  note('cancelled', `${at('outcome').textContent}, left: ${rows().length}, bulk: ${!at('all').checked}`);
  for (const state of ['waiting', 'running']) {
    at('state').value = state;
    at('search').requestSubmit();
    await until(() => rows().length === 1 && rows()[0].textContent.includes(state));
    rows()[0].querySelector('input').click();
    press('cancel 1');
    await until(() => rows().length === 0);
    note(state, at('outcome').textContent);
  }
  at('state').value = 'dead';
  at('search').requestSubmit();
  await until(() => rows().some(one => one.textContent.includes('no stock')));
  rows()[0].querySelector('input').click();
  press('requeue 1');
  await until(() => at('outcome').textContent.startsWith('requeue'));
  note('requeued', `${at('outcome').textContent}, left: ${rows().length}`);
  press('purge all dead');
  await until(() => at('outcome').textContent.startsWith('purge'));
  note('purged', `${at('outcome').textContent}, left: ${rows().length}`);
  at('after').value = '6:35 PM';
  at('search').requestSubmit();
  note('refused', at('outcome').textContent);
};
</script></body>"#;

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_chooses_jobs_and_sees_the_list_change() {
    let Some(browser) = browser().await else {
        return;
    };
    let (_scene, node) = Scene::served_with(patient).await;
    let jobs: Vec<_> = (0..15)
        .map(|n| json!({ "delay": format!("{}m", 60 + n) }))
        .collect();
    node.post("/v1/jobs/batch", json!({ "jobs": jobs })).await;
    for _ in 0..3 {
        node.post("/v1/jobs", json!({ "queue": "poison" })).await;
        let taken = node.take("&queue=poison").await;
        let nack = json!({ "receipts": [taken[0]["receipt"]], "dead": true, "reason": "no stock" });
        node.post("/v1/deliveries/nack", nack).await;
    }
    // One that a consumer holds, and one that none has taken.
    for hold in [true, false] {
        let made = node.post("/v1/jobs", json!({ "queue": "mail" })).await;
        until("it waits", async || {
            node.has_state(&made["id"], "waiting").await
        })
        .await;
        if hold {
            node.take("&queue=mail&hold=1h").await;
        }
    }
    let url = framed(OPERATOR, &node).await;
    let page = look(&browser, &url, 60, &[]).await;
    for (id, text) in [
        ("first", "10, more: true"),
        ("links", "true,true,true,true,true"),
        ("fresh", "10, chosen: true"),
        ("cancelled", "cancel: 10 jobs, left: 6, bulk: true"),
        ("waiting", "cancel: 1 job"),
        ("running", "cancel: 1 job"),
        ("requeued", "requeue: 1 job, left: 2"),
        ("purged", "purge all dead: 2 jobs, left: 0"),
        ("refused", "6:35 PM is not a time like 2026-11-27 18:35"),
    ] {
        assert_eq!(text_of(&page, id), text, "{id}");
    }
}
