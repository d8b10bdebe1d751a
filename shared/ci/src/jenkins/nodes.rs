//! Nodes of Jenkins that get no more builds, or get them again. A node that is temporarily offline keeps its connection and its builds.
//!
//! To take one offline, `changeOfflineCause` sets a value, and may be repeated. To bring it online, Jenkins' API has `toggleOffline` alone,
//! which does the opposite of what is: two callers at once, or a call that arrives late, take the node offline again. What else there is,
//! is worse: the command line over HTTP is closed in many places since it let anybody read files, posting `config.xml` overwrites what
//! others changed meanwhile, `launchSlaveAgent` brings no node online that was taken offline, and a script needs an administrator.
//!
//! But Jenkins asks for Agent/Connect to bring a node online, and for Agent/Disconnect to take it offline, after it has looked at the node's
//! state. To a user who has only the first, `toggleOffline` can do nothing but bring a node online: that is `unpause_login`, and with it the
//! call may be repeated. Without it, the call names a message of its own, which a node has only where the call took it offline: whoever
//! called looks, finds that, and calls again. What is left then is a call that arrives after its caller has given up: the node is offline,
//! with that message, until somebody unpauses it once more.

use motorpool_control::ports::ci::{ListedRunner, Paused};
use reqwest::StatusCode;
use serde::Deserialize;

use super::offline::{MEANT_ONLINE, OfflineBy, pause_message};
use super::refusal::{REQUIRED, refusal};
use super::{JENKINS, Jenkins, path};
use crate::call::{Call, Response};
use crate::error::CallError;
use crate::transport::Pass;

/// Each try but the last was undone by somebody else at the same moment.
const MOST_TRIES: usize = 4;
const DISCONNECT: &str = "hudson.model.Computer.Disconnect";

impl Jenkins {
    pub(super) async fn pause_node(&self, name: &str) -> Result<Paused, CallError> {
        let (node, attempted) = (path::node(name)?, format!("pause the node {name}"));
        let Some(before) = self.state(&node, name, &attempted).await? else {
            return Ok(Paused::Acknowledged { busy: false });
        };
        // Also where it is offline already: whoever took it offline may bring it back at any moment.
        let message = pause_message(before.offline_for());
        self.change_cause(&node, &message, &attempted).await?;
        match self.state(&node, name, &attempted).await? {
            None => Ok(Paused::Acknowledged { busy: false }),
            Some(State { temporarily_offline: true, idle, offline_cause_reason: _ }) => {
                Ok(Paused::Acknowledged { busy: !idle })
            }
            Some(State { temporarily_offline: false, .. }) => {
                Err(CallError::failed(attempted, "somebody brought it online at the same moment"))
            }
        }
    }

    pub(super) async fn unpause_node(&self, name: &str) -> Result<(), CallError> {
        let (node, attempted) = (path::node(name)?, format!("unpause the node {name}"));
        for tried in 0..=MOST_TRIES {
            let Some(state) = self.state(&node, name, &attempted).await? else {
                return Err(CallError::Refused(format!(
                    "cannot {attempted}: Jenkins knows no such node; it was deleted or renamed there, and has to be configured anew"
                )));
            };
            match state.offline_for().map(OfflineBy::read) {
                None => return Ok(()),
                Some(OfflineBy::Others) => {
                    tracing::info!(name, "a node of Jenkins stays offline, as somebody else wants it to");
                    return Ok(());
                }
                Some(OfflineBy::PauseAfter(before)) => {
                    return self.change_cause(&node, &before, &attempted).await;
                }
                Some(OfflineBy::Pause) if tried > 0 => {
                    return Err(CallError::failed(attempted, "somebody paused it anew at the same moment"));
                }
                Some(OfflineBy::Pause | OfflineBy::Mistake) => self.bring_online(&node, &attempted).await?,
            }
        }
        Err(CallError::failed(attempted, "somebody else brings it online and offline all the time"))
    }

    pub(super) async fn nodes(&self) -> Result<Vec<ListedRunner>, CallError> {
        let attempted = "list the nodes of Jenkins";
        let tree = vec![("tree", "computer[displayName,idle]".to_owned())];
        let answer = self.ask(&Call::get("computer/api/json".to_owned(), tree, attempted)).await?;
        if answer.status != StatusCode::OK {
            return Err(refusal(&answer, attempted));
        }
        let Nodes { computer } = answer.read(JENKINS.name, attempted)?;
        let listed = computer.into_iter().map(|Node { display_name, idle }| ListedRunner {
            id: display_name.clone(),
            name: display_name,
            busy: !idle,
        });
        Ok(listed.collect())
    }

    /// Nothing if there is no such node. A 404 alone does not say so: where [jenkins] url is not quite right, all is 404.
    async fn state(&self, node: &str, name: &str, attempted: &str) -> Result<Option<State>, CallError> {
        let tree = vec![("tree", "temporarilyOffline,idle,offlineCauseReason".to_owned())];
        let answer = self.ask(&Call::get(format!("{node}/api/json"), tree, attempted)).await?;
        match answer.status {
            StatusCode::OK => answer.read(JENKINS.name, attempted).map(Some),
            StatusCode::NOT_FOUND if !self.nodes().await?.iter().any(|node| node.name == name) => Ok(None),
            _ => Err(refusal(&answer, attempted)),
        }
    }

    async fn change_cause(&self, node: &str, message: &str, attempted: &str) -> Result<(), CallError> {
        let call = posted(node, "changeOfflineCause", message, true, attempted);
        done(&self.ask(&call).await?, attempted)
    }

    async fn bring_online(&self, node: &str, attempted: &str) -> Result<(), CallError> {
        let repeatable = self.unpauser.is_some();
        let call = posted(node, "toggleOffline", MEANT_ONLINE, repeatable, attempted);
        let Some(unpauser) = &self.unpauser else { return done(&self.ask(&call).await?, attempted) };
        let answer = self.ask_as(unpauser, &call).await?;
        if answer.status == StatusCode::FORBIDDEN && answer.header(REQUIRED) == Some(DISCONNECT) {
            // It is online already, and this user cannot take it offline.
            return Ok(());
        }
        done(&answer, attempted)
    }

    async fn ask(&self, call: &Call) -> Result<Response, CallError> {
        self.ask_as(&self.pass, call).await
    }

    async fn ask_as(&self, pass: &Pass, call: &Call) -> Result<Response, CallError> {
        self.transport.ask(pass, call).await
    }
}

fn posted(node: &str, action: &str, message: &str, repeatable: bool, attempted: &str) -> Call {
    let query = vec![("offlineMessage", message.to_owned())];
    Call { query, repeatable, ..Call::post(format!("{node}/{action}"), None, attempted) }
}

/// Jenkins sends a browser back to the node's page. Where it sends it to sign in, the next look at the node tells.
fn done(answer: &Response, attempted: &str) -> Result<(), CallError> {
    match answer.status {
        StatusCode::OK | StatusCode::NO_CONTENT | StatusCode::FOUND | StatusCode::SEE_OTHER => Ok(()),
        _ => Err(refusal(answer, attempted)),
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct State {
    temporarily_offline: bool,
    idle: bool,
    offline_cause_reason: Option<String>,
}

impl State {
    /// Why nobody gives it builds; nothing if it is not temporarily offline. A node whose agent is not connected is neither.
    fn offline_for(&self) -> Option<&str> {
        let Self { temporarily_offline, idle: _, offline_cause_reason } = self;
        temporarily_offline.then(|| offline_cause_reason.as_deref().unwrap_or_default())
    }
}

#[derive(Deserialize)]
struct Nodes {
    computer: Vec<Node>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Node {
    display_name: String,
    idle: bool,
}
