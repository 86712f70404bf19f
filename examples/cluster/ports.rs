//! Ports for servers on this machine.

use std::io;
use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

const FIRST: u16 = 10_000;
const COUNT: u16 = 20_000;

/// A port that nobody listens to, and none of those that the system gives to connections: one of these
/// could be taken before it is bound.
pub(crate) fn free_port() -> io::Result<u16> {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let next = || std::process::id() * 50 + NEXT.fetch_add(1, Ordering::Relaxed);
    let ports = (0..COUNT).map(|_| next() % u32::from(COUNT));
    let mut ports = ports.filter_map(|port| Some(FIRST + u16::try_from(port).ok()?));
    let port = ports.find(|port| TcpListener::bind((Ipv4Addr::LOCALHOST, *port)).is_ok());
    port.ok_or_else(|| io::Error::new(io::ErrorKind::AddrInUse, "no port is free"))
}
