//! What the settings of a deployment say of its teams holds on the functions as it does on `serve`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on ends here")]

use motorpool_control::{Caller, RefusedKind};
use motorpool_domain::{Owner, PoolName};
use motorpool_functions::plane::{Plane, without_machines};
use motorpool_functions::settings::FromEnvironment;
use motorpool_ledger::MemoryLedger;
use motorpool_queues::InProcessQueue;
use serde_json::json;
use std::sync::Arc;

#[tokio::test]
async fn refuse_24_a_team_has_no_more_open_claims_than_its_settings_allow() {
    let settings = json!({"teams": {"web": {"token_sha256": ["ab".repeat(32)], "max_open_claims": 1}}});
    let from = FromEnvironment::read(|name| match name {
        "MOTORPOOL_ADMIN_TOKEN" => Some("mp_admin_of_a_test_0123456789".to_owned()),
        "MOTORPOOL_SERVER_SECRET" => Some("mp_server_of_a_test_0123456789abcdef".to_owned()),
        "MOTORPOOL_SETTINGS" => Some(settings.to_string()),
        _ => None,
    });
    let (ledger, queue) = (Arc::new(MemoryLedger::default()), Arc::new(InProcessQueue::default()));
    let plane = Plane::new(ledger, queue, without_machines(), from.unwrap());
    let metal = json!({"backend": "bare_metal", "clean": "keep"});
    let control = plane.control();
    let pool = PoolName::parse("metal").unwrap();
    control.put_pool(&Caller::Operator, pool, serde_json::from_value(metal).unwrap()).await.unwrap();
    let web = Caller::Team(Owner::parse("web").unwrap());
    let ask = async |workflow: &str| {
        let request = json!({"workflow": workflow, "pool": "metal"});
        control.provision(&web, serde_json::from_value(request).unwrap()).await
    };
    ask("first").await.unwrap();
    let refused = ask("second").await.unwrap_err();
    assert_eq!(refused.kind, RefusedKind::TooManyRequests, "{refused:?}");
}
