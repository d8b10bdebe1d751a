//! The agent's Unix socket: how the hooks of a job reach the control plane without a token. It has the four verbs of checkpoints and no other,
//! and decides nothing.

mod address;
mod connection;
mod forward;
mod listen;

pub(crate) use address::{SocketArgs, SocketPlace};
pub(crate) use forward::Forward;
pub(crate) use listen::{ListenError, Listening};

use std::sync::Arc;

use tokio::sync::Semaphore;

/// Those that come later wait for their turn in the kernel's queue.
const CONNECTIONS: usize = 4;

/// Serves until it is dropped.
pub(crate) async fn serve(listening: Listening, forward: Forward) {
    let (places, forward) = (Arc::new(Semaphore::new(CONNECTIONS)), Arc::new(forward));
    loop {
        let Ok(place) = Arc::clone(&places).acquire_owned().await else { return };
        let stream = listening.accept().await;
        let forward = Arc::clone(&forward);
        tokio::spawn(async move {
            connection::answer(stream, &forward).await;
            drop(place);
        });
    }
}
