//! What the tests share, in three rooms: suites that are run against more than one thing, fakes that stand in for something, and
//! the harness that starts real things and looks at them. The tests themselves are in `tests/`.

pub mod fakes;
pub mod harness;
pub mod suites;
