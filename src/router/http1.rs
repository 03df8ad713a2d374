//! HTTP/1.1 (RFC 9112), parsed strictly, so that no other program can interpret a message differently.

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
