//! The bare proxy: what axum and reqwest do when all there is to do is to hand a request on and its answer back. The
//! `a2a` agent is compared with it.
//!
//! `proxy PORT URL` answers `POST /` with what URL answers.

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse, Response};
use axum::routing::post;
use axum::serve::ListenerExt;

#[derive(Clone)]
struct Peer {
    client: reqwest::Client,
    url: String,
}

async fn pass(State(peer): State<Peer>, headers: HeaderMap, body: Bytes) -> Response {
    let mut request = peer.client.post(&peer.url).body(body);
    for name in [header::CONTENT_TYPE.as_str(), header::ACCEPT.as_str(), "a2a-version"] {
        if let Some(value) = headers.get(name) {
            request = request.header(name, value);
        }
    }
    match request.send().await {
        Ok(answer) => {
            let mut response = Response::builder().status(answer.status());
            if let Some(value) = answer.headers().get(header::CONTENT_TYPE) {
                response = response.header(header::CONTENT_TYPE, value);
            }
            let events = answer.headers().get(header::CONTENT_TYPE).is_some_and(|media| media == "text/event-stream");
            let body = if events {
                Body::from_stream(answer.bytes_stream())
            } else {
                match answer.bytes().await {
                    Ok(bytes) => Body::from(bytes),
                    Err(error) => return (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
                }
            };
            response.body(body).unwrap_or_else(|error| (StatusCode::BAD_GATEWAY, error.to_string()).into_response())
        }
        Err(error) => (StatusCode::BAD_GATEWAY, error.to_string()).into_response(),
    }
}

#[tokio::main]
async fn main() -> std::io::Result<()> {
    let argument = |n| std::env::args().nth(n).expect("proxy PORT URL");
    let port: u16 = argument(1).parse().expect("a port");
    let client = reqwest::Client::builder().no_proxy().build().expect("a client");
    let routes = Router::new().route("/", post(pass)).with_state(Peer { client, url: argument(2) });
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", port)).await?;
    axum::serve(listener.tap_io(|stream| drop(stream.set_nodelay(true))), routes).await
}
