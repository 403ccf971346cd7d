//! Keeps other sites out. A browser sends whatever a page asks for, to any address that it can reach, so a node without
//! tokens looks at where a request comes from: its `Origin` is the page's site, and its `Host` is what the page called
//! this node, which may be a foreign name that leads here since (DNS rebinding). No foreign page has a token, so a node
//! with tokens looks at neither.

use std::net::{IpAddr, SocketAddr};

use axum::body::HttpBody;
use axum::extract::Request;
use axum::http::header::{CONTENT_TYPE, HOST, HeaderName, ORIGIN};
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};

use super::request::Refusal;
use crate::settings::Settings;

/// Refuses to serve everybody on a network by mistake.
///
/// # Errors
///
/// The address is not of this machine alone, and there are neither tokens nor the setting that does without.
pub(crate) fn check_address(settings: &Settings, address: SocketAddr) -> Result<(), String> {
    let is_private = address.ip().to_canonical().is_loopback();
    if is_private || settings.tokens.is_some() || settings.without_tokens {
        return Ok(());
    }
    Err(format!(
        "{address} is not of this machine alone: give tokens (`tokens`), or say `without_tokens` where everybody who \
         reaches it may do everything"
    ))
}

/// Refuses a request that a page of another site may have sent. `hosts` are further names of this node.
pub(super) fn check_site(hosts: &[String], request: &Request) -> Result<(), Refusal> {
    let headers = request.headers();
    // A target of the form `http://name/path` names a host, too.
    let named = request.uri().authority();
    let host = only(headers, &HOST).and_then(authority);
    let known = |name: &Authority| is_known(hosts, name);
    let is_own = |named: &Authority| authority(named.as_str()).is_some_and(|name| known(&name));
    let Some(host) = host.filter(|host| known(host) && named.is_none_or(is_own)) else {
        return Err(forbidden(
            "the header `Host` does not name this node: use its address or localhost, name it in its setting `hosts`, \
             or give it tokens",
        ));
    };
    if !headers.contains_key(ORIGIN) {
        return Ok(());
    }
    let origin = only(headers, &ORIGIN).and_then(|text| {
        let site = text.strip_prefix("https://");
        authority(site.or_else(|| text.strip_prefix("http://"))?)
    });
    let is_own = |origin: Authority| origin == host || is_named(hosts, &origin);
    if origin.is_some_and(is_own) {
        return Ok(());
    }
    Err(forbidden(
        "the header `Origin` is of another site: name it in the node's setting `hosts`, or give the node tokens",
    ))
}

fn forbidden(reason: &str) -> Refusal {
    Refusal::new(StatusCode::FORBIDDEN, "forbidden", reason)
}

/// The value of a header that comes once.
fn only<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut values = headers.get_all(name).iter();
    let value = values.next()?;
    value.to_str().ok().filter(|_| values.next().is_none())
}

/// A name or an address, perhaps with a port. It compares without regard to case.
fn authority(text: &str) -> Option<Authority> {
    let name: Authority = text.parse().ok()?;
    // Nothing but a port may stand beside the name.
    let port = text.strip_prefix(name.host())?;
    let number = port.strip_prefix(':').map(str::parse::<u16>);
    let is_plain = number.map_or(port.is_empty(), |number| number.is_ok());
    is_plain.then_some(name)
}

/// Whether a name can only be this node's: no foreign site can have an address, or `localhost`, as its name.
fn is_known(hosts: &[String], name: &Authority) -> bool {
    let host = name.host();
    let address = host
        .strip_prefix('[')
        .and_then(|host| host.strip_suffix(']'));
    let is_address = address.unwrap_or(host).parse::<IpAddr>().is_ok();
    is_address || host.eq_ignore_ascii_case("localhost") || is_named(hosts, name)
}

fn is_named(hosts: &[String], name: &Authority) -> bool {
    hosts
        .iter()
        .any(|one| one.eq_ignore_ascii_case(name.host()))
}

/// Refuses a body that is not said to be JSON: a browser sends a text or a form without asking first.
pub(super) fn check_kind(request: &Request) -> Result<(), Refusal> {
    if [Method::GET, Method::HEAD].contains(request.method()) {
        return Ok(());
    }
    let kinds = request.headers().get_all(CONTENT_TYPE);
    let is_json = kinds.iter().all(|kind| {
        let kind = kind.to_str().unwrap_or("");
        let kind = kind.split(';').next().unwrap_or("").trim();
        kind.eq_ignore_ascii_case("application/json")
    });
    let is_named = request.headers().contains_key(CONTENT_TYPE);
    if is_json && (is_named || request.body().is_end_stream()) {
        return Ok(());
    }
    let reason = "a body needs the header `Content-Type: application/json` (with curl: --json in place of -d)";
    Err(Refusal::new(
        StatusCode::UNSUPPORTED_MEDIA_TYPE,
        "unsupported_media_type",
        reason,
    ))
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    fn request(target: &str, headers: &[(&str, &str)]) -> Request {
        let mut request = Request::builder().method("POST").uri(target);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(Body::empty()).unwrap()
    }

    #[test]
    fn a_host_is_an_address_or_localhost_or_named() {
        let hosts = ["jobs.example.org".to_owned()];
        let fits = |host: &str| check_site(&hosts, &request("/", &[("host", host)])).is_ok();
        for host in [
            "localhost",
            "LocalHost:8080",
            "127.0.0.1:8080",
            "10.0.0.7",
            "[::1]:8080",
            "[::1]",
            "Jobs.example.org:80",
        ] {
            assert!(fits(host), "{host}");
        }
        for host in [
            "",
            "evil.com",
            "evil.com:8080",
            "localhost.evil.com",
            "127.0.0.1.evil.com",
            "evil.com@localhost",
            "x@127.0.0.1:8080",
            "localhost:80:80",
            "[::1].evil.com",
            "[evil.com]",
            "jobs.example.org.evil.com",
            "localhost evil.com",
            "localhost,evil.com",
            "localhost/evil.com",
            "2130706433",
        ] {
            assert!(!fits(host), "{host}");
        }
    }

    #[test]
    fn a_host_comes_once_and_a_target_that_names_one_counts_too() {
        let fits = |target: &str, headers: &[_]| check_site(&[], &request(target, headers)).is_ok();
        let (own, evil) = (("host", "localhost:1"), ("host", "evil.com"));
        assert!(fits("/", &[own]));
        assert!(!fits("/", &[]));
        assert!(!fits("/", &[own, own]));
        assert!(!fits("/", &[own, evil]) && !fits("/", &[evil, own]));
        assert!(fits("http://localhost:1/", &[own]));
        assert!(!fits("http://evil.com/", &[own]));
        assert!(!fits("http://localhost:1/", &[evil]));
        assert!(!fits("http://localhost:1/", &[]));
    }

    #[test]
    fn an_origin_is_this_node_or_named() {
        let hosts = ["jobs.example.org".to_owned()];
        let fits = |origins: &[&str]| {
            let mut headers = vec![("host", "localhost:8080")];
            headers.extend(origins.iter().map(|origin| ("origin", *origin)));
            check_site(&hosts, &request("/", &headers)).is_ok()
        };
        for origin in [
            "http://localhost:8080",
            "https://localhost:8080",
            "https://jobs.example.org",
            "https://jobs.example.org:8443",
        ] {
            assert!(fits(&[origin]), "{origin}");
        }
        for origin in [
            "null",
            "",
            "localhost:8080",
            "http://localhost",
            "http://localhost:3000",
            "http://127.0.0.1:8080",
            "https://evil.com",
            "http://localhost:8080.evil.com",
            "http://localhost:8080@evil.com",
            "http://localhost:8080/",
            "file://",
            "chrome-extension://localhost:8080",
        ] {
            assert!(!fits(&[origin]), "{origin}");
        }
        assert!(!fits(&["http://localhost:8080", "http://localhost:8080"]));
        assert!(!fits(&["http://localhost:8080", "https://evil.com"]));
    }

    #[test]
    fn a_body_is_json() {
        let fits = |kinds: &[&str], body: &'static str| {
            let headers: Vec<_> = kinds.iter().map(|kind| ("content-type", *kind)).collect();
            let mut request = request("/", &headers);
            *request.body_mut() = Body::from(body);
            check_kind(&request).is_ok()
        };
        let json = "application/json";
        assert!(fits(&[json], "{}") && fits(&[], "") && fits(&[json], ""));
        assert!(fits(&["Application/JSON; charset=utf-8"], "{}"));
        for kind in [
            "text/plain",
            "text/plain; application/json",
            "application/x-www-form-urlencoded",
            "multipart/form-data; boundary=application/json",
            "application/jsonp",
            "",
        ] {
            assert!(!fits(&[kind], "{}") && !fits(&[kind], ""), "{kind}");
        }
        assert!(!fits(&[], "{}") && !fits(&[json, "text/plain"], "{}"));
    }

    #[test]
    fn an_address_of_a_network_needs_tokens() {
        let check = |address: &str, change: fn(&mut Settings)| {
            let mut settings = Settings::default();
            change(&mut settings);
            check_address(&settings, address.parse().unwrap()).is_ok()
        };
        for address in [
            "127.0.0.1:1",
            "127.9.9.9:1",
            "[::1]:1",
            "[::ffff:127.0.0.1]:1",
        ] {
            assert!(check(address, |_| {}), "{address}");
        }
        for address in ["0.0.0.0:1", "[::]:1", "10.0.0.1:1", "[::ffff:10.0.0.1]:1"] {
            assert!(!check(address, |_| {}), "{address}");
            assert!(check(address, |settings| settings.without_tokens = true));
            assert!(check(address, |settings| settings.tokens = Some("x".into())));
        }
    }
}
