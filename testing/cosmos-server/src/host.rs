//! HTTP in, HTTP out.

use crate::call::Call;
use crate::front::Front;
use crate::reply::Reply;
use bytes::Bytes;
use http::{Request, Response, StatusCode};
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::server::conn::auto;
use std::io;
use std::sync::Arc;
use tokio::net::{TcpListener, TcpStream};

/// Accepts connections for as long as it is polled.
pub(crate) async fn accept(listener: TcpListener, front: Arc<Front>) {
    loop {
        match listener.accept().await {
            Ok((stream, _)) => {
                tokio::spawn(connection(stream, front.clone()));
            }
            // Out of file handles, most likely: others will close.
            Err(error) => {
                tracing::warn!(%error, "the Cosmos test server could not accept a connection");
                tokio::task::yield_now().await;
            }
        }
    }
}

async fn connection(stream: TcpStream, front: Arc<Front>) {
    if let Err(error) = stream.set_nodelay(true) {
        tracing::debug!(%error, "answers of the Cosmos test server may be delayed");
    }
    let service = service_fn(move |request| answer(request, front.clone()));
    let server = auto::Builder::new(TokioExecutor::new());
    if let Err(error) = server.serve_connection(TokioIo::new(stream), service).await {
        tracing::debug!(%error, "a connection of the Cosmos test server ended");
    }
}

/// An error breaks the connection (HTTP/1.1) or the stream (HTTP/2), without a reply.
async fn answer(request: Request<Incoming>, front: Arc<Front>) -> io::Result<Response<Full<Bytes>>> {
    let (parts, body) = request.into_parts();
    let body = body.collect().await.map_err(io::Error::other)?.to_bytes();
    let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
    let call = Call::new(parts.method, target, parts.headers, body);
    // A client that gives up does not undo its request: a separate task carries it through.
    let reply = tokio::spawn(async move { front.handle(call).await }).await;
    match reply.map_err(io::Error::other)? {
        Some(reply) => response(reply),
        None => Err(io::Error::other("a fault of the test server, made on purpose")),
    }
}

fn response(reply: Reply) -> io::Result<Response<Full<Bytes>>> {
    let mut response = Response::new(Full::new(reply.body));
    *response.status_mut() = StatusCode::from_u16(reply.status).map_err(io::Error::other)?;
    *response.headers_mut() = reply.headers;
    Ok(response)
}
