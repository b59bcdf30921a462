//! A real handshake, both protocols, and a certificate that changes.

use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use gateway::Settings;
use gateway::settings::TlsFiles;
use rustls::pki_types::{CertificateDer, ServerName};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use testkit::{Running, saying, settings, start_with, until};

/// Writes a new certificate for 127.0.0.1, and its key.
fn write_pair(files: &TlsFiles) -> reqwest::Certificate {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".into(), "127.0.0.1".into()]).unwrap();
    // The key first: a certificate without its key is no pair.
    std::fs::write(&files.key, made.signing_key.serialize_pem()).unwrap();
    std::fs::write(&files.cert, made.cert.pem()).unwrap();
    reqwest::Certificate::from_pem(made.cert.pem().as_bytes()).unwrap()
}

fn files(folder: &Path) -> TlsFiles {
    TlsFiles { cert: folder.join("cert.pem"), key: folder.join("key.pem") }
}

fn client(trusted: reqwest::Certificate) -> reqwest::ClientBuilder {
    reqwest::Client::builder().tls_certs_only([trusted])
}

async fn served(files: &TlsFiles) -> Running {
    let trusted = write_pair(files);
    let settings = Settings { tls: Some(files.clone()), ..settings() };
    start_with(settings, client(trusted).build().unwrap()).await
}

#[tokio::test]
async fn both_protocols_are_spoken_under_tls_and_cards_say_https() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let running = served(&files).await;
    let answer = running.rpc("echo", "SendMessage", &saying("hi")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_2));
    let card: serde_json::Value =
        running.get("/.well-known/agent-card.json").send().await.unwrap().json().await.unwrap();
    assert!(card["url"].as_str().unwrap().starts_with("https://"), "{card}");
    let pem = std::fs::read(&files.cert).unwrap();
    let old = client(reqwest::Certificate::from_pem(&pem).unwrap()).http1_only().build().unwrap();
    let answer = old.get(running.url("/healthz")).send().await.unwrap();
    assert_eq!((answer.status().as_u16(), answer.version()), (200, reqwest::Version::HTTP_11));
    let plain = reqwest::get(format!("http://{}/healthz", running.address)).await;
    assert!(plain.is_err(), "no plain words on this port");
}

#[tokio::test]
async fn a_new_certificate_is_shown_and_a_broken_one_is_not() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let running = served(&files).await;
    // A new client each time: an old one resumes its session, and checks no certificate.
    let good = async |trusted: &reqwest::Certificate| {
        client(trusted.clone()).build().unwrap().get(running.url("/healthz")).send().await.is_ok()
    };
    let first = reqwest::Certificate::from_pem(&std::fs::read(&files.cert).unwrap()).unwrap();
    assert!(good(&first).await);
    let second = write_pair(&files);
    running.reload.notify_one();
    until("the new certificate is shown", async || good(&second).await).await;
    assert!(!good(&first).await);
    // A certificate without its key, and no certificate at all.
    let stranger = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    for broken in [stranger.cert.pem(), "nonsense".to_owned()] {
        std::fs::write(&files.cert, broken).unwrap();
        running.reload.notify_one();
        for _ in 0..5 {
            assert!(good(&second).await, "the one before stays");
        }
    }
    // The files are watched without a request, too.
    let last = write_pair(&files);
    until("the files are looked at now and then", async || good(&last).await).await;
}

#[tokio::test]
async fn whoever_does_not_finish_a_handshake_is_cut_off() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let trusted = write_pair(&files);
    let mut settings = Settings { tls: Some(files.clone()), ..settings() };
    settings.timeouts.header_ms = 50;
    let running = start_with(settings, client(trusted).build().unwrap()).await;
    // Silent from the start.
    let mut silent = TcpStream::connect(running.address).await.unwrap();
    assert_eq!(silent.read(&mut [0; 1]).await.unwrap_or(0), 0);
    // Silent after the handshake for HTTP/2: half of the preface.
    let mut roots = rustls::RootCertStore::empty();
    let pem = std::fs::read(&files.cert).unwrap();
    roots.add(<CertificateDer<'_> as rustls::pki_types::pem::PemObject>::from_pem_slice(&pem).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = rustls::ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"h2".to_vec()];
    let connector = tokio_rustls::TlsConnector::from(Arc::new(config));
    let stream = TcpStream::connect(running.address).await.unwrap();
    let mut stream = connector.connect(ServerName::try_from("127.0.0.1").unwrap(), stream).await.unwrap();
    stream.write_all(b"PRI * HTTP/2.0\r\n").await.unwrap();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read(&mut [0; 1])).await;
    assert_eq!(ended.expect("cut off").unwrap_or(0), 0);
}

#[test]
fn a_pair_that_cannot_be_used_stops_the_start() {
    let folder = tempfile::tempdir().unwrap();
    let files = files(folder.path());
    let check = || Settings { tls: Some(files.clone()), ..settings() }.check();
    assert!(check().unwrap_err().to_string().contains("cert.pem"), "there is none");
    write_pair(&files);
    assert!(check().is_ok());
    let stranger = rcgen::generate_simple_self_signed(vec!["127.0.0.1".into()]).unwrap();
    std::fs::write(&files.key, stranger.signing_key.serialize_pem()).unwrap();
    assert!(check().unwrap_err().to_string().contains("together"));
}
