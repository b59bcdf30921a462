//! TLS: a certificate and its key from two files, read again when they change. An unusable pair is logged, and the old
//! one stays in use.

use std::fs;
use std::path::Path;
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use arc_swap::ArcSwap;
use rustls::ServerConfig;
use rustls::crypto::aws_lc_rs;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::{ClientHello, ResolvesServerCert};
use rustls::sign::CertifiedKey;
use tokio_util::sync::CancellationToken;

use crate::settings::{self, TlsFiles};

const LOOK_EVERY: Duration = Duration::from_secs(2);
pub(crate) const H2: &[u8] = b"h2";

pub(crate) struct ReloadingTls {
    files: TlsFiles,
    /// State of the files at the first read.
    looked: FileStamps,
    shown: Arc<CurrentCertificate>,
    pub(crate) acceptor: tokio_rustls::TlsAcceptor,
}

/// The certificate in use.
#[derive(Debug)]
struct CurrentCertificate(ArcSwap<CertifiedKey>);

impl ResolvesServerCert for CurrentCertificate {
    fn resolve(&self, _: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        Some(self.0.load_full())
    }
}

/// Modification time and size of both files, to detect a change.
type FileStamps = [Option<(SystemTime, u64)>; 2];

impl ReloadingTls {
    pub(crate) fn load(files: &TlsFiles) -> Result<ReloadingTls, settings::Error> {
        let provider = Arc::new(aws_lc_rs::default_provider());
        let looked = looks(files);
        let pair = read(files).map_err(|text| settings::Error(format!("tls: {text}")))?;
        let shown = Arc::new(CurrentCertificate(ArcSwap::from_pointee(pair)));
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| settings::Error(format!("tls: {error}")))?
            .with_no_client_auth()
            .with_cert_resolver(shown.clone());
        config.alpn_protocols = vec![H2.to_vec(), b"http/1.1".to_vec()];
        Ok(ReloadingTls { files: files.clone(), looked, shown, acceptor: Arc::new(config).into() })
    }

    /// Reads the files again. Returns false, and changes nothing, if they hold no usable pair.
    pub(crate) fn reload(&self) -> bool {
        match read(&self.files) {
            Ok(pair) => {
                self.shown.0.store(Arc::new(pair));
                tracing::info!(cert = %self.files.cert.display(), "the certificate has been read anew");
                true
            }
            Err(trouble) => {
                tracing::error!("the new certificate cannot be used, the one before stays: {trouble}");
                false
            }
        }
    }

    /// Watches the files until `shutdown`; reads them at once when `asked` is notified.
    pub(crate) async fn watch(&self, shutdown: CancellationToken, asked: &tokio::sync::Notify) {
        let mut seen = self.looked;
        let mut look = tokio::time::interval(LOOK_EVERY);
        loop {
            let now = tokio::select! {
                _ = look.tick() => false,
                () = asked.notified() => true,
                () = shutdown.cancelled() => return,
            };
            let looks = looks(&self.files);
            if now || looks != seen {
                self.reload();
                seen = looks;
            }
        }
    }
}

fn looks(files: &TlsFiles) -> FileStamps {
    let look = |path: &Path| fs::metadata(path).ok().and_then(|m| Some((m.modified().ok()?, m.len())));
    [look(&files.cert), look(&files.key)]
}

fn read(files: &TlsFiles) -> Result<CertifiedKey, String> {
    let TlsFiles { cert, key } = files;
    let chain: Vec<CertificateDer<'static>> = CertificateDer::pem_file_iter(cert)
        .and_then(Iterator::collect)
        .map_err(|error| format!("cannot read the certificate {}: {error}", cert.display()))?;
    if chain.is_empty() {
        return Err(format!("there is no certificate in {}; it must be PEM", cert.display()));
    }
    let private =
        PrivateKeyDer::from_pem_file(key).map_err(|error| format!("cannot read the key {}: {error}", key.display()))?;
    CertifiedKey::from_der(chain, private, &aws_lc_rs::default_provider())
        .map_err(|error| format!("{} and {} do not belong together: {error}", cert.display(), key.display()))
}
