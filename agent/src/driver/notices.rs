//! Watches for what the provider says it will do to this instance, and tells each notice once. A question that fails is no notice.

use std::time::Duration;

use motorpool_domain::runner::Notice;
use tokio::sync::mpsc;

use crate::imds::Imds;

/// As often as EC2 recommends.
const PAUSE: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct Notices {
    told: Option<mpsc::Receiver<Notice>>,
}

impl Notices {
    /// Of a machine that nobody announces anything to.
    pub(super) fn none() -> Self {
        Self { told: None }
    }

    pub(super) fn of(imds: Imds) -> Self {
        let (tell, told) = mpsc::channel(1);
        tokio::spawn(watch(imds, tell));
        Self { told: Some(told) }
    }

    /// Safe to cancel.
    pub(super) async fn next(&mut self) -> Notice {
        let notice = match &mut self.told {
            Some(told) => told.recv().await,
            None => None,
        };
        match notice {
            Some(notice) => notice,
            None => std::future::pending().await,
        }
    }
}

/// Ends with the worst notice, or when nobody listens any more.
async fn watch(imds: Imds, tell: mpsc::Sender<Notice>) {
    let mut last = None;
    let mut fails = false;
    loop {
        let found = imds.notice().await;
        match &found {
            // Once: a service that is away for an hour is away 720 times.
            Err(error) if !fails => {
                tracing::warn!(error = error as &dyn std::error::Error, "notices can't be asked for");
            }
            Ok(_) | Err(_) => {}
        }
        fails = found.is_err();
        if let Ok(Some(notice)) = found
            && last != Some(notice)
        {
            last = Some(notice);
            tracing::warn!(notice = notice.in_words(), "the provider gave notice");
            if tell.send(notice).await.is_err() {
                return;
            }
        }
        if last == Some(Notice::Interruption) {
            return;
        }
        tokio::select! {
            () = tokio::time::sleep(PAUSE) => {}
            () = tell.closed() => return,
        }
    }
}
