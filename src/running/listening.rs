//! Where a program of this machine listens: what another program's command line claims is asked of nobody else.

use std::net::SocketAddr;

/// The socket that process `pid` listens on with `port`, on one of this machine's own addresses; none if it has none there,
/// or is another user's and this is not the administrator.
#[cfg(target_os = "linux")]
pub fn socket(pid: u32, port: u16) -> Option<SocketAddr> {
    let own = linux::sockets(std::path::Path::new("/proc"), pid);
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|path| std::fs::read_to_string(path).unwrap_or_default());
    tables.iter().find_map(|table| linux::listening(table, port, &own))
}

/// The loopback address with `port`: this system does not say whose sockets there are.
#[cfg(not(target_os = "linux"))]
#[allow(clippy::unnecessary_wraps, reason = "as where the system says it")]
pub fn socket(_: u32, port: u16) -> Option<SocketAddr> {
    Some((std::net::Ipv4Addr::LOCALHOST, port).into())
}

/// The kernel's tables (`Documentation/networking/proc_net_tcp.rst`, Linux 6.12).
#[cfg(target_os = "linux")]
mod linux {
    use std::collections::BTreeSet;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
    use std::path::Path;

    /// `TCP_LISTEN`
    const LISTENS: &str = "0A";

    /// The numbers of the sockets that a process has open; none if it is another user's.
    pub fn sockets(proc: &Path, pid: u32) -> BTreeSet<u64> {
        let Ok(open) = std::fs::read_dir(proc.join(format!("{pid}/fd"))) else { return BTreeSet::new() };
        let number =
            |path: std::path::PathBuf| path.to_str()?.strip_prefix("socket:[")?.strip_suffix(']')?.parse().ok();
        open.filter_map(|entry| number(std::fs::read_link(entry.ok()?.path()).ok()?)).collect()
    }

    /// Where the one of `own` that listens with `port` does so.
    pub fn listening(table: &str, port: u16, own: &BTreeSet<u64>) -> Option<SocketAddr> {
        table.lines().skip(1).find_map(|line| {
            let words: Vec<&str> = line.split_whitespace().take(10).collect();
            let (local, state, inode) = (words.get(1)?, words.get(3)?, words.get(9)?);
            let address = address(local).filter(|address| address.port() == port)?;
            (*state == LISTENS && own.contains(&inode.parse().ok()?)).then_some(address)
        })
    }

    /// `0100007F:1F90`: words of four bytes, each in the order of this machine. An address that stands for all of this
    /// machine's own is the one that loops back.
    fn address(text: &str) -> Option<SocketAddr> {
        let (host, port) = text.split_once(':')?;
        let port = u16::from_str_radix(port, 16).ok()?;
        let word = |at: usize| Some(u32::from_str_radix(host.get(at * 8..at * 8 + 8)?, 16).ok()?.to_ne_bytes());
        let address: IpAddr = match host.len() {
            8 => Ipv4Addr::from(word(0)?).into(),
            32 => {
                let words = [word(0)?, word(1)?, word(2)?, word(3)?];
                Ipv6Addr::from(<[u8; 16]>::try_from(words.concat()).ok()?).to_canonical()
            }
            _ => return None,
        };
        let address = match address {
            IpAddr::V4(all) if all.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(all) if all.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
            one => one,
        };
        Some(SocketAddr::new(address, port))
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        const TABLE: &str = "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode\n\
             0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 41 1 0 100 0 0 10 0\n\
             1: 00000000:1F91 00000000:0000 0A 00000000:00000000 00:00000000 00000000  1000        0 42 1 0 100 0 0 10 0\n\
             2: 0100007F:1F92 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1000        0 43 1 0 100 0 0 10 0\n\
             3: 00000000000000000000000001000000:1F93 00000000000000000000000000000000:0000 0A 00000000:00000000 00:00000000 \
             00000000  1000        0 44 1 0 100 0 0 10 0\n";

        #[cfg(target_endian = "little")]
        #[test]
        fn only_own_sockets_that_listen_count() {
            let own = BTreeSet::from([41, 42, 43, 44]);
            let at = |port| listening(TABLE, port, &own).map(|address| address.to_string());
            assert_eq!(at(8080).as_deref(), Some("127.0.0.1:8080"));
            assert_eq!(at(8081).as_deref(), Some("127.0.0.1:8081"), "all addresses");
            assert_eq!(at(8082), None, "a connection");
            assert_eq!(at(8083).as_deref(), Some("[::1]:8083"));
            assert_eq!(at(8084), None);
            assert_eq!(listening(TABLE, 8080, &BTreeSet::from([42])), None, "another process's");
            assert_eq!(listening("x\n\n0: zz:zz 0 0A\n", 8080, &own), None);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::TcpListener;

    use super::*;

    #[cfg(target_os = "linux")]
    #[test]
    fn a_socket_belongs_to_the_process_that_listens() {
        let own = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = own.local_addr().unwrap();
        assert_eq!(socket(std::process::id(), address.port()), Some(address));
        // the parent of a test listens on nothing of ours
        assert_eq!(socket(std::os::unix::process::parent_id(), address.port()), None);
        drop(own);
        assert_eq!(socket(std::process::id(), address.port()), None);
        let all = TcpListener::bind("0.0.0.0:0").unwrap();
        let port = all.local_addr().unwrap().port();
        assert_eq!(socket(std::process::id(), port).unwrap().to_string(), format!("127.0.0.1:{port}"));
    }
}
