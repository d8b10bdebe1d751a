//! The host's generation of a VM: how many times it was set going, by a boot or by a load of a snapshot's memory. It is noted before the VM is, so
//! that no two lives of a VM have the same number; numbers may be left out.

use serde::{Deserialize, Serialize};

use crate::directory::{Directory, GENERATION};
use crate::error::Error;
use crate::names::{OperationId, SnapshotName};

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Generation {
    /// Zero: it was never started.
    pub number: u64,
    /// The operation that began it; none: it was just started.
    pub by: Option<OperationId>,
    pub entry: Entry,
}

/// How the VM came to be as it is.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Entry {
    #[default]
    Boot,
    Load(SnapshotName),
}

impl Generation {
    pub(crate) fn read(directory: &Directory) -> Result<Self, Error> {
        Ok(directory.read(GENERATION)?.unwrap_or_default())
    }

    /// The next one, on disk when it returns.
    pub(crate) fn begin(directory: &Directory, by: Option<OperationId>, entry: Entry) -> Result<Self, Error> {
        let number = Self::read(directory)?.number.saturating_add(1);
        let next = Self { number, by, entry };
        directory.write(GENERATION, &next)?;
        Ok(next)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn inv_28_each_life_of_a_vm_has_a_number_of_its_own() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::at(root.path().to_owned());
        assert_eq!(Generation::read(&directory).unwrap(), Generation::default());
        let load = Entry::Load("mp-1".parse().unwrap());
        let by: OperationId = "t-1".parse().unwrap();
        assert_eq!(Generation::begin(&directory, None, Entry::Boot).unwrap().number, 1);
        let second = Generation::begin(&directory, Some(by), load).unwrap();
        assert_eq!((second.number, Generation::read(&directory).unwrap()), (2, second.clone()));
    }

    /// A counter that cannot be read must not begin again at one.
    #[test]
    fn a_broken_counter_starts_nothing() {
        let root = tempfile::tempdir().unwrap();
        let directory = Directory::at(root.path().to_owned());
        std::fs::write(directory.file(GENERATION), "").unwrap();
        assert!(Generation::begin(&directory, None, Entry::Boot).is_err());
    }
}
