//! Connections of clients, which open and close during the run.

use std::error::Error;
use std::time::Instant;

use bytes::Bytes;
use perhop_app::{Action, Request};
use perhop_socket::Nanos;
use quinn_proto::ConnectionHandle;

use super::driver::{Driver, Opening};
use super::end::End;
use super::link::Link;
use crate::app::{ATTEMPTS, check_files, client_address};
use crate::shared::StreamId;

/// Time after which a server forgets a connection whose client is gone: the idle timeout of most
/// implementations, and of modelled hosts (RFC 9000, section 10.1, leaves it open).
pub(super) const IDLE_TIMEOUT: Nanos = 30_000_000_000;

impl Driver<'_> {
    /// Carries out the actions of clients.
    pub(super) fn act(&mut self) -> std::io::Result<()> {
        while let Some((id, action)) = self.clients.next() {
            match action {
                Action::Open { connection, .. } => {
                    if let Err(error) = self.open((id, connection)) {
                        let what = format!("cannot open a connection: {error}");
                        self.clients.cannot_open((id, connection), what);
                    }
                }
                Action::Request { connection, request } => {
                    self.request((id, connection), request)?;
                }
                Action::Close { connection } => self.close((id, connection))?,
                Action::Finished(_) => {}
            }
        }
        Ok(())
    }

    /// Opens a connection of a client, from a socket of its own.
    fn open(&mut self, of: (StreamId, u32)) -> Result<(), Box<dyn Error>> {
        let (id, number) = of;
        check_files(self.ends.len() + 1, self.most)?;
        let server = self.shared.at(id).1.server;
        let mut tried = 0;
        let at = loop {
            let at = client_address(self.shared, id, number.wrapping_add(tried))?;
            if !self.expected.contains_key(&(at, server)) {
                break at;
            }
            tried += 1;
            if tried > ATTEMPTS {
                return Err("no port is free".into());
            }
        };
        let socket = self.sockets.open(id.flow, at)?;
        socket.connect(server)?;
        let mut endpoint = self.endpoint(None);
        let settings = self.settings.get(&id.flow).ok_or("it has no settings")?;
        // The name is not verified; the key is.
        let config = settings.client.clone();
        let (handle, connection) = endpoint.connect(Instant::now(), config, server, "perhop")?;
        let mut end = End::new(socket, at, Some((id, server)), endpoint);
        end.links.insert(handle, Link::client(of, connection, self.data.clone()));
        let token = self.add(end)?;
        self.expected.insert((at, server), Opening { of, accepted: None });
        self.at_clients.insert(of, (token, handle));
        Ok(self.drive(token, handle)?)
    }

    fn request(&mut self, of: (StreamId, u32), request: Request) -> std::io::Result<()> {
        let Some(&(number, handle)) = self.at_clients.get(&of) else { return Ok(()) };
        if let Some(link) = self.link(number, handle) {
            link.request(request);
        }
        self.drive(number, handle)
    }

    fn close(&mut self, of: (StreamId, u32)) -> std::io::Result<()> {
        let Some((number, handle)) = self.at_clients.remove(&of) else { return Ok(()) };
        if let Some(link) = self.link(number, handle) {
            link.close(Instant::now());
        }
        self.drive(number, handle)
    }

    fn link(&mut self, number: usize, handle: ConnectionHandle) -> Option<&mut Link> {
        self.ends.get_mut(&number)?.links.get_mut(&handle)
    }
}

/// Contents of data.
pub(super) fn zeros(length: usize) -> Bytes {
    Bytes::from(vec![0; length])
}
