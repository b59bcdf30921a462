//! HTTP calls of a seller's endpoint. A seller chooses the address, so addresses that are not public are refused unless
//! the operator allows them: this machine, its network, and the metadata addresses of clouds. The check applies to the
//! address of the connection, not to the name.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use model::ports::Future;
use model::reach::{Reach, reach};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::{Host, Url};

const CONNECT: Duration = Duration::from_secs(10);
/// Maximum size of a response.
const MOST_BYTES: usize = 1 << 20;

/// A request to a seller.
#[derive(Clone)]
pub struct CallbackRequest {
    pub url: Arc<str>,
    /// All headers, by lower-case name.
    pub headers: Vec<(&'static str, String)>,
    pub body: Bytes,
    pub timeout: Duration,
    /// Private addresses and plain HTTP are permitted.
    pub private: bool,
}

/// An endpoint's answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallbackResponse {
    pub status: u16,
    /// `None` if it is larger than the limit.
    pub body: Option<Bytes>,
}

/// Calls sellers' endpoints.
pub trait Callbacks: Send + Sync + 'static {
    /// Posts the request without following redirects. The error is a text.
    fn post(&self, letter: CallbackRequest) -> Future<'_, Result<CallbackResponse, String>>;
}

/// Callbacks over HTTP: public addresses by HTTPS, or any address where that is permitted.
pub struct HttpCallbacks {
    public: Option<reqwest::Client>,
    any: Option<reqwest::Client>,
}

impl Default for HttpCallbacks {
    fn default() -> HttpCallbacks {
        let client = || {
            reqwest::Client::builder()
                .redirect(reqwest::redirect::Policy::none())
                .no_proxy()
                .connect_timeout(CONNECT)
                .user_agent(concat!("rialto/", env!("CARGO_PKG_VERSION")))
        };
        HttpCallbacks { public: client().dns_resolver(Arc::new(Public)).build().ok(), any: client().build().ok() }
    }
}

impl Callbacks for HttpCallbacks {
    fn post(&self, letter: CallbackRequest) -> Future<'_, Result<CallbackResponse, String>> {
        Box::pin(async move {
            let url = Url::parse(&letter.url).map_err(|_| "its address is no URL".to_owned())?;
            if !letter.private {
                admit(&url)?;
            }
            let client = if letter.private { &self.any } else { &self.public };
            let client = client.as_ref().ok_or_else(|| "this server cannot make connections".to_owned())?;
            let mut request = client.post(url).timeout(letter.timeout).body(letter.body);
            for (name, value) in letter.headers {
                request = request.header(name, value);
            }
            let mut response = request.send().await.map_err(|error| words(&error))?;
            let status = response.status().as_u16();
            let mut body = Vec::new();
            while let Some(chunk) = response.chunk().await.map_err(|error| words(&error))? {
                if body.len() + chunk.len() > MOST_BYTES {
                    return Ok(CallbackResponse { status, body: None });
                }
                body.extend_from_slice(&chunk);
            }
            Ok(CallbackResponse { status, body: Some(body.into()) })
        })
    }
}

/// The error text for buyers. It has no address.
fn words(error: &reqwest::Error) -> String {
    let what = if error.is_timeout() {
        "it did not answer in time"
    } else if error.is_connect() {
        "it cannot be reached"
    } else {
        "the connection broke"
    };
    what.to_owned()
}

/// Checks a literal address. Names are checked when they are resolved.
fn admit(url: &Url) -> Result<(), String> {
    let public = match url.host() {
        Some(Host::Domain(_)) => true,
        Some(Host::Ipv4(ip)) => reach(ip.into()) == Reach::Public,
        Some(Host::Ipv6(ip)) => reach(ip.into()) == Reach::Public,
        None => false,
    };
    match (url.scheme(), public) {
        ("https", true) => Ok(()),
        ("https", false) => Err("its address is not public".to_owned()),
        (_, _) => Err("its address does not begin with https://".to_owned()),
    }
}

/// Resolves names to public addresses only; the connection is made to exactly these.
struct Public;

impl Resolve for Public {
    fn resolve(&self, name: Name) -> Resolving {
        let name = name.as_str().to_owned();
        Box::pin(async move {
            let found = tokio::net::lookup_host((name, 0)).await?;
            let public: Vec<SocketAddr> = found.filter(|found| reach(found.ip()) == Reach::Public).collect();
            if public.is_empty() {
                return Err("the name resolves to no public address".into());
            }
            Ok(Box::new(public.into_iter()) as Addrs)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_public_is_called() {
        for good in ["https://example.com/x", "https://8.8.8.8", "https://[2606:4700::1111]:8443/", "https://1.1.1.1"] {
            assert_eq!(admit(&Url::parse(good).unwrap()), Ok(()), "{good}");
        }
        for bad in [
            "http://example.com",
            "ftp://example.com",
            "https://127.0.0.1",
            "https://10.1.2.3",
            "https://172.16.0.1",
            "https://192.168.1.1",
            "https://169.254.169.254/latest/meta-data",
            "https://100.64.0.1",
            "https://0.0.0.0",
            "https://2130706433",
            "https://0x7f.1",
            "https://224.0.0.1",
            "https://255.255.255.255",
            "https://[::1]",
            "https://[::]",
            "https://[::ffff:127.0.0.1]",
            "https://[::ffff:10.0.0.1]",
            "https://[64:ff9b::7f00:1]",
            "https://[2002:7f00:1::]",
            "https://[fd00::1]",
            "https://[fe80::1]",
            "https://[2001:db8::1]",
            "https://[ff02::1]",
        ] {
            assert!(admit(&Url::parse(bad).unwrap()).is_err(), "{bad}");
        }
    }

    /// A name is checked by its addresses.
    #[tokio::test]
    async fn a_name_of_ourselves_is_not_called() {
        let web = HttpCallbacks::default();
        let letter = |private| CallbackRequest {
            url: "https://localhost:1/".into(),
            headers: Vec::new(),
            body: Bytes::new(),
            timeout: Duration::from_secs(5),
            private,
        };
        assert_eq!(web.post(letter(false)).await, Err("it cannot be reached".to_owned()));
        let name: Name = "localhost".parse().unwrap();
        let error = Public.resolve(name).await.err().unwrap();
        assert_eq!(error.to_string(), "the name resolves to no public address");
    }
}
