//! The binary `rialto`: the composition root. Only this crate names concrete stores and agents.

mod absent_products;
#[cfg(feature = "systems")]
mod apply;
mod banner;
mod command;
mod config;
mod demo_show;
mod files_config;
#[cfg(feature = "systems")]
mod graph;
mod grpc_config;
mod guard;
mod guardian;
mod listen;
#[cfg(feature = "market")]
mod market;
mod migrate;
mod oidc_config;
mod operate;
mod plan;
mod products;
mod push;
mod push_config;
mod reload;
mod remote;
mod replicas;
mod roster;
mod serve;
#[cfg(feature = "shop")]
mod shop;
mod store;

use clap::Parser;

#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> std::process::ExitCode {
    gateway::crypto::install();
    guardian::install();
    let arguments = command::Arguments::parse();
    let outcome = match arguments.command {
        command::Command::Serve(options) => serve::run(&options),
        command::Command::Demo(command) => demo_show::run(&command),
        command::Command::Config(command) => config::run(&command),
        command::Command::Task(command) => operate::task(&command),
        command::Command::Keys(command) => operate::keys(&command),
        #[cfg(feature = "systems")]
        command::Command::Graph(command) => graph::run(&command),
        command::Command::Push(command) => push::run(&command),
        #[cfg(feature = "market")]
        command::Command::Market(command) => return market::run(&command),
        #[cfg(feature = "shop")]
        command::Command::Shop(command) => return shop::run(&command),
        command::Command::Backup(command) => operate::backup(&command),
        command::Command::Restore(command) => operate::restore(&command),
        command::Command::Migrate(command) => migrate::run(&command),
        command::Command::Doctor(command) => operate::doctor(&command),
        command::Command::Health(command) => operate::health(&command),
        #[cfg(feature = "systems")]
        command::Command::Apply(command) => apply::run(&command),
        command::Command::Reload(command) => operate::reload(&command),
        command::Command::GuardPrograms => guardian::run(),
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            tell(&error);
            if is_closed_pipe(&error) { std::process::ExitCode::SUCCESS } else { std::process::ExitCode::FAILURE }
        }
    }
}

/// Prints an error. A reader that closes the output, such as `head`, is no error.
fn tell(error: &anyhow::Error) {
    if !is_closed_pipe(error) {
        eprintln!("rialto: {error:#}");
    }
}

/// Whether the reader of the output has closed it.
fn is_closed_pipe(error: &anyhow::Error) -> bool {
    let io = error.chain().find_map(|cause| cause.downcast_ref::<std::io::Error>());
    io.is_some_and(|error| error.kind() == std::io::ErrorKind::BrokenPipe)
}
