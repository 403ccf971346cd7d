//! How many references there are to what threads share. A model counts those of its other threads itself, because loom
//! does not see the counts of an `Arc`.

#[cfg(tickwheel_loom)]
pub(crate) use super::explored::references::count;

/// Returns how many references there are.
#[cfg(not(tickwheel_loom))]
pub(crate) fn count<T>(shared: &std::sync::Arc<T>) -> usize {
    std::sync::Arc::strong_count(shared)
}
