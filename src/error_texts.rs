//! The texts of errors: what went wrong, which values are allowed, and the cure.

/// Implements `Display` and `Error` for an enum, with one text per variant.
macro_rules! error_texts {
    ($error:ident $($(#[$attribute:meta])* $variant:pat => $text:literal,)+) => {
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($(#[$attribute])* $variant => write!(f, $text),)+
                }
            }
        }

        impl core::error::Error for $error {}
    };
}
