//! Reports progress in order. The service handles each notification in its own task, and those may overtake one
//! another and the result; so progress is read at the transport, where messages are still in order.

use std::future::Future;

use rmcp::RoleClient;
use rmcp::model::{JsonRpcMessage, ProgressNotificationParam, ServerNotification};
use rmcp::service::{RxJsonRpcMessage, TxJsonRpcMessage};
use rmcp::transport::Transport;
use tokio::sync::mpsc;

use super::session::Happening;

/// A transport that reports progress notifications.
pub(super) struct Ordered<T> {
    pub(super) within: T,
    pub(super) heard: mpsc::Sender<Happening>,
}

impl<T: Transport<RoleClient>> Transport<RoleClient> for Ordered<T> {
    type Error = T::Error;

    fn send(
        &mut self,
        item: TxJsonRpcMessage<RoleClient>,
    ) -> impl Future<Output = Result<(), Self::Error>> + Send + 'static {
        self.within.send(item)
    }

    async fn receive(&mut self) -> Option<RxJsonRpcMessage<RoleClient>> {
        let message = self.within.receive().await;
        if let Some(JsonRpcMessage::Notification(said)) = &message
            && let ServerNotification::ProgressNotification(progress) = &said.notification
        {
            // Progress above the queue's limit is dropped.
            let _ = self.heard.try_send(Happening::Progress(words(&progress.params)));
        }
        message
    }

    fn close(&mut self) -> impl Future<Output = Result<(), Self::Error>> + Send {
        self.within.close()
    }
}

fn words(progress: &ProgressNotificationParam) -> String {
    match (&progress.message, progress.total) {
        (Some(message), _) if !message.is_empty() => message.clone(),
        (_, Some(total)) => format!("{}/{total}", progress.progress),
        (_, None) => progress.progress.to_string(),
    }
}
