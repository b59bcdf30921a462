//! The binary `rialto`: the composition root. Only this crate names concrete stores and agents.

mod aly_config;
mod apply;
mod banner;
mod command;
mod config;
mod demo;
mod demo_aly;
mod demo_market;
mod demo_orloj;
mod demo_show;
mod files_config;
mod graph;
mod guard;
mod guardian;
mod listen;
mod market;
mod market_config;
mod migrate;
mod operate;
mod orloj_config;
mod plan;
mod price_config;
mod products;
mod push;
mod push_config;
mod reload;
mod replicas;
mod resources;
mod roster;
mod serve;
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
        command::Command::Graph(command) => graph::run(&command),
        command::Command::Push(command) => push::run(&command),
        command::Command::Market(command) => return market::run(&command),
        command::Command::Shop(command) => return shop::run(&command),
        command::Command::Backup(command) => operate::backup(&command),
        command::Command::Restore(command) => operate::restore(&command),
        command::Command::Migrate(command) => migrate::run(&command),
        command::Command::Doctor(command) => operate::doctor(&command),
        command::Command::Health(command) => operate::health(&command),
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
