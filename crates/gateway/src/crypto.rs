//! The provider of cryptography for the whole process: aws-lc-rs. Two libraries need a process-wide choice at run time
//! and panic without one.

/// Makes the choice. Called first in `main`, and by tests; later calls change nothing.
pub fn install() {
    // An error means that the choice was made before.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}
