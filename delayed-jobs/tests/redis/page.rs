//! The page in a headless browser, where there is one.

use std::ffi::OsStr;
use std::process::Stdio;

use tokio::process::Command;

use crate::support::{HOUR, MS, Scene, job};

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

#[tokio::test(flavor = "multi_thread")]
async fn the_page_shows_jobs_ahead_nodes_and_partitions() {
    let browser = std::env::var_os("CHROMIUM").unwrap_or("chromium".into());
    if Command::new(&browser)
        .arg("--version")
        .output()
        .await
        .is_err()
    {
        eprintln!("SKIPPED: the page was not looked at, there is no `chromium` (or set CHROMIUM)");
        return;
    }
    let (mut scene, node) = Scene::served().await;
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
        text_of(&page, "unconsumed").starts_with("Nobody consumes: 4 fired jobs"),
        "{page}"
    );

    scene.redis.kill().await.unwrap();
    let page = look(&browser, node.address(), &["--dump-dom"]).await;
    assert!(
        text_of(&page, "trouble").starts_with("No news: Redis is away"),
        "{page}"
    );
}
