//! So many at a time, for each key. Who has a seat keeps it for as long as the seat lives: it is given back when a stream
//! ends, a call is answered, or the caller goes away.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;

#[derive(Default)]
pub(crate) struct Seats {
    /// Only keys that have a seat are here.
    taken: Mutex<HashMap<u64, u32>>,
}

pub(crate) struct Seat {
    seats: Arc<Seats>,
    key: u64,
}

impl Seats {
    /// One more, if there are fewer than `most`.
    pub(crate) fn take(seats: &Arc<Seats>, key: u64, most: u32) -> Option<Seat> {
        let mut taken = seats.taken.lock();
        let n = taken.entry(key).or_default();
        if *n >= most {
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
        let seats = Arc::<Seats>::default();
        let first = Seats::take(&seats, 1, 2).unwrap();
        let second = Seats::take(&seats, 1, 2).unwrap();
        assert!(Seats::take(&seats, 1, 2).is_none());
        assert!(Seats::take(&seats, 2, 2).is_some(), "another has its own");
        drop(first);
        let third = Seats::take(&seats, 1, 2).unwrap();
        drop((second, third));
        assert!(seats.taken.lock().is_empty(), "nobody is remembered who has none");
    }
}
