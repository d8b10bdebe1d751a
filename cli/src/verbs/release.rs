//! `release`: give back what a workflow holds.

use motorpool_wire::api::{ClaimView, ReleaseRequest};

use crate::args::ReleaseArgs;
use crate::client::Client;
use crate::errors::Failure;
use crate::output::Report;

pub(crate) async fn run(args: ReleaseArgs) -> Result<Report, Failure> {
    let ReleaseArgs { connect, workflow, pool, owner } = args;
    let request = ReleaseRequest { workflow, pool, owner };
    Ok(Report::of(Client::new(&connect)?.release(&request).await?, in_words))
}

fn in_words(claim: &ClaimView) -> String {
    let mut text = format!(
        "claim {} of workflow {} on pool {} is {}",
        claim.claim, claim.workflow, claim.pool, claim.state
    );
    if !claim.why.is_empty() {
        text.push_str(&format!(": {}", claim.why));
    }
    if !claim.also.is_empty() {
        let also: Vec<String> = claim.also.iter().map(ToString::to_string).collect();
        text.push_str(&format!("\nalso ended: {}", also.join(", ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use motorpool_domain::ClaimId;

    #[test]
    fn a_release_names_all_that_it_ended() {
        let mut claim = crate::verbs::claims::tests::claim("released", 0);
        claim.why = "its owner released it".to_owned();
        claim.also = vec![ClaimId::parse("c-def").unwrap()];
        assert_eq!(
            in_words(&claim),
            "claim c-abc of workflow gh-1 on pool small is released: its owner released it\n\
             also ended: c-def"
        );
    }
}
