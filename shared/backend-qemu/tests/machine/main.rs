//! Real machines: a small guest in QEMU is given snapshots, used, and taken back, live and cold, also by drivers that are killed on the way. Run by
//! `cargo xtask vm qemu`, which names the guest in the environment.
#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    reason = "a test that cannot go on ends here"
)]

mod bench;
mod guest;
mod killed;
mod life;
mod rollback;
