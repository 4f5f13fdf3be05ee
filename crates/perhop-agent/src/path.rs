//! Responders for the trains of `perhop path --buckets` and `--available`.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::thread;

use perhop_path::Responder;

use crate::limits::Limits;
use crate::options::{Arguments, Opt, wrong};

/// The option that says where they listen.
pub const RESPONDER: Opt = Opt {
    name: "--path",
    value: "ADDRESS:PORT",
    help: "answer trains of perhop path --buckets and --available there, too; repeatable",
};

/// Sessions of a responder, if the agent's owner sets no limits.
const SESSIONS: usize = 1 << 10;

/// Starts the responders that the owner asks for. They answer as long as the process lives. The
/// agent's limits of rate, volume and sessions hold for what its senders send.
///
/// # Errors
/// The exit code of the process, after what is wrong was reported.
pub fn respond(
    command: &'static str,
    arguments: &Arguments,
    limits: &Limits,
) -> Result<(), ExitCode> {
    let limits = perhop_path::Limits {
        max_bps: limits.rate.unwrap_or(u64::MAX),
        max_bytes: limits.volume.unwrap_or(u64::MAX),
        max_sessions: usize::try_from(limits.sessions).unwrap_or(SESSIONS).min(SESSIONS),
    };
    for text in arguments.all(RESPONDER.name) {
        let at: SocketAddr = text.parse().map_err(|_| {
            let expected = "expected an address and port such as 192.0.2.1:4862 or [::]:4862";
            wrong(command, &format!("{} {text:?}: {expected}", RESPONDER.name))
        })?;
        let failed = move |error: &dyn std::fmt::Display| {
            eprintln!("perhop-agent {command}: {} {at}: {error}", RESPONDER.name);
            ExitCode::FAILURE
        };
        let responder = Responder::bind(at, limits).map_err(|error| failed(&error))?;
        let answer = move || {
            if let Err(error) = responder.run(Box::new(|| true)) {
                failed(&error);
            }
        };
        let thread = thread::Builder::new().name("path-responder".into()).spawn(answer);
        thread.map_err(|error| failed(&error))?;
    }
    Ok(())
}
