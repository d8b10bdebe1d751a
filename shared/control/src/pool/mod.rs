//! Pools: how they are defined, judged before they launch, shown and deleted.

mod define;
mod dry_run;
mod view;
