//! Who we are to GitHub: a token as it is, or an App whose key is turned into a token for one installation, kept until shortly before
//! it ends. Nothing of it is written anywhere.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use jsonwebtoken::{Algorithm, EncodingKey, Header};
use motorpool_domain::Timestamp;
use reqwest::StatusCode;
use secrecy::{ExposeSecret, SecretString};
use serde::{Deserialize, Serialize};

use super::refusal::refusal;
use super::scope::Scope;
use super::{Credentials, GITHUB};
use crate::call::Call;
use crate::error::{CallError, SetupError};
use crate::limits::Account;
use crate::transport::{Pass, Transport, checked_token};

/// GitHub's clock may be behind ours.
const ISSUED_BEFORE: Duration = Duration::from_secs(60);
/// GitHub takes ten minutes at most, by its own clock.
const JWT_GOOD_FOR: Duration = Duration::from_secs(8 * 60);
/// A token is not used in its last moments: the call would take some of them.
const SPARE: Duration = Duration::from_secs(2 * 60);
/// For so long, whoever waited for a token that did not come is told why, and GitHub is not asked again.
const TOLD_FOR: Duration = Duration::from_secs(5);

pub(crate) struct Login(Kind);

enum Kind {
    Token(SecretString),
    App(App),
}

struct App {
    id: u64,
    key: EncodingKey,
    installation: Option<u64>,
    /// One slot a scope; whoever needs a token waits for whoever is fetching it.
    slots: Mutex<BTreeMap<String, Arc<tokio::sync::Mutex<Slot>>>>,
}

#[derive(Default)]
struct Slot {
    installation: Option<u64>,
    token: Option<(Pass, Timestamp)>,
    error: Option<(CallError, Timestamp)>,
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Kind::Token(_) => f.write_str("Token"),
            Kind::App(app) => write!(f, "App({})", app.id),
        }
    }
}

impl Login {
    pub(crate) fn new(credentials: Credentials) -> Result<Self, SetupError> {
        Ok(Self(match credentials {
            Credentials::Token(token) => {
                Kind::Token(checked_token(&token).ok_or(SetupError::Token { vendor: GITHUB.name })?)
            }
            Credentials::App { app_id, private_key, installation_id } => {
                let key = EncodingKey::from_rsa_pem(private_key.expose_secret().as_bytes())
                    .map_err(|_| SetupError::Key)?;
                let app = App { id: app_id, key, installation: installation_id, slots: Mutex::default() };
                // A key that does not sign will not do.
                app.jwt(Timestamp::default()).map_err(|_| SetupError::Key)?;
                Kind::App(app)
            }
        }))
    }

    /// The token to call with in this scope.
    pub(crate) async fn pass(&self, transport: &Transport, scope: &Scope) -> Result<Pass, CallError> {
        match &self.0 {
            Kind::Token(token) => Ok(Pass { account: Account::Token, token: token.clone(), made_from: None }),
            Kind::App(app) => app.pass(transport, scope).await,
        }
    }

    /// The pass was refused. Says whether there can be another.
    pub(crate) async fn forget(&self, scope: &Scope, pass: &Pass) -> bool {
        let Kind::App(app) = &self.0 else { return false };
        let Some(slot) = app.slot(scope) else { return false };
        let mut slot = slot.lock().await;
        let refused =
            |(held, _): &(Pass, Timestamp)| held.token.expose_secret() == pass.token.expose_secret();
        if slot.token.as_ref().is_some_and(refused) {
            slot.token = None;
        }
        true
    }
}

impl App {
    async fn pass(&self, transport: &Transport, scope: &Scope) -> Result<Pass, CallError> {
        let slot = self.slot(scope).ok_or_else(|| {
            CallError::Refused(format!(
                "GitHub takes no App for the runners of {scope}: give [github] a token_file instead ({})",
                scope.permission()
            ))
        })?;
        let mut slot = slot.lock().await;
        let now = transport.now();
        if let Some((pass, until)) = &slot.token
            && now < *until
        {
            return Ok(pass.clone());
        }
        if let Some((error, until)) = &slot.error
            && now < *until
        {
            return Err(error.clone());
        }
        match self.fetch(transport, scope, &mut slot).await {
            Ok(pass) => {
                slot.error = None;
                Ok(pass)
            }
            Err(error) => {
                // The App may have been installed anew.
                *slot = Slot { error: Some((error.clone(), now.after(TOLD_FOR))), ..Slot::default() };
                Err(error)
            }
        }
    }

    fn slot(&self, scope: &Scope) -> Option<Arc<tokio::sync::Mutex<Slot>>> {
        let key = scope.installation()?;
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        Some(Arc::clone(slots.entry(key).or_default()))
    }

    async fn fetch(&self, transport: &Transport, scope: &Scope, slot: &mut Slot) -> Result<Pass, CallError> {
        let jwt = self
            .jwt(transport.now())
            .map_err(|_| CallError::failed("sign in as the GitHub App", "the private key does not sign"))?;
        let app = Pass { account: Account::App, token: jwt, made_from: None };
        let installation = match self.installation.or(slot.installation) {
            Some(known) => known,
            None => find_installation(transport, scope, &app).await?,
        };
        slot.installation = Some(installation);

        let attempted = format!("get a token for the installation {installation} of the GitHub App");
        let path = format!("app/installations/{installation}/access_tokens");
        // Two tokens are as good as one.
        let call = Call { repeatable: true, ..Call::post(path, None, attempted) };
        let answer = transport.ask(&app, &call).await?;
        if answer.status != StatusCode::CREATED {
            return Err(refusal(scope, &answer, &call.attempted));
        }
        let AccessToken { token, expires_at } = answer.read(GITHUB.name, &call.attempted)?;
        let pass = Pass { account: Account::Installation(installation), token, made_from: None };
        // From GitHub's clock to ours. A token whose end cannot be read, or is over already, is good for this one call.
        let left = expires_at.parse::<jiff::Timestamp>().ok();
        let left = left.and_then(|end| u64::try_from(end.as_millisecond()).ok()).map(Timestamp::from_millis);
        let left = left.map(|end| answer.at.until(end)).unwrap_or_default();
        slot.token = Some((pass.clone(), transport.now().after(left.saturating_sub(SPARE))));
        Ok(pass)
    }

    fn jwt(&self, now: Timestamp) -> Result<SecretString, jsonwebtoken::errors::Error> {
        let seconds = now.as_millis() / 1_000;
        let claims = Claims {
            iat: seconds.saturating_sub(ISSUED_BEFORE.as_secs()),
            exp: seconds + JWT_GOOD_FOR.as_secs(),
            iss: self.id.to_string(),
        };
        jsonwebtoken::encode(&Header::new(Algorithm::RS256), &claims, &self.key).map(SecretString::from)
    }
}

async fn find_installation(transport: &Transport, scope: &Scope, app: &Pass) -> Result<u64, CallError> {
    let attempted = format!("find the installation of the GitHub App in {scope}");
    let path = scope.installation().unwrap_or_default();
    let answer = transport.ask(app, &Call::get(path, Vec::new(), &attempted)).await?;
    if answer.status != StatusCode::OK {
        return Err(refusal(scope, &answer, &attempted));
    }
    let Installation { id } = answer.read(GITHUB.name, &attempted)?;
    Ok(id)
}

#[derive(Serialize)]
struct Claims {
    iat: u64,
    exp: u64,
    iss: String,
}

#[derive(Deserialize)]
struct Installation {
    id: u64,
}

#[derive(Deserialize)]
struct AccessToken {
    token: SecretString,
    expires_at: String,
}
