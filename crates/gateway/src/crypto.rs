//! One provider of cryptography for everything: aws-lc-rs. Two libraries ask for a process-wide choice at run time and
//! would panic without one.

/// Makes the choice. Called first thing in `main`, and by tests; later calls change nothing.
pub fn install() {
    // An error only says that the choice has been made.
    let _ = rustls::crypto::aws_lc_rs::default_provider().install_default();
    let _ = jsonwebtoken::crypto::aws_lc::DEFAULT_PROVIDER.install_default();
}
