//! How often a use case takes up anew what others change at the same time, before it says so.

use crate::error::Refused;

const MOST: u32 = 16;

/// One loop over a record that others write as well.
#[derive(Debug)]
pub(crate) struct Tries {
    left: u32,
}

impl Tries {
    pub(crate) fn new() -> Self {
        Self { left: MOST }
    }

    /// Once more, unless it was tried too often. `what` is the record.
    pub(crate) fn again(&mut self, what: impl FnOnce() -> String) -> Result<(), Refused> {
        self.left = self.left.checked_sub(1).ok_or_else(|| Refused::contended(&what()))?;
        Ok(())
    }
}
