//! A memory budget in bytes, shared by many holders.
//!
//! A [`MemoryBudget`] is a number of bytes; a [`MemoryShare`] is the part of it that one holder has taken. A share
//! grows with its holder and is returned when it is dropped, so that no exit from a function can leak it. A budget
//! never waits: a holder that does not get the bytes it asks for refuses its caller with a time to retry.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Bytes that several holders share.
#[derive(Debug)]
pub struct MemoryBudget {
    most: usize,
    held: AtomicUsize,
}

impl MemoryBudget {
    pub fn new(most: usize) -> Arc<MemoryBudget> {
        Arc::new(MemoryBudget { most, held: AtomicUsize::new(0) })
    }

    /// A new, empty share.
    pub fn share(self: &Arc<Self>) -> MemoryShare {
        MemoryShare { budget: self.clone(), bytes: 0 }
    }

    pub fn most(&self) -> usize {
        self.most
    }

    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }

    /// The whole budget is taken.
    pub fn is_spent(&self) -> bool {
        self.held() >= self.most
    }

    /// More than half of the budget is taken.
    pub fn is_pressed(&self) -> bool {
        self.held() > self.most / 2
    }

    fn take(&self, bytes: usize) -> bool {
        let fits = |held: usize| held.checked_add(bytes).filter(|sum| *sum <= self.most);
        self.held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, fits).is_ok()
    }
}

/// The part of a budget that one holder has taken.
#[derive(Debug)]
pub struct MemoryShare {
    budget: Arc<MemoryBudget>,
    bytes: usize,
}

impl MemoryShare {
    /// Takes `bytes` more. Returns false and leaves the share unchanged if the budget has fewer left.
    #[must_use]
    pub fn grow(&mut self, bytes: usize) -> bool {
        let taken = self.budget.take(bytes);
        if taken {
            self.bytes += bytes;
        }
        taken
    }

    /// Like [`MemoryShare::grow`], but a holder that has the whole budget to itself may exceed it: a request larger
    /// than the budget could otherwise never be served.
    #[must_use]
    pub fn grow_alone(&mut self, bytes: usize) -> bool {
        let alone = self.budget.held() <= self.bytes;
        if !alone {
            return self.grow(bytes);
        }
        self.set(self.bytes.saturating_add(bytes));
        true
    }

    /// Counts exactly `bytes`, even beyond the budget: they are allocated already.
    pub fn set(&mut self, bytes: usize) {
        if bytes <= self.bytes {
            return self.shrink_to(bytes);
        }
        self.budget.held.fetch_add(bytes - self.bytes, Ordering::Relaxed);
        self.bytes = bytes;
    }

    /// Returns everything beyond `bytes`.
    pub fn shrink_to(&mut self, bytes: usize) {
        let surplus = self.bytes.saturating_sub(bytes);
        self.bytes -= surplus;
        self.budget.held.fetch_sub(surplus, Ordering::Relaxed);
    }

    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for MemoryShare {
    fn drop(&mut self) {
        self.shrink_to(0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_together_never_have_more_than_the_budget() {
        let budget = MemoryBudget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.grow(60) && other.grow(40));
        assert!(!other.grow(1), "there is nothing left");
        assert_eq!((one.bytes(), other.bytes(), budget.held()), (60, 40, 100), "a refusal changes nothing");
        assert!(!one.grow(usize::MAX), "a number that cannot be added is refused");
        one.shrink_to(10);
        assert!(other.grow(50) && !other.grow(1));
        drop(other);
        assert_eq!(budget.held(), 10);
        drop(one);
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn a_budget_is_pressed_above_its_half() {
        let budget = MemoryBudget::new(100);
        let mut share = budget.share();
        assert!(share.grow(50) && !budget.is_pressed());
        assert!(share.grow(1) && budget.is_pressed());
    }

    #[test]
    fn what_is_there_is_counted_and_what_is_alone_may_be_larger() {
        let budget = MemoryBudget::new(100);
        let (mut one, mut other) = (budget.share(), budget.share());
        assert!(one.grow_alone(150) && budget.is_spent(), "no other share is held");
        assert!(!other.grow_alone(1) && one.grow_alone(1), "the other share is not alone; the first still is");
        one.set(30);
        assert!(other.grow_alone(70) && !other.grow_alone(1));
        other.set(90);
        assert_eq!((one.bytes(), other.bytes(), budget.held()), (30, 90, 120), "what is there is counted");
        drop((one, other));
        assert_eq!(budget.held(), 0);
    }

    #[test]
    fn threads_that_take_and_return_leave_nothing_behind() {
        let budget = MemoryBudget::new(1_000);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for bytes in 0..1_000 {
                        let mut share = budget.share();
                        let _ = share.grow(bytes);
                        assert!(budget.held() <= budget.most());
                    }
                });
            }
        });
        assert_eq!(budget.held(), 0);
    }
}
