//! The SDKs of both generations and the stock clients of grpcio against one running server, used as their users do.

use e2e::Server;

use crate::stock::{BEFORE, Sdk, TODAY};

/// Every program, with its arguments after the server's address.
const RUNS: &[(Sdk, &str, &[&str])] = &[
    (TODAY, "python/scenarios.py", &["GRPC"]),
    (TODAY, "python/grpc_scenarios.py", &[]),
    (TODAY, "python/grpc_stock.py", &[]),
    (BEFORE, "older/scenarios.py", &["GRPC"]),
    (BEFORE, "python-0.3/grpc_scenarios.py", &[]),
];

#[test]
fn the_sdks_and_stock_clients_do_everything_over_grpc_against_one_server() {
    // The SDKs find the interface on the card.
    let server = Server::options().config("grpc: { advertise: true }\n").start();
    let failed: Vec<String> = std::thread::scope(|scope| {
        let workers: Vec<_> = RUNS
            .iter()
            .map(|(sdk, path, words)| {
                let url = server.url();
                scope.spawn(move || {
                    let output = sdk.program(path).arg(&url).args(*words).output().expect("the program starts");
                    let out = String::from_utf8_lossy(&output.stdout).into_owned();
                    let said = format!("{out}{}", String::from_utf8_lossy(&output.stderr));
                    eprintln!("{said}");
                    let fine = output.status.success() && out.contains("ok ");
                    (!fine).then(|| format!("{path}: {}\n{said}", output.status))
                })
            })
            .collect();
        workers.into_iter().filter_map(|worker| worker.join().expect("a run ends")).collect()
    });
    assert!(failed.is_empty(), "{} of {} runs failed:\n{}", failed.len(), RUNS.len(), failed.join("\n"));
}
