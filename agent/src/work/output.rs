//! Collects what the work writes: the tail in memory, the whole in a log file, both bounded. It never waits for the
//! work's end, and never slows it down more than the disk does.

use std::collections::VecDeque;
use std::fs::{File, OpenOptions};
use std::io::{self, ErrorKind, PipeReader, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use tokio::sync::oneshot;

use super::order::OutputTail;

const TAIL_BYTES: usize = 8 * 1024;
const LOG_BYTES: u64 = 10 * 1024 * 1024;
const CHUNK_BYTES: usize = 64 * 1024;

/// How long to wait for the pipe's end once the tree is gone. Only a process that we could not kill holds it longer.
const DRAIN: Duration = Duration::from_secs(2);

/// A thread that reads the work's output until its end.
pub(super) struct Collector {
    tail: Arc<Mutex<Tail>>,
    done: oneshot::Receiver<()>,
}

impl Collector {
    pub(super) fn start(mut pipe: PipeReader, mut log: Option<BoundedLog>) -> io::Result<Self> {
        let tail = Arc::new(Mutex::new(Tail::default()));
        let (done_sender, done) = oneshot::channel::<()>();
        let shared = Arc::clone(&tail);
        thread::Builder::new().name("output".to_owned()).spawn(move || {
            let _done = done_sender;
            let mut chunk = vec![0; CHUNK_BYTES];
            loop {
                let read = match pipe.read(&mut chunk) {
                    Ok(0) => return,
                    Ok(count) => chunk.get(..count).unwrap_or_default(),
                    Err(error) if error.kind() == ErrorKind::Interrupted => continue,
                    Err(_) => return,
                };
                shared.lock().unwrap_or_else(PoisonError::into_inner).push(read);
                // A full disk ends the log, not the work.
                log = log.and_then(|log| log.write(read));
            }
        })?;
        Ok(Self { tail, done })
    }

    /// To be called when the tree is gone.
    pub(super) async fn finish(self) -> OutputTail {
        let Self { tail, done } = self;
        // The sender is dropped at the end of the pipe; it never sends, and after the time-out we take what is there.
        let _ended_or_late = tokio::time::timeout(DRAIN, done).await;
        tail.lock().unwrap_or_else(PoisonError::into_inner).to_output()
    }
}

/// The last bytes of a stream.
#[derive(Default)]
struct Tail {
    kept: VecDeque<u8>,
    cut_bytes: u64,
}

impl Tail {
    fn push(&mut self, bytes: &[u8]) {
        self.kept.extend(bytes);
        let excess = self.kept.len().saturating_sub(TAIL_BYTES);
        self.kept.drain(..excess);
        self.cut_bytes += excess as u64;
    }

    fn to_output(&self) -> OutputTail {
        let mut bytes: Vec<u8> = self.kept.iter().copied().collect();
        let mut cut_bytes = self.cut_bytes;
        if cut_bytes > 0 {
            // The cut may have gone through a character: drop the rest of it, at most three bytes.
            let rest = bytes.iter().take(3).take_while(|byte| (**byte & 0xC0) == 0x80).count();
            bytes.drain(..rest);
            cut_bytes += rest as u64;
        }
        OutputTail { text: String::from_utf8_lossy(&bytes).into_owned(), cut_bytes }
    }
}

/// A file that takes the first bytes of a stream, and says so when there were more.
pub(super) struct BoundedLog {
    file: File,
    room_bytes: u64,
}

impl BoundedLog {
    /// Replaces what is at `path`, so that neither a link nor a pipe put there by earlier work is followed.
    pub(super) fn create(path: &Path) -> io::Result<Self> {
        match std::fs::remove_file(path) {
            Ok(()) => {}
            Err(error) if error.kind() == ErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)?;
        Ok(Self { file, room_bytes: LOG_BYTES })
    }

    /// Gives itself back while there is room.
    fn write(mut self, bytes: &[u8]) -> Option<Self> {
        let fits = usize::try_from(self.room_bytes).unwrap_or(usize::MAX).min(bytes.len());
        self.file.write_all(bytes.get(..fits)?).ok()?;
        self.room_bytes -= fits as u64;
        if fits < bytes.len() {
            let note = format!("\n[output beyond {LOG_BYTES} bytes is not kept]\n");
            self.file.write_all(note.as_bytes()).ok()?;
            return None;
        }
        Some(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail_of(chunks: &[&[u8]]) -> OutputTail {
        let mut tail = Tail::default();
        for chunk in chunks {
            tail.push(chunk);
        }
        tail.to_output()
    }

    #[test]
    fn short_output_is_kept_whole() {
        let tail = tail_of(&[b"one ", b"two"]);
        assert_eq!(tail, OutputTail { text: "one two".into(), cut_bytes: 0 });
    }

    #[test]
    fn long_output_keeps_its_end_and_counts_what_was_cut() {
        let tail = tail_of(&[&[b'a'; TAIL_BYTES], b"the end"]);
        assert_eq!(tail.text.len(), TAIL_BYTES);
        assert!(tail.text.ends_with("athe end"));
        assert_eq!(tail.cut_bytes, 7);
        assert!(tail.to_string().starts_with("[7 bytes of output cut]\n"));
    }

    #[test]
    fn a_character_that_was_cut_through_is_dropped() {
        let tail = tail_of(&["€".as_bytes(), &[b'a'; TAIL_BYTES - 1]]);
        assert_eq!(tail.text, "a".repeat(TAIL_BYTES - 1));
        assert_eq!(tail.cut_bytes, 3);
    }

    #[test]
    fn bytes_that_are_no_text_are_replaced() {
        assert_eq!(tail_of(&[b"a\xFFb"]).text, "a\u{FFFD}b");
    }
}
