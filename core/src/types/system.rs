//! `SystemError`: what the operating system said, in errors that can be cloned and compared.

use core::fmt;
use std::io;
use std::sync::Arc;

/// The operating system's reason, as [`StartError::Spawn`](crate::StartError::Spawn) and
/// [`BuildError::Waker`](crate::BuildError) keep it.
///
/// It dereferences to the [`io::Error`], and [`source`](std::error::Error::source) of the error around it returns that.
/// Two of them are equal if their kinds and texts are.
///
/// ```
/// use std::io::ErrorKind;
/// use tickwheel::{StartError, SystemError};
///
/// fn is_temporary(error: &StartError) -> bool {
///     match error {
///         StartError::Spawn { source, .. } => source.kind() == ErrorKind::WouldBlock,
///         _ => false,
///     }
/// }
/// let source = SystemError::from(std::io::Error::from(ErrorKind::WouldBlock));
/// assert_eq!(source.raw_os_error(), None);
/// assert!(!is_temporary(&StartError::Stopped));
/// ```
#[derive(Clone, Debug)]
pub struct SystemError(Arc<io::Error>);

impl From<io::Error> for SystemError {
    fn from(error: io::Error) -> Self {
        Self(Arc::new(error))
    }
}

impl core::ops::Deref for SystemError {
    type Target = io::Error;

    fn deref(&self) -> &io::Error {
        &self.0
    }
}

impl PartialEq for SystemError {
    fn eq(&self, other: &Self) -> bool {
        self.kind() == other.kind() && self.to_string() == other.to_string()
    }
}

impl Eq for SystemError {}

impl fmt::Display for SystemError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}
