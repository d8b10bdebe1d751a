//! Whose a machine is that the provider lists.

use super::Runner;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Whose<'a> {
    Known,
    Nobodys,
    /// Two control planes launched one intent, and the other's answer was noted.
    Doubled {
        provider_id: &'a str,
    },
}

/// Whose the machine `provider_id` is, beside the record that it says it belongs to. A record that names no machine may be of any: the answer to its
/// launch is not noted yet, or was lost.
pub fn whose<'a>(provider_id: &str, record: Option<&'a Runner>) -> Whose<'a> {
    let Some(runner) = record.filter(|runner| runner.state.name().live()) else { return Whose::Nobodys };
    match runner.provider_id.as_deref() {
        Some(known) if known != provider_id => Whose::Doubled { provider_id: known },
        Some(_) | None => Whose::Known,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::runner::RunnerState;
    use crate::runner::launching::samples::runner;

    #[test]
    fn inv_16_a_machine_is_of_its_record_unless_that_is_ended_or_names_another() {
        let intent = runner(0, 1, false);
        let launched = |by: &str| Runner { provider_id: Some(by.to_owned()), ..intent.clone() };
        assert_eq!(whose("a", None), Whose::Nobodys);
        assert_eq!(whose("a", Some(&intent)), Whose::Known);
        assert_eq!(whose("a", Some(&launched("a"))), Whose::Known);
        assert_eq!(whose("a", Some(&launched("b"))), Whose::Doubled { provider_id: "b" });
        let ended = RunnerState::Terminated { why: "its time was over".to_owned() };
        assert_eq!(whose("a", Some(&Runner { state: ended, ..launched("b") })), Whose::Nobodys);
    }
}
