//! Installed units with secrets: who has the values, for how long, and when nothing starts.

use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::fs;
use std::os::unix::fs::{MetadataExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use sha2::{Digest as _, Sha256};

use crate::harness::{Sandbox, code, look_into, podman, text, unique, wait_until};
use crate::quadlet_live::{Installed, config_home, journal, property, systemctl};
use crate::secrets::{holding, in_file, server, visible};

const HOST: &str = "api.example.com";

/// Needs quoting in a shell, in a unit, in an environment file, and in a service's command line.
const ODD: &str = "a'b \"c\" $HOME ${X} `id` \\n \\ %h %% #ü\u{fffe}";

const MASKED: &str =
    "  masked_secrets:\n    TOKEN: {value: !file token, scopes: [api.example.com], headers: [authorization]}\n";

/// A repo file with this script as its command.
fn repo(script: &str) -> String {
    format!("version: 1\ncommand: [sh, -c, {script:?}]\nnetwork: {{allow: [{HOST}, sub.example.org]}}\n")
}

/// Where the keys and values are while the units run.
fn held(installed: &Installed) -> PathBuf {
    let runtime = PathBuf::from(std::env::var_os("XDG_RUNTIME_DIR").unwrap());
    runtime.join("sandboxc-units").join(installed.prefix())
}

fn keeper(installed: &Installed) -> String {
    installed.part("materials")
}

fn read(installed: &Installed, name: &str) -> String {
    fs::read_to_string(installed.sandbox.repo().join(name)).unwrap_or_default()
}

fn wait_for(installed: &Installed, name: &str) {
    let path = installed.sandbox.repo().join(name);
    wait_until(name, || path.exists() || property(&installed.agent, "ActiveState") == "failed");
    assert!(path.exists(), "{}", journal(&installed.agent));
}

fn gone(installed: &Installed) {
    assert!(installed.gone(), "left: {}", installed.left());
    assert!(!held(installed).exists(), "the values are still there");
}

#[test]
fn values_are_in_memory_for_as_long_as_the_set_runs_and_reach_who_needs_them() {
    let sandbox = Sandbox::alone_with("version: 1\n", "version: 1\n");
    let since = sandbox.scratch("since");
    fs::write(&since, "").unwrap();
    let value = in_file(&sandbox, "token");
    let plain = format!("{}{ODD}", unique());
    fs::write(sandbox.config_home().join("sandboxc/plain"), &plain).unwrap();
    let digest = Sha256::digest(&value).iter().fold(String::new(), |mut hex, byte| {
        let _ = write!(hex, "{byte:02x}");
        hex
    });
    let get = format!(
        "printf %s \"$PLAIN\" >plain; echo $TOKEN >surrogate; echo \"$GREETING\" >greeting; cat /proc/1/cmdline >line; \
         for host in {HOST} sub.example.org; do curl -sS -o answer-$host -w '%{{http_code}} ' \
         -H \"Authorization: Bearer $(test $host = {HOST} && echo $TOKEN)\" https://$host/wants/{digest}/echo/x; done >status; \
         touch started; exec sleep 300"
    );
    let greeting = "hello $x ${y} \"%h\" 'z'";
    let config = format!("{}env: {{GREETING: !env GREETING}}\n", repo(&get));
    fs::write(sandbox.repo().join(".sandboxc/sandbox.yaml"), config).unwrap();
    let lines = format!("  pass_env: [GREETING]\n  secrets: {{PLAIN: !file plain}}\n{MASKED}");
    fs::write(sandbox.config_home().join("sandboxc/server.yaml"), server(&lines)).unwrap();
    let installed = Installed::with_env("q-secret", sandbox, &[("GREETING", greeting)]);

    let directory = held(&installed);
    // Leftovers of a killed start, with links in them.
    fs::create_dir_all(directory.join("router")).unwrap();
    symlink(installed.sandbox.repo(), directory.join("agent")).unwrap();
    symlink(installed.sandbox.repo().join("followed"), directory.join("surrogates")).unwrap();
    let started = systemctl(&["start", &installed.agent]);
    assert!(started.status.success(), "{} {}", text(&started.stderr), journal(&keeper(&installed)));
    wait_for(&installed, "started");
    assert_eq!(read(&installed, "status"), "200 401 ", "{}", read(&installed, "answer-api.example.com"));
    assert_eq!(read(&installed, "plain"), plain);
    assert_eq!(read(&installed, "greeting").trim(), greeting);
    let surrogate = read(&installed, "surrogate");
    assert!(surrogate.trim().len() == value.len() && !surrogate.contains(&value), "{surrogate}");
    assert!(!installed.sandbox.repo().join("followed").exists());
    assert_eq!(fs::metadata(&directory).unwrap().mode() & 0o777, 0o700);

    // In the router and in the directory, and nowhere else.
    let all = |dir: &Path| text(&Command::new("grep").args(["-rF", "--", &value]).arg(dir).output().unwrap().stdout);
    assert!(all(&directory).contains("credentials.json"), "the search can find it");
    let router = format!("{}-router-router", installed.prefix());
    assert!(look_into(&router, "cat run/sandboxc/credentials.json").contains(&value));
    let seen = visible();
    assert!(seen.contains(&router), "the probe sees the set");
    let storage = podman(&["info", "--format", "{{.Store.GraphRoot}}"]);
    for secret in [value.as_str(), &plain[..20]] {
        assert!(!seen.contains(secret));
        assert_eq!(holding(secret, storage.trim(), &since), "");
        assert_eq!(holding(secret, config_home().to_str().unwrap(), &since), "");
    }
    let says = ["--user", "--no-pager", "-o", "verbose", "--since", "-10min"];
    let said = text(&Command::new("journalctl").args(says).output().unwrap().stdout);
    assert!(said.contains(&keeper(&installed)) && !said.contains(&value) && !said.contains(&plain[..20]));
    assert_eq!(all(&installed.sandbox.repo()), "");

    // A restart is another run, with a new surrogate.
    fs::remove_file(installed.sandbox.repo().join("started")).unwrap();
    assert!(systemctl(&["restart", &installed.agent]).status.success(), "{}", journal(&installed.agent));
    wait_for(&installed, "started");
    assert_eq!(read(&installed, "status"), "200 401 ");
    assert_ne!(read(&installed, "surrogate"), surrogate);
    assert!(systemctl(&["stop", &installed.agent]).status.success());
    gone(&installed);
    assert_eq!(property(&keeper(&installed), "Result"), "success");
    assert_eq!(holding(&value, &std::env::var("XDG_RUNTIME_DIR").unwrap(), &since), "");
}

#[test]
fn either_identity_and_a_sandbox_without_a_router_get_their_secrets() {
    let script =
        "printf %s $PLAIN >plain; curl -sS -o answer -w '%{http_code}' https://api.example.com/x >status; id -u >id";
    let ends = [("identity: root\n", "0", "200"), ("", "1000", "200")];
    for (identity, id, status) in ends {
        let sandbox = Sandbox::with(
            &format!("{}{identity}", repo(script)),
            &server(&format!("  secrets: {{PLAIN: a-value}}\n{MASKED}")),
        );
        in_file(&sandbox, "token");
        let installed = Installed::of("q-identity", sandbox);
        assert!(installed.run().status.success(), "{}", journal(&installed.agent));
        assert_eq!((read(&installed, "plain").as_str(), read(&installed, "id").trim()), ("a-value", id));
        assert_eq!(read(&installed, "status"), status);
        gone(&installed);
    }
    let off = server("  network: {sandbox_enabled: false}\n  secrets: {PLAIN: a-value}\n");
    let installed = Installed::of("q-off", Sandbox::with(&repo("printf %s $PLAIN >plain"), &off));
    assert!(installed.run().status.success(), "{}", journal(&keeper(&installed)));
    assert_eq!(read(&installed, "plain"), "a-value");
    gone(&installed);
}

/// A start during a stop would find the previous run's keys and router.
#[test]
fn each_start_has_surrogates_of_its_own_however_soon_it_comes() {
    let script = format!(
        "echo $TOKEN $(curl -sS -o answer -w '%{{http_code}}' -H \"Authorization: $TOKEN\" https://{HOST}/x) >>runs"
    );
    let sandbox = Sandbox::with(&repo(&script), &server(MASKED));
    in_file(&sandbox, "token");
    let installed = Installed::of("q-soon", sandbox);
    // systemd may refuse a start that meets a part that is just stopping; then there is no run.
    let mut started = 0;
    for pause in [0, 0, 200, 600, 1000, 1400] {
        started += usize::from(installed.run().status.success());
        std::thread::sleep(std::time::Duration::from_millis(pause));
    }
    gone(&installed);
    let runs = read(&installed, "runs");
    let surrogates: BTreeSet<&str> = runs.lines().filter_map(|line| line.split(' ').next()).collect();
    assert!(started >= 3, "{started} {}", journal(&installed.agent));
    assert_eq!((surrogates.len(), runs.matches(" 200\n").count()), (started, started), "{runs}");
}

#[test]
fn the_agents_end_its_failure_and_the_routers_take_the_values_away() {
    let sandbox =
        Sandbox::with(&repo("[ -e wait ] && touch started && exec sleep 300; sleep 1; exit 7"), &server(MASKED));
    in_file(&sandbox, "token");
    let installed = Installed::of("q-secret-end", sandbox);
    assert!(!installed.run().status.success());
    assert_eq!(property(&installed.agent, "ExecMainStatus"), "7", "{}", journal(&keeper(&installed)));
    gone(&installed);

    fs::write(installed.sandbox.repo().join("wait"), "").unwrap();
    let target = installed.agent.replace(".service", ".target");
    assert!(systemctl(&["start", &target]).status.success());
    wait_for(&installed, "started");
    assert!(held(&installed).join("router/credentials.json").exists());
    assert!(systemctl(&["stop", &target]).status.success());
    gone(&installed);

    assert!(systemctl(&["start", &installed.agent]).status.success());
    podman(&["kill", &format!("{}-router-router", installed.prefix())]);
    gone(&installed);
    assert_ne!(property(&installed.agent, "ActiveState"), "active");

    // Without the values, nothing starts.
    assert!(systemctl(&["start", &installed.agent]).status.success());
    assert!(systemctl(&["stop", &keeper(&installed)]).status.success());
    gone(&installed);
}

#[test]
fn gc_and_ps_see_no_session_of_a_runner_and_stop_ends_it() {
    let sandbox = Sandbox::with(&repo("exec sleep 300"), &server(MASKED));
    in_file(&sandbox, "token");
    let installed = Installed::of("q-secret-gc", sandbox);
    assert!(systemctl(&["start", &installed.agent]).status.success(), "{}", journal(&keeper(&installed)));
    for command in ["gc", "ps"] {
        let output = installed.as_user(&[command]).output().unwrap();
        assert!(code(&output) == 0 && !text(&output.stdout).contains("q-secret-gc"), "{}", text(&output.stdout));
    }
    assert!(held(&installed).join("router/credentials.json").exists());
    assert_eq!(property(&installed.agent, "ActiveState"), "active");
    assert_eq!(code(&installed.as_user(&["stop", "q-secret-gc"]).output().unwrap()), 0);
    gone(&installed);
}

#[test]
fn a_config_that_has_changed_since_is_not_given_its_secrets() {
    let sandbox = Sandbox::with(&repo("touch started"), &server(MASKED));
    in_file(&sandbox, "token");
    let installed = Installed::of("q-drift", sandbox);
    let repo_file = installed.sandbox.repo().join(".sandboxc/sandbox.yaml");
    let server_file = installed.sandbox.config_home().join("sandboxc/server.yaml");
    let changed = [(&repo_file, "network.allow"), (&server_file, "masked_secrets and other credentials")];
    for (path, key) in changed {
        let before = fs::read_to_string(path).unwrap();
        let after =
            before.replace("[api.example.com]", "[sub.example.org]").replace("sub.example.org]}", "x.example.org]}");
        assert_ne!(before, after);
        fs::write(path, after).unwrap();
        assert!(!installed.run().status.success());
        assert_eq!(property(&keeper(&installed), "ExecMainStatus"), "125");
        let said = || journal(&keeper(&installed));
        let told =
            format!("the config has changed since these units were compiled ({key}): compile or install them again");
        wait_until(&told, || said().contains(&told));
        assert!(!installed.sandbox.repo().join("started").exists(), "the command ran");
        gone(&installed);
        fs::write(path, before).unwrap();
    }
    // A comment does not change anything, and what the command creates in the workspace is not part of the config.
    let text_of = fs::read_to_string(&repo_file).unwrap();
    fs::write(&repo_file, format!("# a comment\n{text_of}")).unwrap();
    fs::create_dir_all(installed.sandbox.repo().join(".git/hooks")).unwrap();
    assert!(installed.run().status.success(), "{}", journal(&keeper(&installed)));
    assert!(installed.sandbox.repo().join("started").exists());
    gone(&installed);
}

#[test]
fn a_value_that_is_missing_is_named_and_nothing_starts() {
    let name = format!("SANDBOXC_TEST_{}", unique());
    let lines = MASKED.replace("!file token", &format!("!env {name}"));
    let sandbox = Sandbox::with(&repo("touch started"), &server(&lines));
    let installed = Installed::of("q-missing", sandbox);
    assert!(!installed.run().status.success());
    assert_eq!(property(&keeper(&installed), "ExecMainStatus"), "125");
    // The journal receives lines of an ended process with a delay.
    wait_until("the finding in the journal", || {
        let said = journal(&keeper(&installed));
        ["TOKEN", "server.yaml:7:", &name, "nothing was run"].iter().all(|word| said.contains(word))
    });
    let status = text(&systemctl(&["status", &keeper(&installed)]).stdout);
    assert!(status.contains("status=125"), "{status}");
    assert!(!installed.sandbox.repo().join("started").exists(), "the command ran");
    gone(&installed);
    // The user manager has the variable.
    assert!(systemctl(&["set-environment", &format!("{name}=a-real-value")]).status.success());
    let output = installed.run();
    systemctl(&["unset-environment", &name]);
    assert!(output.status.success(), "{}", journal(&keeper(&installed)));
    gone(&installed);
}

#[test]
fn units_that_would_not_find_the_program_are_not_installed() {
    let sandbox = Sandbox::with(&repo("true"), &server(MASKED));
    in_file(&sandbox, "token");
    let installed = Installed::of("q-program", sandbox);
    assert_eq!(code(&installed.as_user(&["uninstall", "q-program"]).output().unwrap()), 0);
    let service = config_home().join("systemd/user").join(keeper(&installed));
    assert!(!service.exists() && !installed.place().exists());
    let units = installed.sandbox.scratch("units/q-program");
    let elsewhere = installed.sandbox.scratch("home");
    let output = installed.as_user(&["install"]).arg(&units).env("HOME", elsewhere).output().unwrap();
    let said = text(&output.stderr);
    assert_eq!(code(&output), 125, "{said}");
    assert!(said.contains(".local/bin") && said.contains("nothing was installed"), "{said}");
    assert!(!service.exists() && !installed.place().exists());
    assert_eq!(code(&installed.install()), 0);
    assert!(service.exists() && installed.run().status.success(), "{}", journal(&keeper(&installed)));
    gone(&installed);
}

#[test]
fn a_schedule_reads_the_secrets_each_time() {
    let sandbox = Sandbox::with(&repo("echo $PLAIN $TOKEN >>runs"), "version: 1\n");
    in_file(&sandbox, "token");
    let (path, entry) = (sandbox.repo(), "    schedule: \"*-*-* *:*:0/4\"\n    secrets: {PLAIN: !file plain}\n");
    let lines = format!(
        "version: 1\nnetwork: {{reachable: [203.0.113.0/24]}}\ndefaults:\n{MASKED}repos:\n  Q.Secrets:\n    path: {}\n{entry}",
        path.display()
    );
    fs::write(sandbox.config_home().join("sandboxc/server.yaml"), &lines).unwrap();
    let plain = sandbox.config_home().join("sandboxc/plain");
    fs::write(&plain, "first").unwrap();
    let server_file = sandbox.config_home().join("sandboxc/server.yaml");
    let install = ["install", "Q.Secrets", "--server", server_file.to_str().unwrap()];
    let output = sandbox.command(&install).env("XDG_CONFIG_HOME", config_home()).output().unwrap();
    assert_eq!(code(&output), 0, "{}", text(&output.stderr));
    let agent = text(&output.stdout).trim().to_owned();
    let installed = Installed { sandbox, session: "q-secrets".to_owned(), agent };
    wait_until("a run", || read(&installed, "runs").contains("first"));
    fs::write(&plain, "second").unwrap();
    wait_until("another run", || read(&installed, "runs").contains("second"));
    let runs = read(&installed, "runs");
    let surrogates: Vec<&str> = runs.lines().filter_map(|line| line.split(' ').nth(1)).collect();
    assert_ne!(surrogates.first(), surrogates.last(), "{runs}");
    assert_eq!(code(&installed.as_user(&["uninstall", "Q.Secrets"]).output().unwrap()), 0);
    gone(&installed);
    assert!(!config_home().join("systemd/user").join(keeper(&installed)).exists());
}
