//! HTTP/1.1 as it is spoken here (RFC 9112): strict, so that nobody reads a message in another way than the router.

mod answer;
mod body;
mod head;
mod reader;
mod server;
mod write;

pub(super) use answer::{NoAnswer, read_answer};
pub(super) use body::{Body, BodyError};
pub(super) use reader::Reader;
pub(super) use server::serve;
pub(super) use write::{Writer, request_head};
