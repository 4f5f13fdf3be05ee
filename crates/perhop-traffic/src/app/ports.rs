//! Ports of clients.

use perhop_workload::FIRST_SOURCE_PORT;

/// Returns the port of a client's connection, as modelled hosts have it: those of several clients
/// alternate, and they are used in turn. `None` if there are too many clients.
pub(crate) fn client_port(client: usize, clients: u16, connection: u32) -> Option<u16> {
    let ports = u32::from(u16::MAX - FIRST_SOURCE_PORT) + 1;
    let turns = ports.checked_div(clients.into()).filter(|turns| *turns > 0)?;
    let place = connection % turns * u32::from(clients) + client as u32;
    Some(FIRST_SOURCE_PORT + place as u16)
}

/// Returns the number of the client to which a port belongs.
pub(crate) fn client_of(port: u16, clients: usize) -> Option<usize> {
    Some(usize::from(port.checked_sub(FIRST_SOURCE_PORT)?) % clients)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_port_says_whose_it_is(
            clients in 1..16_384_u16, client: u16, connection in 0..u32::MAX,
        ) {
            let client = usize::from(client % clients);
            let port = client_port(client, clients, connection).unwrap();
            prop_assert!(port >= FIRST_SOURCE_PORT);
            prop_assert_eq!(client_of(port, clients.into()), Some(client));
            let next = client_port(client, clients, connection.wrapping_add(1)).unwrap();
            prop_assert!(clients > 8192 || next != port, "no port is used twice in a row");
        }
    }

    #[test]
    fn too_many_clients_have_no_ports() {
        assert_eq!(client_port(0, 16_385, 0), None);
        assert_eq!(client_port(0, 0, 0), None);
        assert_eq!(client_of(80, 1), None);
    }
}
