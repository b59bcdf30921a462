//! TLS with the options of libpq. The library decides whether to encrypt; this module decides which servers to trust.

use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::PostgresOpenError;

/// Whom to believe.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Trust {
    /// Any certificate: what is sent is hidden from listeners, not from an impostor.
    Anybody,
    /// A certificate of a known authority, whatever its name.
    Authority,
    /// A certificate of a known authority for this very host.
    Host,
}

pub(super) fn connector(trust: Trust, roots: Option<&Path>) -> Result<MakeRustlsConnect, PostgresOpenError> {
    let provider = Arc::new(aws_lc_rs::default_provider());
    let verifier: Arc<dyn ServerCertVerifier> = match trust {
        Trust::Anybody => Arc::new(Lenient { provider: provider.clone(), inner: None }),
        Trust::Authority => {
            let inner = verifier(provider.clone(), roots)?;
            Arc::new(Lenient { provider: provider.clone(), inner: Some(inner) })
        }
        Trust::Host => verifier(provider.clone(), roots)?,
    };
    let config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(|error| PostgresOpenError::Url(format!("TLS cannot be set up ({error})")))?
        .dangerous()
        .with_custom_certificate_verifier(verifier)
        .with_no_client_auth();
    Ok(MakeRustlsConnect::new(config))
}

fn verifier(
    provider: Arc<CryptoProvider>,
    file: Option<&Path>,
) -> Result<Arc<WebPkiServerVerifier>, PostgresOpenError> {
    let mut roots = RootCertStore::empty();
    let bad = |reason: String| PostgresOpenError::Roots {
        file: file.unwrap_or(Path::new("the machine's roots")).into(),
        reason,
    };
    match file {
        Some(path) => {
            for found in CertificateDer::pem_file_iter(path).map_err(|error| bad(error.to_string()))? {
                let found = found.map_err(|error| bad(error.to_string()))?;
                roots.add(found).map_err(|error| bad(error.to_string()))?;
            }
        }
        // One unreadable certificate of the machine's is no reason to believe none.
        None => drop(roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs)),
    }
    WebPkiServerVerifier::builder_with_provider(roots.into(), provider).build().map_err(|error| bad(error.to_string()))
}

/// Believes without a look at the name, or without any. Signatures are checked all the same.
#[derive(Debug)]
struct Lenient {
    provider: Arc<CryptoProvider>,
    inner: Option<Arc<WebPkiServerVerifier>>,
}

impl ServerCertVerifier for Lenient {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(inner) = &self.inner else {
            return Ok(ServerCertVerified::assertion());
        };
        match inner.verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now) {
            // The name is looked at last: everything else was right.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) => Ok(ServerCertVerified::assertion()),
            other => other,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &CertificateDer<'_>,
        dss: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.provider.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
