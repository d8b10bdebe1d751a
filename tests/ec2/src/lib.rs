//! A fake EC2 for tests, what tests of the EC2 backend share, and nothing that a control plane would use.

pub mod fake;
pub mod ground;
pub mod moto;
pub mod samples;
pub mod stage;

pub use fake::{CallPoint, FakeEc2, FakeSettings, Lagged, Loss, Side, State};
pub use motorpool_tests::fakes::turned_clock::TurnedClock;
