//! The control plane of a function: on DynamoDB and SQS, with no machine of its own. It reads no environment.

use crate::http;
use crate::settings::FromEnvironment;
use aws_types::SdkConfig;
use axum::Router;
use motorpool_control::ports::backend::{Backends, Elsewhere, OwnedMachines};
use motorpool_control::ports::clock::SystemClock;
use motorpool_control::ports::entropy::SystemEntropy;
use motorpool_control::ports::ledger::Ledger;
use motorpool_control::ports::queue::Queue;
use motorpool_control::{Control, Parts, ServerSecret, Settings};
use motorpool_domain::pool::BackendKind;
use motorpool_domain::spec::Spec;
use motorpool_http::auth::sha256;
use motorpool_http::{HttpState, Notifier, Tokens, WebhookSecrets};
use motorpool_ledger::dynamodb::DynamoLedger;
use motorpool_queues::SqsQueues;
use secrecy::ExposeSecret;
use std::collections::BTreeMap;
use std::sync::Arc;

#[derive(Debug)]
pub struct Plane {
    control: Arc<Control>,
    tokens: Tokens,
    webhooks: WebhookSecrets,
    notifier: Arc<Notifier>,
}

/// The machine of a pool that does not say what its machines have: little, so that nobody is promised more than there is.
const PLAIN_MACHINE: Spec = Spec { cpu: 1, memory_mb: 1024 };

impl Plane {
    /// Makes the clients, and calls nobody yet.
    pub fn on_aws(aws: &SdkConfig, from: FromEnvironment) -> Self {
        let ledger = Arc::new(DynamoLedger::on_aws(aws, &from.table));
        let queue = Arc::new(SqsQueues::on_aws(aws, &from.queue_prefix));
        let secret = ServerSecret::new(from.server_secret.expose_secret().as_bytes());
        let backends = with_ec2(without_machines(), aws, &from, &secret);
        Self::new(ledger, queue, backends, from)
    }

    /// On any ledger and queue.
    pub fn new(
        ledger: Arc<dyn Ledger>,
        queue: Arc<dyn Queue>,
        backends: Backends,
        from: FromEnvironment,
    ) -> Self {
        let FromEnvironment {
            table: _,
            queue_prefix: _,
            admin_token,
            server_secret,
            settings,
            ci,
            alerts,
            webhooks,
            url: _,
        } = from;
        let notifier = Arc::new(Notifier::default());
        let control = Control::new(Parts {
            ledger,
            queue,
            backends,
            ci,
            clock: Arc::new(SystemClock),
            entropy: Arc::new(SystemEntropy),
            doorbell: Arc::clone(&notifier) as _,
            alerts,
            secret: ServerSecret::new(server_secret.expose_secret().as_bytes()),
            settings: Settings {
                refresh: settings.refresh,
                sweep: settings.sweep,
                resource_classes: settings.resource_classes,
                host: PLAIN_MACHINE,
                teams: settings.limits,
            },
        });
        // One request at a time comes to a function's environment: nobody floods it.
        let at_once = BTreeMap::new();
        let tokens =
            Tokens { admin_sha256: sha256(admin_token.expose_secret()), teams: settings.teams, at_once };
        Self { control: Arc::new(control), tokens, webhooks, notifier }
    }

    pub fn control(&self) -> Arc<Control> {
        Arc::clone(&self.control)
    }

    pub fn router(self) -> Router {
        let Self { control, tokens, webhooks, notifier } = self;
        motorpool_http::router(HttpState { control, tokens, webhooks, notifier, limits: http::limits() })
    }
}

/// A function has no machine of its own.
pub fn without_machines() -> Backends {
    Backends::default()
        .with(BackendKind::Local, Arc::new(Elsewhere))
        .with(BackendKind::BareMetal, Arc::new(OwnedMachines))
}

/// Machines on EC2 are told where the functions are: without that, nobody could join.
#[cfg(feature = "ec2")]
fn with_ec2(backends: Backends, aws: &SdkConfig, from: &FromEnvironment, secret: &ServerSecret) -> Backends {
    use motorpool_backend_ec2::{Ec2Backend, Ec2Config};
    let Some(server_url) = from.url.clone() else { return backends };
    let clock = Arc::new(SystemClock);
    let config = Ec2Config { installation: secret.installation(), server_url, ca_pem: None, clock };
    backends.with(BackendKind::Ec2, Arc::new(Ec2Backend::new(aws, config)))
}

#[cfg(not(feature = "ec2"))]
fn with_ec2(backends: Backends, _: &SdkConfig, _: &FromEnvironment, _: &ServerSecret) -> Backends {
    backends
}
