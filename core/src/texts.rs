//! Macros for the texts of errors and for debug output.

/// Implements `Display` and `Error` for an enum, with one text per variant: what went wrong, which values are allowed,
/// and the cure. An enum that keeps the error behind it names the function that returns it.
#[doc(hidden)]
#[macro_export]
macro_rules! error_texts {
    ($error:ident $(, source = $source:path;)? $($(#[$attribute:meta])* $variant:pat => $text:literal,)+) => {
        impl core::fmt::Display for $error {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                match self {
                    $($(#[$attribute])* $variant => write!(f, $text),)+
                }
            }
        }

        impl core::error::Error for $error {
            $(fn source(&self) -> Option<&(dyn core::error::Error + 'static)> {
                $source(self)
            })?
        }
    };
}

/// Implements `Debug` with the values that a reader wants to see, for a type with any payload.
#[doc(hidden)]
#[macro_export]
macro_rules! debug_fields {
    ([$($generics:tt)*] $type:ty, $name:expr, $this:ident $(, $field:ident: $value:expr)*) => {
        impl<$($generics)*> core::fmt::Debug for $type {
            fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
                let $this = self;
                f.debug_struct($name)$(.field(stringify!($field), &$value))*.finish_non_exhaustive()
            }
        }
    };
}
