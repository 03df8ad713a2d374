//! agent-sandbox: one `host`, `.suffix` or `host:port` per line.

use super::draft::ImportNote;
use super::{ImportFile, Reader};

pub(super) fn read(reader: &mut Reader, file: &ImportFile) {
    for (line, number) in file.text.lines().zip(1_u32..) {
        let word = line.split('#').next().unwrap_or("").trim();
        if word.is_empty() {
            continue;
        }
        let place = format!("{}:{number}", file.name);
        match word.rsplit_once(':').map(|(host, port)| (host, port.parse::<u16>())) {
            // Ports 80 and 443 are open beside a named one, there as here.
            Some((host, Ok(80 | 443))) => reader.draft.allow(host.to_owned(), None, word, &place),
            Some((host, Ok(port))) => reader.draft.allow_beside_web(host.to_owned(), port, word, &place),
            Some((_, Err(_))) => reader.draft.note(ImportNote::Cannot, &place, word, "its port is not a number"),
            None => reader.draft.allow(word.to_owned(), None, word, &place),
        }
    }
    let place = format!("{}:1", file.name);
    let why = "names that lead to private addresses were reachable there; here such an entry needs `private: true`";
    reader.draft.note(ImportNote::Narrower, &place, "the whole list", why);
}
