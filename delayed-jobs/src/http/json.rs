//! JSON as this interface writes and reads it.

use std::fmt;
use std::marker::PhantomData;

use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use serde::de::value::MapAccessDeserializer;
use serde::de::{Error, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize};

/// Most jobs to be made, receipts, or ids of one request.
pub(super) const MOST: usize = 1000;

/// An answer of JSON.
pub(super) struct Json<T>(pub(super) T);

impl<T: Serialize> IntoResponse for Json<T> {
    fn into_response(self) -> Response {
        match serde_json::to_vec(&self.0) {
            Ok(text) => ([(header::CONTENT_TYPE, "application/json")], text).into_response(),
            Err(error) => (StatusCode::INTERNAL_SERVER_ERROR, error.to_string()).into_response(),
        }
    }
}

/// Reads a field that can be left out. It refuses `null`: a client that has no value by mistake would get what those get
/// who leave the field out, such as a job that is due now.
pub(super) fn given<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    T::deserialize(from).map(Some)
}

/// A value with named fields. What serde derives would read a list as well, its first value as the first field.
pub(super) struct Object<T>(pub(super) T);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Object<T> {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_map(Fields(PhantomData))
    }
}

struct Fields<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Fields<T> {
    type Value = Object<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(self, fields: A) -> Result<Object<T>, A::Error> {
        T::deserialize(MapAccessDeserializer::new(fields)).map(Object)
    }
}

/// Reads an object that can be left out, and refuses `null`.
pub(super) fn given_object<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Option<T>, D::Error> {
    Object::deserialize(from).map(|Object(value)| Some(value))
}

/// Reads a list of 1 to [`MOST`], and no further: a body has room for far more short ones.
pub(super) fn many<'de, D: Deserializer<'de>, T: Deserialize<'de>>(
    from: D,
) -> Result<Vec<T>, D::Error> {
    from.deserialize_seq(Many(PhantomData))
}

struct Many<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Many<T> {
    type Value = Vec<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a list of 1 to {MOST}")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut values: A) -> Result<Vec<T>, A::Error> {
        let mut read = Vec::new();
        while let Some(value) = values.next_element()? {
            if read.len() == MOST {
                return Err(A::Error::custom(format!(
                    "too many in a list; use 1 to {MOST}"
                )));
            }
            read.push(value);
        }
        match read.is_empty() {
            true => Err(A::Error::custom(format!("an empty list; use 1 to {MOST}"))),
            false => Ok(read),
        }
    }
}
