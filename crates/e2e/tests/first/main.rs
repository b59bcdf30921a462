//! The first minutes of a new user: the tour's crash, the first screen, the operator's first commands, the image.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "tests fail by panicking")]

mod image;
mod listen;
mod program;
mod screen;
mod tasks;
mod tour;
