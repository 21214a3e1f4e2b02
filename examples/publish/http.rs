//! The receiver: a few lines of HTTP/1.1 on loopback that publish each idempotency key once, and its client.

use std::{
    io::{self, Read as _, Write as _},
    net::{TcpListener, TcpStream},
    sync::{Arc, Mutex},
};

use durably::approval::{Effect, IdempotencyKey, Lookup, Receiver};

/// What was published: keys and texts.
type Published = Arc<Mutex<Vec<(String, String)>>>;

/// The server, or where it is.
#[derive(Clone, Debug)]
pub(crate) struct Server {
    address: String,
    published: Published,
}

impl Server {
    /// Where another process has started it.
    pub(crate) fn at(address: &str) -> Self {
        Self { address: address.to_owned(), published: Published::default() }
    }

    /// Starts it in this process.
    pub(crate) fn start() -> io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0")?;
        let server = Self::at(&listener.local_addr()?.to_string());
        let published = server.published.clone();
        std::thread::spawn(move || {
            for connection in listener.incoming().flatten() {
                // A client that goes away harms nobody else.
                let _ = serve(connection, &published);
            }
        });
        Ok(server)
    }

    pub(crate) fn address(&self) -> &str {
        &self.address
    }

    /// What was published, in order.
    pub(crate) fn published(&self) -> Vec<String> {
        self.published.lock().map(|all| all.iter().map(|(_, text)| text.clone()).collect()).unwrap_or_default()
    }

    /// Publishes a text. What is not a clear answer is not known.
    pub(crate) async fn publish(&self, text: &str, key: &str) -> Effect<String> {
        let head = format!("POST /texts HTTP/1.1\r\nIdempotency-Key: {key}\r\nContent-Length: {}\r\n\r\n", text.len());
        match self.ask(head + text).await {
            Ok((201, receipt)) => Effect::Applied { receipt },
            Ok((status @ 400..=499, why)) => Effect::NotApplied { proof: format!("{status} {why}") },
            Ok((status, why)) => Effect::Unknown { why: format!("{status} {why}") },
            Err(error) => Effect::Unknown { why: error.to_string() },
        }
    }

    async fn ask(&self, request: String) -> io::Result<(u16, String)> {
        let address = self.address.clone();
        let asked = tokio::task::spawn_blocking(move || {
            let mut connection = TcpStream::connect(address)?;
            connection.write_all(request.as_bytes())?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer)?;
            let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok());
            let (_, body) = answer.split_once("\r\n\r\n").unwrap_or_default();
            Ok((status.ok_or(io::ErrorKind::InvalidData)?, body.to_owned()))
        });
        asked.await?
    }
}

impl Receiver for Server {
    type Receipt = String;

    async fn lookup(&self, key: &IdempotencyKey) -> Lookup<String> {
        match self.ask(format!("GET /texts/{key} HTTP/1.1\r\n\r\n")).await {
            Ok((200, receipt)) => Lookup::Applied { receipt },
            Ok((404, _)) => Lookup::NotApplied { proof: "the server has never seen this key".to_owned() },
            Ok((status, why)) => Lookup::CannotTell { why: format!("{status} {why}") },
            Err(error) => Lookup::CannotTell { why: error.to_string() },
        }
    }
}

/// Answers one request.
fn serve(mut connection: TcpStream, published: &Published) -> io::Result<()> {
    let (mut request, mut part) = (Vec::new(), [0; 1024]);
    let (head, body) = loop {
        let count = connection.read(&mut part)?;
        request.extend_from_slice(&part[..count]);
        let text = String::from_utf8_lossy(&request).into_owned();
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let length = header(head, "Content-Length").and_then(|length| length.parse().ok()).unwrap_or(0);
            if body.len() >= length || count == 0 {
                break (head.to_owned(), body.to_owned());
            }
        } else if count == 0 {
            return Ok(());
        }
    };
    let Ok(mut published) = published.lock() else { return Ok(()) };
    let place = |key: &str, published: &[(String, String)]| published.iter().position(|(known, _)| known == key);
    let (status, answer) = match (head.starts_with("POST"), header(&head, "Idempotency-Key")) {
        (true, None) => ("400 Bad Request", "a key is wanted".to_owned()),
        (true, Some(key)) => {
            // The same key again: the same answer, and nothing is published again.
            let place = place(key, &published).unwrap_or_else(|| {
                published.push((key.to_owned(), body));
                published.len() - 1
            });
            ("201 Created", format!("published as number {}", place + 1))
        }
        (false, _) => {
            let key = head.split(' ').nth(1).and_then(|path| path.strip_prefix("/texts/")).unwrap_or_default();
            match place(key, &published) {
                Some(place) => ("200 OK", format!("published as number {}", place + 1)),
                None => ("404 Not Found", String::new()),
            }
        }
    };
    let length = answer.len();
    write!(connection, "HTTP/1.1 {status}\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{answer}")
}

fn header<'h>(head: &'h str, name: &str) -> Option<&'h str> {
    head.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(": "))
}
