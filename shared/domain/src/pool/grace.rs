//! Whether a pool's grace is long enough for a control plane that refreshes as often as this one does.

use super::Limits;
use std::time::Duration;

impl Limits {
    /// What is wrong, in words. At its threshold an idle runner may be let stay: refresh decides that in its next pass, and the agent hears
    /// of it with its next heartbeat. If its grace is over by then, a healthy machine has ended itself. Nothing that can't hold: a warning.
    pub fn short_grace(&self, refresh: Duration) -> Option<String> {
        let heard_within = self.heard_within(refresh);
        let seconds = |span: Duration| span.as_secs();
        (self.grace <= heard_within).then(|| {
            format!(
                "grace_seconds is {}, but a refresh (every {} s) and a heartbeat (every {} s) may take {3} s together: an idle runner \
                 that is to stay could end itself before it hears so; raise grace_seconds above {3}, or refresh more often",
                seconds(self.grace),
                seconds(refresh),
                seconds(self.heartbeat),
                seconds(heard_within),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_grace_that_a_refresh_and_a_heartbeat_can_outlast_is_named() {
        let limits = |heartbeat, grace| Limits {
            heartbeat: Duration::from_secs(heartbeat),
            grace: Duration::from_secs(grace),
            ..Limits::default()
        };
        let refresh = Duration::from_secs;
        assert_eq!(Limits::default().short_grace(refresh(30)), None, "the defaults are far from it");
        assert_eq!(limits(60, 121).short_grace(refresh(60)), None);
        assert!(limits(60, 120).short_grace(refresh(60)).is_some(), "the very edge may be too late");
        let why = limits(60, 90).short_grace(refresh(120)).unwrap();
        for said in ["grace_seconds is 90", "every 120 s", "every 60 s", "above 180"] {
            assert!(why.contains(said), "{said:?} is not in {why}");
        }
    }
}
