//! Claims: how one is opened, given runners, brought further, read and released.

mod draft;
mod end;
mod fairness;
mod gather;
mod open;
mod provision;
mod read;
mod reconcile;
mod release;
mod take_idle;
mod take_one;
mod take_starting;
mod view;

pub(crate) use draft::Draft;
pub(crate) use gather::{Filled, Waits};
pub(crate) use reconcile::ClaimNow;
