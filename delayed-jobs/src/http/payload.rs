//! Reads payloads: any JSON, kept as the text that it came as, without the space between its parts.

use std::fmt;

use axum::http::StatusCode;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use super::request::Refusal;

/// Longest payload, as JSON text.
pub(super) const PAYLOAD: usize = 64 * 1024;

/// Deepest payload: readers of JSON take few more levels than a hundred, and answers put some around it.
const LEVELS: usize = 100;

/// Returns the text of a payload; one that is left out is `null`.
pub(super) fn payload(given: Option<Box<RawValue>>) -> Result<String, Refusal> {
    let text = given.map_or_else(|| "null".into(), Box::<str>::from);
    let text = without_space(text.into());
    if text.len() > PAYLOAD {
        let bytes = text.len();
        let reason = format!("the payload has {bytes} bytes; at most {PAYLOAD} are possible");
        return Err(Refusal::body(StatusCode::PAYLOAD_TOO_LARGE, reason));
    }
    let read = Inner(LEVELS).deserialize(&mut serde_json::Deserializer::from_str(&text));
    read.map_err(|error| Refusal::bad(format!("payload: {error}")))?;
    Ok(text)
}

/// Removes the space between the parts of a JSON text, so that a request is the same whatever space it came with.
fn without_space(mut text: String) -> String {
    let (mut in_text, mut is_escaped) = (false, false);
    text.retain(|c| {
        if in_text {
            in_text = is_escaped || c != '"';
            is_escaped = !is_escaped && c == '\\';
            return true;
        }
        in_text = c == '"';
        !c.is_ascii_whitespace()
    });
    text.shrink_to_fit();
    text
}

/// Reads a value to its end and keeps nothing. Refuses what a consumer cannot read: more levels than these, numbers that
/// are no doubles, and halves of characters.
#[derive(Clone, Copy)]
struct Inner(usize);

impl Inner {
    /// What lies in an array or an object.
    fn inner<E: Error>(self) -> Result<Self, E> {
        let levels = self.0.checked_sub(1);
        let too_deep = || E::custom(format!("too deep; at most {LEVELS} levels are possible"));
        levels.map(Self).ok_or_else(too_deep)
    }
}

impl<'de> DeserializeSeed<'de> for Inner {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, from: D) -> Result<(), D::Error> {
        from.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Inner {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON")
    }

    fn visit_unit<E: Error>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_bool<E: Error>(self, _: bool) -> Result<(), E> {
        Ok(())
    }

    fn visit_i64<E: Error>(self, _: i64) -> Result<(), E> {
        Ok(())
    }

    fn visit_u64<E: Error>(self, _: u64) -> Result<(), E> {
        Ok(())
    }

    fn visit_f64<E: Error>(self, _: f64) -> Result<(), E> {
        Ok(())
    }

    fn visit_str<E: Error>(self, _: &str) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while values.next_element_seed(inner)?.is_some() {}
        Ok(())
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<(), A::Error> {
        let inner = self.inner()?;
        while fields.next_key::<IgnoredAny>()?.is_some() {
            fields.next_value_seed(inner)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> Result<String, Refusal> {
        payload(Some(serde_json::from_str(text).unwrap()))
    }

    #[test]
    fn a_payload_keeps_all_but_the_space_between_its_parts() {
        for (text, kept) in [
            ("  7 ", "7"),
            ("0.30000000000000004", "0.30000000000000004"),
            ("-0", "-0"),
            ("1.0E+2", "1.0E+2"),
            (
                "123456789012345678901234567890",
                "123456789012345678901234567890",
            ),
            (r#"" a \\\" b\\ " "#, r#"" a \\\" b\\ ""#),
            (
                "\n{ \"b\" : 1,\t\"a\": \" \u{a0}\" , \"a\":[ ] }",
                "{\"b\":1,\"a\":\" \u{a0}\",\"a\":[]}",
            ),
        ] {
            assert_eq!(read(text).unwrap(), kept);
        }
        assert_eq!(payload(None).unwrap(), "null");
    }

    #[test]
    fn what_a_consumer_cannot_read_is_refused() {
        let deep = |levels: usize| "[".repeat(levels) + &"]".repeat(levels);
        read(&deep(LEVELS)).unwrap();
        for wrong in [
            &*deep(LEVELS + 1),
            &deep(50_000),
            r#""\ud800""#,
            r#"{"\udc00": 1}"#,
            "1e400",
        ] {
            assert!(read(wrong).is_err(), "{wrong:.40}");
        }
    }
}
