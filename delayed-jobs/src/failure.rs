//! Why a command ends without a result.

use crate::error::StoreError;

/// An end without a result.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error("{0}")]
    Options(String),
    #[error("{0}")]
    System(String),
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Self {
        match error {
            StoreError::Unfit(reason) => Self::Options(reason),
            error => Self::System(error.to_string()),
        }
    }
}

impl From<std::io::Error> for Failure {
    fn from(error: std::io::Error) -> Self {
        Self::System(error.to_string())
    }
}

impl From<tickwheel_loadtest::parts::Failure> for Failure {
    fn from(failure: tickwheel_loadtest::parts::Failure) -> Self {
        use tickwheel_loadtest::parts::Failure as Other;
        match failure {
            Other::Options(reason) | Other::Workload(reason) => Self::Options(reason),
            other => Self::System(other.to_string()),
        }
    }
}
