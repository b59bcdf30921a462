//! So many at a time, for each key. Who has a seat keeps it for as long as the seat lives: it is given back when a stream
//! ends, a call is answered, or the caller goes away.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

pub(crate) struct Seats {
    most: u32,
    /// Only keys that have a seat are here.
    taken: Mutex<HashMap<u64, u32>>,
}

pub(crate) struct Seat {
    seats: Arc<Seats>,
    key: u64,
}

impl Seats {
    pub(crate) fn new(most: u32) -> Seats {
        Seats { most, taken: Mutex::default() }
    }

    pub(crate) fn most(&self) -> u32 {
        self.most
    }

    pub(crate) fn take(seats: &Arc<Seats>, key: u64) -> Option<Seat> {
        let mut taken = seats.taken.lock();
        let n = taken.entry(key).or_default();
        if *n >= seats.most {
            return None;
        }
        *n += 1;
        Some(Seat { seats: seats.clone(), key })
    }
}

impl Drop for Seat {
    fn drop(&mut self) {
        let mut taken = self.seats.taken.lock();
        if let Some(n) = taken.get_mut(&self.key) {
            *n -= 1;
            if *n == 0 {
                taken.remove(&self.key);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_seat_is_given_back_when_it_is_dropped() {
        let seats = Arc::new(Seats::new(2));
        let first = Seats::take(&seats, 1).unwrap();
        let second = Seats::take(&seats, 1).unwrap();
        assert!(Seats::take(&seats, 1).is_none());
        assert!(Seats::take(&seats, 2).is_some(), "another has its own");
        drop(first);
        let third = Seats::take(&seats, 1).unwrap();
        drop((second, third));
        assert!(seats.taken.lock().is_empty(), "nobody is remembered who has none");
    }
}
