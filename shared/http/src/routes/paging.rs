//! Pages of lists: how long, and from where.

use crate::envelope::Refusal;
use motorpool_control::Page;

const USUAL: u32 = 100;
const LONGEST: u32 = 500;

pub(super) fn page(limit: Option<u32>, after: Option<String>) -> Result<Page, Refusal> {
    let at_most = limit.unwrap_or(USUAL);
    if !(1..=LONGEST).contains(&at_most) {
        return Err(Refusal::invalid(
            format!("limit must be 1 to {LONGEST}, and is {at_most}"),
            "ask for the rest with after, as the answer's next says",
        ));
    }
    Ok(Page { at_most, after })
}
