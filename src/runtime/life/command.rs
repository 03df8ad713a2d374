//! The command of a session: from its start to the end of the teardown, and what is reported of it.

use std::time::{Duration, Instant};

use super::hold::hold;
use super::workspace::Watched;
use super::{Given, LifeError, Order, Progress, Purpose, Tell, leave_rest};
use crate::config::{ImageSource, OnTamper};
use crate::plan::{Plan, trust};
use crate::runtime::RuntimeError;
use crate::runtime::conmon::Inside;
use crate::runtime::exec::{Ended, Exec, Extent, exec};
use crate::runtime::exit;
use crate::runtime::fault::point;
use crate::runtime::image_build::Surroundings;
use crate::runtime::netlog::NetworkLog;
use crate::runtime::output::Rotating;
use crate::runtime::podman::Podman;
use crate::runtime::programs::missing;
use crate::runtime::registry::{Changeable, Entrance, Stage};
use crate::runtime::report::{Outcome, Report};
use crate::runtime::session::Session;
use crate::runtime::signals::Signals;
use crate::runtime::state::State;

/// The exit code of a command that SIGKILL ended.
const KILLED: u8 = exit::SIGNAL_BASE + 9;

/// The exit code of a command that does not exist.
const NOT_FOUND: u8 = 127;

/// A session whose command may start.
pub(super) struct Started<'a> {
    pub(super) podman: &'a Podman,
    pub(super) state: &'a State,
    pub(super) plan: &'a Plan,
    pub(super) session: &'a Session<'a>,
    pub(super) given: &'a Given,
    /// podman's id of the agent's container.
    pub(super) agent: String,
}

/// Runs the command and takes the session down. Returns the exit code.
pub(super) fn execute(
    order: &Order<'_>,
    tell: Tell<'_>,
    started: &Started<'_>,
    signals: &Signals,
    (log, watched): (Option<Rotating>, Option<&Watched>),
    report: &mut Report,
) -> Result<u8, LifeError> {
    let has_network = started.plan.network.is_some();
    let logged = has_network && log.is_some();
    let redactor = || started.given.redactor.clone();
    let decisions =
        has_network.then(|| NetworkLog::follow(&started.session.router_log(), started.plan, redactor(), log));
    let configured = started.plan.agent.main.limits.timeout.as_ref().map(|timeout| Duration::from_secs(timeout.value));
    let age = match order.purpose {
        Purpose::Visits(stay) => stay.most,
        Purpose::Command(_) | Purpose::Build(_) => None,
    };
    let timeout = order.timeout.into_iter().chain(configured).chain(age).min();
    let workspace = &order.config.0.workspace;
    let start = (!workspace.start.as_os_str().is_empty()).then(|| workspace.target.join(&workspace.start));
    let begin = Instant::now();
    started.state.run(
        Entrance {
            container: started.agent.clone(),
            working_dir: start.clone(),
            env_file: started.given.env_file.clone(),
            secrets: started.given.secrets,
        },
        changeable(order, started),
    );
    (order.progress)(Progress::Ready(started.state.session()));
    // What was planted is renamed in any case, and the exit code says that it was there.
    let stops = workspace.on_tamper == OnTamper::Stop;
    let alarm = watched.filter(|_| stops).map(|watched| watched.watch.raised());
    let deadline = timeout.map(|timeout| begin + timeout);
    let ended = match order.purpose {
        Purpose::Visits(stay) => {
            hold((started.podman, started.state, &started.agent), (stay.idle, deadline), signals, alarm)
        }
        Purpose::Build(build) => {
            surroundings(started, signals).and_then(|around| build(&around)).map(|()| Ended::Code(0))
        }
        Purpose::Command(command) => {
            let request = Exec {
                container: &started.agent,
                extent: Extent::Session(started.state),
                command,
                working_dir: start.as_deref(),
                tty: order.tty,
                term: order.term,
                env_file: started.given.env_file.as_deref(),
                secrets: started.given.secrets,
                deadline,
                alarm,
            };
            exec(started.podman, &request, signals)
        }
    };
    report.command_duration = Some(begin.elapsed().as_secs_f64());
    let hints = hints(order, started, ended.as_ref().ok().copied(), report);
    point("command-ended");
    started.state.enter(Stage::Ending);
    end_session(order, tell, started, logged);
    // The router has stopped by now, unless everything is kept and nobody asked for a log.
    if let Some(tally) = decisions.map(NetworkLog::finish) {
        report.decisions(&tally);
        if !order.quiet {
            tally.summary().iter().for_each(|line| tell(line));
        }
    }
    let ended = ended?;
    let (outcome, code) = outcome(ended);
    report.outcome = outcome;
    let error = match ended {
        Ended::Code(_) | Ended::Signalled(_) => None,
        Ended::TimedOut => Some(format!("timed out after {} s", timeout.unwrap_or_default().as_secs())),
        Ended::Alarmed => Some(
            "stopped the command: the workspace now contains something that git or sandboxc on this host would act on"
                .to_owned(),
        ),
    };
    hints.iter().chain(&error).for_each(|line| tell(line));
    report.error = error;
    if ended == Ended::TimedOut {
        report.limits_hit.insert("timeout".to_owned());
    }
    Ok(code)
}

/// The session's network, for a build.
fn surroundings<'a>(started: &Started<'a>, signals: &'a Signals) -> Result<Surroundings<'a>, RuntimeError> {
    let gone = || RuntimeError::Host("the sandbox's container has ended".to_owned());
    let network = Inside::of_id(&started.agent).and_then(|inside| inside.network()).ok_or_else(gone)?;
    let dns = started.plan.agent.dns.as_ref().ok_or_else(gone)?.server;
    let trust = trust::agent_dir(started.state.dir());
    let trust = started.plan.materials.as_ref().map(|_| trust);
    Ok(Surroundings { podman: started.podman, network, dns, trust, signals })
}

/// What a change of the policy needs, if there is a router.
fn changeable(order: &Order<'_>, started: &Started<'_>) -> Option<Changeable> {
    started.plan.network.as_ref()?;
    let allow_private = order.config.0.allow_private.clone();
    Some(Changeable { volume: started.plan.names.router_files.clone(), allow_private })
}

fn outcome(ended: Ended) -> (Outcome, u8) {
    match ended {
        Ended::Code(code) => (Outcome::Exited, code),
        Ended::TimedOut => (Outcome::TimedOut, exit::TIMEOUT),
        Ended::Alarmed => (Outcome::Stopped, exit::PROMISE),
        Ended::Signalled(signal) => (Outcome::Interrupted, exit::SIGNAL_BASE + u8::try_from(signal).unwrap_or(0)),
    }
}

/// What explains the end of the command. Read before the container is removed, together with the kernel's counts.
fn hints(order: &Order<'_>, started: &Started<'_>, ended: Option<Ended>, report: &mut Report) -> Vec<String> {
    let mut hints = Vec::new();
    if matches!(ended, Some(Ended::Code(NOT_FOUND)))
        && let Purpose::Command([program, ..]) = order.purpose
        // Only for a hint: the command may have changed everything that is looked at.
        && !missing(&started.agent, &[program], &[]).is_empty()
    {
        let image = &started.plan.agent.main.image.value;
        let named = match image {
            ImageSource::Containerfile { .. } => "",
            ImageSource::Reference(_) => {
                ", named with `image: {containerfile: Containerfile}` in .sandboxc/sandbox.yaml"
            }
        };
        hints.push(format!(
            "`{program}` is not in the image {}: install it in .sandboxc/Containerfile{named}, then run `sandboxc image build agent`",
            image.reference()
        ));
    }
    if order.wants_report || matches!(ended, Some(Ended::Code(KILLED))) {
        let hit = started.session.limits_hit();
        if hit.contains(&"memory") && matches!(ended, Some(Ended::Code(KILLED))) {
            hints.extend(started.session.out_of_memory());
        }
        report.limits_hit.extend(hit.into_iter().map(str::to_owned));
    }
    hints
}

/// Removes everything, unless `--keep` was given.
fn end_session(order: &Order<'_>, tell: Tell<'_>, started: &Started<'_>, logged: bool) {
    let names = &started.plan.names;
    if !order.keep {
        return leave_rest(started.state, &started.session.end());
    }
    if logged {
        started.session.stop_router();
    }
    tell(&format!(
        "--keep: the next `sandboxc gc` removes the pods {} and {} and the network {}",
        names.agent_pod, names.router_pod, names.internal_network
    ));
}
