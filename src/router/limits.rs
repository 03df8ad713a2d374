//! What a router accepts at once. Beyond a limit, the newest is refused, and nothing else is affected.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// A limited number of things that may be held at once.
#[derive(Clone, Debug)]
pub struct Budget(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    used: AtomicUsize,
    most: usize,
}

/// A held share; released when dropped.
#[derive(Debug)]
pub struct Held {
    budget: Budget,
    count: usize,
}

impl Budget {
    /// A limit.
    pub fn new(most: u32) -> Self {
        let most = usize::try_from(most).unwrap_or(usize::MAX);
        Self(Arc::new(Inner { used: AtomicUsize::new(0), most }))
    }

    /// Takes some, if available.
    pub fn take(&self, count: usize) -> Option<Held> {
        let fits = |used: usize| used.checked_add(count).filter(|sum| *sum <= self.0.most);
        self.0.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).ok()?;
        Some(Held { budget: self.clone(), count })
    }

    /// How many are held.
    pub fn used(&self) -> usize {
        self.0.used.load(Ordering::Relaxed)
    }
}

impl Held {
    /// Takes more, if available.
    pub fn grow(&mut self, to: usize) -> bool {
        let Some(mut more) = self.budget.take(to.saturating_sub(self.count)) else { return false };
        self.count += std::mem::take(&mut more.count);
        true
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        self.budget.0.used.fetch_sub(self.count, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_dropped_is_free_again_and_no_more_is_given_than_there_is() {
        let budget = Budget::new(10);
        let mut held = budget.take(4).unwrap();
        assert!(budget.take(7).is_none());
        let other = budget.take(6).unwrap();
        assert!(!held.grow(5) && budget.used() == 10);
        drop(other);
        assert!(held.grow(10) && budget.used() == 10);
        drop(held);
        assert_eq!(budget.used(), 0);
    }
}
