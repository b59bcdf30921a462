//! Sign-ins at a provider that have begun: each is good once, for a short time, and in the browser that began it, which has
//! a cookie of its own for each.

use std::collections::HashMap;
use std::net::IpAddr;
use std::time::{Duration, Instant};

use http::header::COOKIE;
use http::request;
use model::Fault;
use parking_lot::Mutex;
use subtle::ConstantTimeEq;

use super::sessions::{SecretHash, drawn};
use crate::auth;

/// Most sign-ins at a time, and most of one address; the oldest ends for a new one.
const SIGN_INS: usize = 1_000;
const OF_ADDRESS: usize = 20;
pub(crate) const GOOD_FOR: Duration = Duration::from_secs(600);
/// The cookie is sent to these addresses alone.
const COOKIE_PATH: &str = "/api/admin/v1/session/oidc";

#[derive(Default)]
pub(crate) struct SignIns(Mutex<HashMap<SecretHash, SignIn>>);

/// A sign-in, while the person is at the provider.
pub(crate) struct SignIn {
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    /// The address that the provider sends the person back to.
    pub(crate) redirect: String,
    /// The path that the person came from.
    pub(crate) then: String,
    /// The terms of the provider at the beginning.
    pub(crate) terms: SecretHash,
    address: IpAddr,
    /// The hash of the cookie.
    browser: SecretHash,
    ends: Instant,
}

/// A sign-in that has just begun, with its secrets for the provider and the browser.
pub(crate) struct NewSignIn {
    pub(crate) state: String,
    pub(crate) nonce: String,
    pub(crate) verifier: String,
    pub(crate) cookie: String,
}

/// Why an answer of the provider belongs to no sign-in.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum LostSignIn {
    /// There is none with this state, or it was used, or is too old.
    Unknown,
    /// It began in another browser.
    Elsewhere,
}

impl SignIns {
    pub(crate) fn begin(
        &self,
        address: IpAddr,
        is_https: bool,
        terms: SecretHash,
        redirect: String,
        then: String,
    ) -> Result<NewSignIn, Fault> {
        let (state, nonce, verifier, browser) = (drawn::<32>()?, drawn::<32>()?, drawn::<48>()?, drawn::<32>()?);
        let (hash, now) = (auth::hash(&state), Instant::now());
        let mut all = self.0.lock();
        all.retain(|_, one| now < one.ends);
        while all.values().filter(|one| one.address == address).count() >= OF_ADDRESS {
            drop_oldest(&mut all, |one| one.address == address);
        }
        while all.len() >= SIGN_INS {
            drop_oldest(&mut all, |_| true);
        }
        let begun = SignIn {
            nonce: nonce.clone(),
            verifier: verifier.clone(),
            redirect,
            then,
            terms,
            address,
            browser: auth::hash(&browser),
            ends: now + GOOD_FOR,
        };
        all.insert(hash, begun);
        let cookie = set_cookie(&hash, is_https, &browser, GOOD_FOR);
        Ok(NewSignIn { state, nonce, verifier, cookie })
    }

    /// Takes the sign-in of this state, whose browser sends the request. It is used up in any case.
    pub(crate) fn take(&self, state: &str, head: &request::Parts) -> Result<SignIn, LostSignIn> {
        let hash = auth::hash(state);
        let found = self.0.lock().remove(&hash).filter(|one| Instant::now() < one.ends);
        let found = found.ok_or(LostSignIn::Unknown)?;
        let name = cookie_name(&hash);
        let lines = head.headers.get_all(COOKIE).iter().filter_map(|line| line.to_str().ok());
        let mut pairs = lines.flat_map(|line| line.split(';')).filter_map(|pair| pair.trim().split_once('='));
        let sent = pairs.find(|(known, _)| *known == name).map(|(_, value)| auth::hash(value));
        match sent {
            Some(sent) if bool::from(sent.ct_eq(&found.browser)) => Ok(found),
            Some(_) | None => Err(LostSignIn::Elsewhere),
        }
    }
}

/// The cookie that removes the one of a sign-in.
pub(crate) fn spent_cookie(state: &str, is_https: bool) -> String {
    set_cookie(&auth::hash(state), is_https, "", Duration::ZERO)
}

fn drop_oldest(all: &mut HashMap<SecretHash, SignIn>, of: impl Fn(&SignIn) -> bool) {
    let oldest = all.iter().filter(|(_, one)| of(one)).min_by_key(|(_, one)| one.ends).map(|(hash, _)| *hash);
    all.remove(&oldest.unwrap_or_default());
}

fn cookie_name(state: &SecretHash) -> String {
    let short: String = state[..6].iter().map(|byte| format!("{byte:02x}")).collect();
    format!("rialto_sign_in_{short}")
}

/// The provider's redirect comes from another site, so that a stricter cookie would not be sent.
fn set_cookie(state: &SecretHash, is_https: bool, value: &str, lifetime: Duration) -> String {
    let (name, seconds) = (cookie_name(state), lifetime.as_secs());
    let secure = if is_https { "; Secure" } else { "" };
    format!("{name}={value}; Path={COOKIE_PATH}; Max-Age={seconds}; HttpOnly; SameSite=Lax{secure}")
}

#[cfg(test)]
mod tests {
    use http::Request;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

    fn begin(all: &SignIns, address: IpAddr) -> NewSignIn {
        all.begin(address, true, [1; 32], "https://here/callback".into(), "/console/tasks".into()).unwrap()
    }

    fn head(cookie: &str) -> request::Parts {
        let pair = cookie.split(';').next().unwrap();
        Request::get("/").header("cookie", format!("other=1; {pair}")).body(()).unwrap().into_parts().0
    }

    #[test]
    fn a_sign_in_is_good_once_and_in_its_browser() {
        let all = SignIns::default();
        let [one, other] = [(); 2].map(|()| begin(&all, HERE));
        for word in ["HttpOnly", "SameSite=Lax", "Secure", "Max-Age=600", "Path=/api/admin/v1/session/oidc"] {
            assert!(one.cookie.contains(word), "{}", one.cookie);
        }
        let taken = all.take(&one.state, &head(&one.cookie)).expect("it has begun");
        assert_eq!((taken.then.as_str(), &taken.nonce), ("/console/tasks", &one.nonce));
        assert_eq!(all.take(&one.state, &head(&one.cookie)).err(), Some(LostSignIn::Unknown), "it is used up");
        assert_eq!(all.take(&other.state, &head(&one.cookie)).err(), Some(LostSignIn::Elsewhere));
        assert_eq!(all.take(&other.state, &head(&other.cookie)).err(), Some(LostSignIn::Unknown), "it is used up");
        assert_eq!(all.take("", &head("")).err(), Some(LostSignIn::Unknown));
        assert!(spent_cookie(&one.state, false).contains("Max-Age=0"));
    }

    #[test]
    fn sign_ins_are_bounded_in_all_and_for_one_address() {
        let all = SignIns::default();
        let mine: Vec<NewSignIn> = (0..=OF_ADDRESS).map(|_| begin(&all, HERE)).collect();
        assert_eq!(all.0.lock().len(), OF_ADDRESS);
        assert!(all.take(&mine[0].state, &head(&mine[0].cookie)).is_err());
        assert!(all.take(&mine[OF_ADDRESS].state, &head(&mine[OF_ADDRESS].cookie)).is_ok());
        for number in 0..SIGN_INS {
            begin(&all, IpAddr::from([10, 0, (number / 250) as u8, (number % 250) as u8]));
        }
        assert_eq!(all.0.lock().len(), SIGN_INS);
    }

    #[test]
    fn a_sign_in_ends_after_its_time() {
        let all = SignIns::default();
        let one = begin(&all, HERE);
        for sign_in in all.0.lock().values_mut() {
            sign_in.ends = Instant::now();
        }
        assert_eq!(all.take(&one.state, &head(&one.cookie)).err(), Some(LostSignIn::Unknown));
    }
}
