//! Nodes of Jenkins that somebody else uses too: what is ours is undone, what is theirs is left.

use motorpool_ci_tests::fake_github::said;
use motorpool_ci_tests::server::Reply;
use motorpool_ci_tests::{binding, label, order};
use motorpool_control::ports::ci::{Ci, CiError, CiJob, ListedRunner, Paused};
use motorpool_domain::Timestamp;
use motorpool_domain::ci::{CiSystem, JobStatus};
use serde_json::{Value, json};

use crate::fake_jenkins::{FakeJenkins, TOKEN};

const PAUSED: &str = "Motorpool paused this node";

async fn with_node() -> FakeJenkins {
    let jenkins = FakeJenkins::start().await;
    jenkins.has_node("mac-01");
    jenkins
}

#[tokio::test]
async fn the_message_names_motorpool_and_keeps_what_was_before() {
    let jenkins = with_node().await;
    let client = jenkins.client();
    client.pause("instance", "mac-01").await.unwrap();
    assert_eq!(jenkins.offline("mac-01").as_deref(), Some(PAUSED));
    client.unpause("instance", "mac-01").await.unwrap();

    jenkins.state().nodes.get_mut("mac-01").unwrap().offline = Some("ann: new disk".to_owned());
    for _ in 0..2 {
        client.pause("instance", "mac-01").await.unwrap();
        let message = jenkins.offline("mac-01").unwrap();
        assert_eq!(message, format!("{PAUSED}; before that it was offline: ann: new disk"));
    }
    for _ in 0..2 {
        client.unpause("instance", "mac-01").await.unwrap();
        assert_eq!(jenkins.offline("mac-01").as_deref(), Some("ann: new disk"), "as it was before");
    }
}

#[tokio::test]
async fn what_a_person_took_offline_meanwhile_stays_offline() {
    let jenkins = with_node().await;
    for client in [jenkins.client(), jenkins.client_of_two()] {
        client.pause("instance", "mac-01").await.unwrap();
        jenkins.state().nodes.get_mut("mac-01").unwrap().offline = Some("it smells".to_owned());
        client.unpause("instance", "mac-01").await.unwrap();
        assert_eq!(jenkins.offline("mac-01").as_deref(), Some("it smells"));
    }
}

/// `toggleOffline` does the opposite of what is: whoever is second takes the node offline again.
#[tokio::test]
async fn who_unpauses_at_the_same_moment_as_others_leaves_the_node_online() {
    for undone in [1, 3] {
        let jenkins = with_node().await;
        let client = jenkins.client();
        client.pause("instance", "mac-01").await.unwrap();
        jenkins.state().before_toggles = vec![None; undone].into();
        client.unpause("instance", "mac-01").await.unwrap();
        assert_eq!(jenkins.offline("mac-01"), None);
        let changes = jenkins.state().changes.clone();
        let by_mistake = changes.iter().flatten().filter(|why| why.contains("meant to bring")).count();
        assert_eq!(by_mistake, undone, "the fake did get in the way: {changes:?}");
    }
    let jenkins = with_node().await;
    let client = jenkins.client();
    client.pause("instance", "mac-01").await.unwrap();
    jenkins.state().before_toggles = vec![None; 100].into();
    let failed = client.unpause("instance", "mac-01").await;
    assert!(matches!(failed, Err(CiError::Failed { .. })), "not for ever: {failed:?}");
    jenkins.state().before_toggles.clear();
    client.unpause("instance", "mac-01").await.unwrap();
    assert_eq!(jenkins.offline("mac-01"), None, "what a mistake left is mended by the next call");
}

#[tokio::test]
async fn a_user_who_can_only_connect_never_takes_a_node_offline() {
    let jenkins = with_node().await;
    let client = jenkins.client_of_two();
    client.pause("instance", "mac-01").await.unwrap();
    jenkins.state().before_toggles = vec![None].into();
    client.unpause("instance", "mac-01").await.unwrap();
    assert_eq!(jenkins.state().changes, [Some(PAUSED.to_owned())], "online already, by others");

    client.pause("instance", "mac-01").await.unwrap();
    // Done, and done once more as nobody heard of it: which a user who can do both could not dare.
    jenkins.trick("/toggleOffline", Reply { lost: true, ..Reply::new(302, Value::Null) });
    client.unpause("instance", "mac-01").await.unwrap();
    assert_eq!(jenkins.offline("mac-01"), None);
    assert_eq!(jenkins.server.count("/toggleOffline"), 3);
}

#[tokio::test]
async fn fault_15_a_toggle_whose_answer_was_lost_is_not_repeated_unasked() {
    let jenkins = with_node().await;
    let client = jenkins.client();
    client.pause("instance", "mac-01").await.unwrap();
    jenkins.trick("/toggleOffline", Reply { lost: true, ..Reply::new(302, Value::Null) });
    let failed = client.unpause("instance", "mac-01").await;
    assert!(matches!(failed, Err(CiError::Failed { .. })), "{failed:?}");
    assert_eq!(jenkins.server.count("/toggleOffline"), 1);
    client.unpause("instance", "mac-01").await.unwrap();
    assert_eq!((jenkins.offline("mac-01"), jenkins.server.count("/toggleOffline")), (None, 1));
}

#[tokio::test]
async fn a_node_that_is_paused_anew_meanwhile_is_left_so() {
    let jenkins = with_node().await;
    let client = jenkins.client();
    client.pause("instance", "mac-01").await.unwrap();
    // Ours is undone by others, and when we look again, another control plane has paused the node.
    jenkins.trick("/toggleOffline", Reply::new(302, Value::Null));
    let failed = client.unpause("instance", "mac-01").await;
    assert!(matches!(failed, Err(CiError::Failed { .. })), "{failed:?}");
    assert_eq!(jenkins.offline("mac-01").as_deref(), Some(PAUSED));
}

/// Else a slip in the address would say of every node that nobody gives it jobs.
#[tokio::test]
async fn where_all_is_404_no_pause_is_acknowledged() {
    let jenkins = with_node().await;
    let client = jenkins.client_at(&format!("{}/elsewhere", jenkins.server.url), None);
    let refused = client.pause("instance", "mac-01").await.unwrap_err();
    assert!(matches!(&refused, CiError::Refused(why) if why.contains("[jenkins] url")), "{refused}");
}

#[tokio::test]
async fn a_refusal_says_what_to_do_and_which_permission_lacks() {
    let jenkins = with_node().await;
    let client = jenkins.client();
    for (reply, expected) in [
        (
            Reply::new(403, Value::Null).with("x-required-permission", "hudson.model.Computer.Disconnect"),
            "Jenkins asks for hudson.model.Computer.Disconnect",
        ),
        (said(403, "No valid crumb was included in the request"), "an API token"),
        (said(401, TOKEN), "[jenkins] user"),
        (Reply::new(307, Value::Null), "set [jenkins] url"),
    ] {
        jenkins.trick("/changeOfflineCause", reply);
        let refused = client.pause("instance", "mac-01").await.unwrap_err();
        assert!(matches!(&refused, CiError::Refused(why) if why.contains(expected)), "{refused}");
        assert!(!refused.to_string().contains(TOKEN), "{refused}");
    }
}

#[tokio::test]
async fn nodes_are_listed_and_neither_registered_nor_removed() {
    let jenkins = with_node().await;
    jenkins.has_node("linux-01");
    jenkins.state().nodes.get_mut("mac-01").unwrap().busy = true;
    let client = jenkins.client();
    let name = "mac-01".to_owned();
    let expected = ListedRunner { id: name.clone(), name, busy: true };
    assert_eq!(client.list("instance", "mac-").await.unwrap(), [expected]);
    let refused =
        client.register(&order(&binding(CiSystem::Jenkins, "instance"), "mp-1", &label())).await.unwrap_err();
    assert!(matches!(&refused, CiError::Refused(why) if why.contains("configured in Jenkins")), "{refused}");
    let refused = client.remove("instance", "mac-01").await.unwrap_err();
    assert!(matches!(&refused, CiError::Refused(why) if why.contains("delete it there")), "{refused}");
}

#[tokio::test]
async fn a_build_is_over_when_jenkins_has_written_down_its_end() {
    let jenkins = with_node().await;
    jenkins.state().jobs.insert("job/app/job/feature%252Fx".to_owned());
    let (client, path) = (jenkins.client(), "job/app/job/feature%252Fx/3");
    let job = CiJob {
        scope: "instance".to_owned(),
        project: Some("app/feature%2Fx".to_owned()),
        id: "3".to_owned(),
        attempt: None,
        runner: None,
        since: Timestamp::from_millis(0),
    };
    for (build, expected) in [
        (json!({"building": false, "inProgress": true, "result": "SUCCESS"}), JobStatus::Running),
        (json!({"building": false, "inProgress": false, "result": "SUCCESS"}), JobStatus::Success),
        (json!({"building": true, "result": null}), JobStatus::Running),
        (json!({"building": false, "result": "UNSTABLE"}), JobStatus::Failure),
    ] {
        jenkins.state().builds.insert(path.to_owned(), build);
        assert_eq!(client.job_status(&job).await.unwrap(), expected);
    }
}

/// What a node is doing, and what its build is doing, are two things: the pause says the one, the look at the build the other.
#[tokio::test]
async fn a_build_goes_on_after_it_has_left_its_node() {
    let jenkins = with_node().await;
    jenkins.state().jobs.insert("job/app".to_owned());
    let build = json!({"building": true, "inProgress": true, "result": null});
    jenkins.state().builds.insert("job/app/3".to_owned(), build);
    let job = CiJob {
        scope: "instance".to_owned(),
        project: Some("app".to_owned()),
        id: "3".to_owned(),
        attempt: None,
        runner: Some("mac-01".to_owned()),
        since: Timestamp::from_millis(0),
    };
    let client = jenkins.client();
    for busy in [true, false] {
        jenkins.state().nodes.get_mut("mac-01").unwrap().busy = busy;
        assert_eq!(client.pause("instance", "mac-01").await.unwrap(), Paused::Acknowledged { busy });
        assert_eq!(client.job_status(&job).await.unwrap(), JobStatus::Running);
    }
    assert!(CiSystem::Jenkins.job_outlives_its_runner(), "so it is the pause that tells of the machine");
    let nowhere = CiJob { project: None, ..job };
    assert!(matches!(client.job_status(&nowhere).await, Err(CiError::Refused(_))));
}
