//! Lines of JSON: the turn on stdin, an event on each line of stdout.

use model::ports::agent::{AgentEvent, Turn};

use super::process::{CommandProcess, ProgramEnd};
use crate::emitter::Emitter;
use crate::events::EventReader;
use crate::lines::Lines;

/// Longest event.
const LONGEST: usize = 16 << 20;

pub(super) async fn listen(mut process: CommandProcess, turn: &Turn, most: usize, emitter: &Emitter) {
    let mut hearing = EventReader::new(turn);
    let mut lines = Lines::new(LONGEST.min(most));
    let mut number = 0_u64;
    // The turn's end as the program reported it. It is emitted after the program has exited: emitting an end drops
    // the stream, and that would kill the program before it has cleaned up.
    let mut end: Option<AgentEvent> = None;
    loop {
        let printed = tokio::select! {
            biased;
            printed = process.next() => printed,
            emission = hearing.lull() => {
                emitter.say(emission).await;
                continue;
            }
        };
        let over = printed.is_none();
        if end.is_some() {
            if over {
                break;
            }
            continue;
        }
        match printed {
            Some(bytes) => lines.push(&bytes),
            // The last line may lack a newline.
            None => lines.push(b"\n"),
        }
        while end.is_none() {
            let line = match lines.next() {
                Ok(Some(line)) => line,
                Ok(None) => break,
                Err(too_long) => {
                    drop(process);
                    return emitter.fail(format!("line {} of the program's output: {too_long}", number + 1)).await;
                }
            };
            number += 1;
            if line.trim_ascii().is_empty() {
                continue;
            }
            let heard =
                std::str::from_utf8(&line).map_err(|_| "not UTF-8".to_owned()).and_then(|line| hearing.hear(line));
            let all = match heard {
                Ok(all) => all,
                Err(says) => {
                    drop(process);
                    return emitter.fail(format!("line {number} of the program's output: {says}")).await;
                }
            };
            for emission in all {
                match emission {
                    AgentEvent::End(_) | AgentEvent::Reply(_) => end = Some(emission),
                    AgentEvent::Working(_)
                    | AgentEvent::Artifact(_)
                    | AgentEvent::Bound(_)
                    | AgentEvent::Metadata(_) => {
                        emitter.say(emission).await;
                    }
                }
            }
        }
        if over {
            break;
        }
        if end.is_some() {
            process.finish();
        }
    }
    if let Some(emission) = hearing.finish() {
        emitter.say(emission).await;
    }
    match (end, process.outcome()) {
        (Some(end), ProgramEnd::Done | ProgramEnd::Failed(_)) => emitter.say(end).await,
        // The caller has cancelled; the program's last event may be its end.
        (Some(end), ProgramEnd::Stopped) => emitter.say(end).await,
        (None, outcome) => super::end(outcome, emitter).await,
    }
}
