//! Tests of what only this store has: trouble with the disk, the lock, the file.
