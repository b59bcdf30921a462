//! Panics: each is logged with its location and counted, anywhere in the process. A request or a stream that panics
//! fails alone; its connection and all others continue ([`crate::service`], `web::body`).

use std::panic::PanicHookInfo;
use std::sync::LazyLock;

use prometheus_client::metrics::counter::Counter;

static PANICS: LazyLock<Counter> = LazyLock::new(Counter::default);

/// Logs and counts every panic from now on. Where errors are not logged, the previous hook runs as well.
pub fn watch() {
    let before = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |info| {
        PANICS.inc();
        if !tracing::enabled!(tracing::Level::ERROR) {
            return before(info);
        }
        let thread = std::thread::current();
        let (thread, message) = (thread.name().unwrap_or("?"), message(info));
        let at = info.location().map_or_else(|| "?".to_owned(), ToString::to_string);
        let backtrace = std::backtrace::Backtrace::capture();
        match backtrace.status() {
            std::backtrace::BacktraceStatus::Captured => {
                tracing::error!(thread, at, %backtrace, "panicked: {message}; this is a defect of the program, report it");
            }
            _ => tracing::error!(thread, at, "panicked: {message}; this is a defect of the program, report it"),
        }
    }));
}

/// Number of panics since the start.
pub(crate) fn counter() -> Counter {
    PANICS.clone()
}

fn message<'i>(info: &'i PanicHookInfo<'_>) -> &'i str {
    let payload = info.payload();
    let text = payload.downcast_ref::<&str>().copied();
    text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("without a message")
}
