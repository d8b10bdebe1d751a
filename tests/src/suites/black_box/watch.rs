//! Sees to it that a refusal changes nothing: pools, runners and claims are the same before and after.

use super::Target;
use crate::harness::api::{Answer, Api};
use anyhow::{Result, ensure};
use serde_json::Value;

/// Pools at rest, as they were when the watch began.
#[derive(Debug)]
pub struct Watch {
    api: Api,
    before: Vec<(String, Vec<Value>)>,
}

impl Watch {
    pub async fn over(target: &Target, pools: &[&str]) -> Result<Self> {
        let mut before = Vec::new();
        for pool in pools {
            before.push(((*pool).to_owned(), picture(&target.api, pool).await?));
        }
        Ok(Self { api: target.api.clone(), before })
    }

    /// The envelope with this status and code, and nothing changed. Gives the message.
    pub async fn refused(&self, answer: Answer, status: u16, code: &str) -> Result<String> {
        let (found, message) = answer.refusal(status)?;
        ensure!(found == code, "expected the code {code}, got {found}: {message}");
        self.unchanged().await?;
        Ok(message)
    }

    /// The same, with a message that names what is wrong.
    pub async fn refused_naming(&self, answer: Answer, status: u16, code: &str, named: &str) -> Result<()> {
        let message = self.refused(answer, status, code).await?;
        ensure!(message.contains(named), "the message does not name {named:?}: {message}");
        Ok(())
    }

    pub async fn unchanged(&self) -> Result<()> {
        for (pool, before) in &self.before {
            let now = picture(&self.api, pool).await?;
            ensure!(*before == now, "pool {pool} changed from {before:#?} to {now:#?}");
        }
        Ok(())
    }
}

async fn picture(api: &Api, pool: &str) -> Result<Vec<Value>> {
    let mut all = vec![api.pool(pool).await?];
    all.extend(api.runners(pool).await?.into_iter().map(without_times));
    let claims = api.get(&format!("claims?pool={pool}&limit=500")).await?.expect(200)?;
    all.extend(claims["claims"].as_array().into_iter().flatten().cloned().map(without_times));
    Ok(all)
}

/// What changes by itself.
fn without_times(mut record: Value) -> Value {
    if let Value::Object(fields) = &mut record {
        const TIMES: [&str; 5] = ["in_state_ms", "seen_ms_ago", "threshold_in_ms", "age_ms", "cost_usd"];
        fields.retain(|name, _| !TIMES.contains(&name.as_str()));
    }
    record
}
