//! A server behind the router that follows a test's script.

use std::io::{Read as _, Write as _};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::Command;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use super::world::World;

/// The address that it has; `ip-203-0-113-41` is the name that leads there.
pub const ADDRESS: &str = "203.0.113.41";

/// What one connection does with each request, by the number of the connection and of the request in it.
pub type Script = dyn Fn(usize, usize, &mut TcpStream) -> bool + Send + Sync;

/// Adds the address, once.
pub fn address(world: &World) {
    world.as_router(|| {
        let _ = Command::new("ip").args(["address", "add", &format!("{ADDRESS}/32"), "dev", "lo"]).output();
    });
}

/// Serves port 80; each connection reads a head, then asks the script, until that says no. Returns the heads that came.
pub fn serve(world: &World, script: Arc<Script>) -> Arc<Mutex<Vec<String>>> {
    address(world);
    let listener = world.as_router(|| TcpListener::bind((ADDRESS, 80)).expect("an address"));
    let heads = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&heads);
    std::thread::spawn(move || {
        for (number, stream) in listener.incoming().enumerate() {
            let (Ok(mut stream), script, seen) = (stream, Arc::clone(&script), Arc::clone(&seen)) else { return };
            std::thread::spawn(move || {
                let _ = stream.set_read_timeout(Some(Duration::from_secs(10)));
                for request in 0.. {
                    let Some(head) = head(&mut stream) else { return };
                    seen.lock().unwrap().push(head);
                    if !script(number, request, &mut stream) {
                        let _ = stream.shutdown(Shutdown::Write);
                        return;
                    }
                }
            });
        }
    });
    heads
}

/// The next head; none at the end.
fn head(stream: &mut TcpStream) -> Option<String> {
    let mut bytes = Vec::new();
    while !bytes.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        match stream.read(&mut byte) {
            Ok(1) => bytes.push(byte[0]),
            _ => return None,
        }
    }
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Writes an answer, whoever is still there.
pub fn say(stream: &mut TcpStream, text: impl AsRef<[u8]>) {
    let _ = stream.write_all(text.as_ref());
}
