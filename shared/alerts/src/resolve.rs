//! Names as addresses, looked at when a connection is made: a name that was harmless when it was written down may lead elsewhere by now. An
//! address in the place of a name is never resolved; that one is judged when the settings are read.

use crate::address::is_public;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Where names are looked up.
pub trait Lookup: Send + Sync + std::fmt::Debug {
    fn addresses(&self, name: String) -> LookingUp;
}

/// The addresses of a name, once they are known.
pub type LookingUp = std::pin::Pin<Box<dyn Future<Output = std::io::Result<Vec<IpAddr>>> + Send>>;

/// As every program of this host looks names up.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OfTheHost;

impl Lookup for OfTheHost {
    fn addresses(&self, name: String) -> LookingUp {
        Box::pin(async move {
            Ok(tokio::net::lookup_host((name.as_str(), 0)).await?.map(|address| address.ip()).collect())
        })
    }
}

/// Passes on only such addresses as may be told.
#[derive(Debug)]
pub(crate) struct Checked {
    pub(crate) lookup: Arc<dyn Lookup>,
    pub(crate) allow_private: bool,
}

#[derive(Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "its name leads to no public address; if it is meant to be within your network, say allow_private = true"
)]
pub(crate) struct NotPublic;

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let (looking_up, allow_private) =
            (self.lookup.addresses(name.as_str().to_owned()), self.allow_private);
        Box::pin(async move {
            let mut found = looking_up.await?;
            found.retain(|address| allow_private || is_public(*address));
            if found.is_empty() {
                return Err(NotPublic.into());
            }
            // The port is the URL's own.
            let addresses: Addrs = Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0)));
            Ok(addresses)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Mutex;

    /// Says another thing each time, as a name server may.
    #[derive(Debug)]
    struct Changing(Mutex<Vec<Vec<IpAddr>>>);

    impl Lookup for Changing {
        fn addresses(&self, _: String) -> LookingUp {
            let next = self.0.lock().unwrap().remove(0);
            Box::pin(async move { Ok(next) })
        }
    }

    async fn resolved(checked: &Checked) -> Option<Vec<IpAddr>> {
        let found = checked.resolve("hooks.example.org".parse().unwrap()).await.ok()?;
        Some(found.map(|address| address.ip()).collect())
    }

    #[tokio::test]
    async fn refuse_15_a_name_is_judged_by_where_it_leads_each_time() {
        let ip = |text: &str| text.parse::<IpAddr>().unwrap();
        let answers = [
            vec![ip("1.1.1.1")],
            vec![ip("127.0.0.1")],
            vec![ip("::ffff:169.254.169.254"), ip("fd00:ec2::254")],
            vec![ip("10.0.0.1"), ip("1.1.1.1")],
            Vec::new(),
        ];
        let changing = Changing(Mutex::new(answers.to_vec()));
        let checked = Checked { lookup: Arc::new(changing), allow_private: false };
        assert_eq!(resolved(&checked).await, Some(vec![ip("1.1.1.1")]));
        assert_eq!(resolved(&checked).await, None, "it leads to this host by now");
        assert_eq!(resolved(&checked).await, None, "to the metadata service");
        assert_eq!(resolved(&checked).await, Some(vec![ip("1.1.1.1")]), "only where it may");
        assert_eq!(resolved(&checked).await, None);
    }
}
