//! Lets an agent write its turn as one async function, whose emissions become the port's stream.
//!
//! The function runs inside the stream: it proceeds only as far as the stream is polled, and dropping the stream
//! drops it at its await. Cleanup belongs into a `Drop`.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};

use futures_util::Stream;
use futures_util::stream::BoxStream;
use model::ports::Future;
use model::ports::agent::{AgentEvent, AgentMessage, EndState, TurnEnd};

pub struct Emitter(Arc<Mutex<VecDeque<AgentEvent>>>);

impl Emitter {
    /// Emits, and returns once the emission was taken.
    pub async fn say(&self, emission: AgentEvent) {
        self.push(emission);
        // The stream polls the function again once it has handed everything over: no waker is needed.
        std::future::poll_fn(|_| if self.is_heard() { Poll::Ready(()) } else { Poll::Pending }).await;
    }

    pub async fn end(&self, state: EndState, words: Option<AgentMessage>) {
        self.say(AgentEvent::End(TurnEnd { state, words })).await;
    }

    pub(crate) async fn fail(&self, says: impl Into<String>) {
        self.end(EndState::Failed, Some(AgentMessage::text(says))).await;
    }

    fn push(&self, emission: AgentEvent) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).push_back(emission);
    }

    fn pop(&self) -> Option<AgentEvent> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).pop_front()
    }

    fn is_heard(&self) -> bool {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).is_empty()
    }
}

/// The stream of the emissions of `talk`.
pub fn emit<F, T>(talk: F) -> BoxStream<'static, AgentEvent>
where
    F: FnOnce(Emitter) -> T,
    T: std::future::Future<Output = ()> + Send + 'static,
{
    let said = Arc::default();
    let talking = talk(Emitter(Arc::clone(&said)));
    Box::pin(Speech { talking: Some(Box::pin(talking)), emitter: Emitter(said) })
}

struct Speech {
    talking: Option<Future<'static, ()>>,
    emitter: Emitter,
}

impl Stream for Speech {
    type Item = AgentEvent;

    fn poll_next(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<AgentEvent>> {
        if let Some(said) = self.emitter.pop() {
            return Poll::Ready(Some(said));
        }
        let Some(talking) = &mut self.talking else { return Poll::Ready(None) };
        if talking.as_mut().poll(cx).is_ready() {
            self.talking = None;
        }
        match self.emitter.pop() {
            Some(said) => Poll::Ready(Some(said)),
            None if self.talking.is_none() => Poll::Ready(None),
            None => Poll::Pending,
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::StreamExt as _;

    use super::*;

    #[tokio::test]
    async fn what_is_said_comes_in_order_and_nothing_is_done_before_it_is_heard() {
        let done = Arc::new(Mutex::new(0));
        let seen = done.clone();
        let mut said = emit(|emitter| async move {
            for n in 1..=3 {
                *done.lock().unwrap() = n;
                emitter.say(AgentEvent::Bound(n.to_string())).await;
                tokio::task::yield_now().await;
            }
        });
        for n in 1..=3 {
            assert_eq!(said.next().await, Some(AgentEvent::Bound(n.to_string())));
            assert_eq!(*seen.lock().unwrap(), n);
        }
        assert_eq!(said.next().await, None);
        assert_eq!(said.next().await, None);
    }
}
