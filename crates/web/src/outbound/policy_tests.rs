//! Addresses under the policy, with and without an operator's list.

use super::*;

fn guard(loopback: bool, allow: &[&str]) -> OutboundPolicy {
    let allow = allow.iter().map(|text| text.parse().unwrap()).collect();
    OutboundPolicy { loopback, allow, ..OutboundPolicy::default() }
}

fn admitted(guard: &OutboundPolicy, url: &str) -> Result<(), Error> {
    guard.admit(&Url::parse(url).unwrap())
}

#[test]
fn an_address_is_looked_at_however_it_is_written() {
    let strict = guard(false, &[]);
    assert_eq!(admitted(&strict, "https://example.com/hook"), Ok(()));
    assert_eq!(admitted(&strict, "https://8.8.8.8/"), Ok(()));
    for (url, refused) in [
        ("http://example.com/hook", Error::Scheme),
        ("http://8.8.8.8/", Error::Scheme),
        ("ftp://example.com/", Error::Scheme),
        ("file:///etc/passwd", Error::Scheme),
        ("https://127.0.0.1/", Error::Loopback),
        ("https://localhost/", Error::Loopback),
        ("https://LOCALHOST./", Error::Loopback),
        ("https://a.localhost/", Error::Loopback),
        ("https://2130706433/", Error::Loopback),
        ("https://0x7f.1/", Error::Loopback),
        ("https://0177.0.0.1/", Error::Loopback),
        ("https://127.1/", Error::Loopback),
        ("https://[::1]/", Error::Loopback),
        ("https://[::ffff:127.0.0.1]/", Error::Loopback),
        ("https://[::ffff:a9fe:a9fe]/latest/meta-data", Error::Private),
        ("https://169.254.169.254/latest/meta-data", Error::Private),
        ("https://0/", Error::Private),
        ("https://10.0.0.1/", Error::Private),
        ("https://[fd00::1]/", Error::Private),
    ] {
        assert_eq!(admitted(&strict, url), Err(refused), "{url}");
    }
}

#[test]
fn loopback_is_for_servers_on_loopback() {
    let local = guard(true, &[]);
    for url in ["http://127.0.0.1:9/x", "http://localhost:9/x", "https://[::1]/", "http://[::ffff:127.0.0.1]/"] {
        assert_eq!(admitted(&local, url), Ok(()), "{url}");
    }
    assert_eq!(admitted(&local, "http://10.0.0.1/"), Err(Error::Private));
    assert_eq!(admitted(&local, "http://example.com/"), Err(Error::Scheme));
    let own: IpAddr = "127.0.0.1".parse().unwrap();
    assert!(local.passes("localhost", own, None));
    assert!(!local.passes("rebound.example.com", own, None), "another name for ourselves");
    assert!(!guard(false, &[]).passes("localhost", own, None));
}

#[test]
fn the_operators_list_lets_private_ones_through() {
    let open = guard(false, &["hooks", "*.corp.example", "10.1.0.0/16", "[fd00::5]:8443", "box:81", "192.168.0.7"]);
    for url in [
        "http://hooks/x",
        "https://HOOKS./",
        "http://a.corp.example/",
        "http://a.b.corp.example:99/",
        "http://10.1.255.1/",
        "https://[fd00::5]:8443/",
        "http://box:81/",
        "http://192.168.0.7:8080/",
    ] {
        assert_eq!(admitted(&open, url), Ok(()), "{url}");
    }
    for url in ["http://corp.example/", "http://xcorp.example/", "http://10.2.0.1/", "http://box:82/", "http://box/"] {
        assert!(admitted(&open, url).is_err(), "{url}");
    }
    assert!(admitted(&open, "https://[fd00::5]/").is_err());
    let private: IpAddr = "10.9.9.9".parse().unwrap();
    assert!(open.passes("hooks", private, None));
    assert!(open.passes("box", private, Some(81)) && !open.passes("box", private, None));
    assert!(!open.passes("other", private, None));
    assert!(open.passes("other", "10.1.2.3".parse().unwrap(), None));
    assert!(open.passes("other", "::ffff:10.1.2.3".parse().unwrap(), None));
}

#[test]
fn an_entry_that_names_nothing_is_refused() {
    for text in
        ["", "10.0.0.0/33", "fd00::/129", "x/8", "host:port", "host:99999", "host:0", "*", "*.", "a b", "*.10.0.0.1"]
    {
        assert!(text.parse::<AllowedHost>().is_err(), "{text:?}");
    }
    assert!(guard(false, &["0.0.0.0/0"]).passes("x", "10.0.0.1".parse().unwrap(), None));
    assert!(guard(false, &["::/0"]).passes("x", "fd00::1".parse().unwrap(), None));
}
