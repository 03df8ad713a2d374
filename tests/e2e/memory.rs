//! The memory of the agent's processes contains surrogates and no values, wherever clients store requests and
//! responses.

use std::collections::BTreeSet;
use std::io::Write as _;
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};

use crate::clients::{AWS_ID, AWS_SECRET, server};
use crate::harness::{Sandbox, in_base64, internet_log, internet_log_end, json, podman, text, unique, wait_until};
use crate::live::Live;
use crate::trust::{CLIENTS, import_clients};

/// Sends requests with several libraries and credentials, keeps every response, and repeats that when told to.
const KEEPER: &str = r#"
import base64, http.client, json, os, pathlib, subprocess, time, urllib.request
import boto3, httpx, requests
from botocore.config import Config

token, url = os.environ["TOKEN"], os.environ["U"]
held, basic = [], base64.b64encode(f"user:{token}".encode()).decode()

def ask():
    for scheme in ("Bearer " + token, "token " + token, token, "Basic " + basic):
        headers = {"authorization": scheme}
        held.append(requests.get(url + "/echo/requests", headers=headers).text)
        held.append(httpx.get(url + "/echo/httpx", headers=headers, timeout=20).content)
        with urllib.request.urlopen(urllib.request.Request(url + "/echo/urllib", headers=headers)) as answer:
            held.append(answer.read())
        # What the service says that it was sent, all headers.
        held.append(requests.get("https://api.example.com/plain", headers=headers).json())
    held.append(requests.get(url + "/events/v1", headers={"x-api-key": token}).text)
    s3 = boto3.client("s3", endpoint_url="https://aws.example.net", region_name="eu-west-1",
                      config=Config(signature_version="s3v4", s3={"addressing_style": "path"}))
    s3.put_object(Bucket="bucket", Key=os.environ["MARK"], Body=b"hello")
    held.append(s3.generate_presigned_url("get_object", {"Bucket": "bucket", "Key": os.environ["MARK"]}))
    foreign = requests.get("https://aws.example.net/bucket/x", headers={"authorization": "AWS4-HMAC-SHA256 Credential=AKIAFOREIGN0000000"})
    held.append((foreign.status_code, foreign.text))

# The second one sends for as long as its pipe is open.
auth = ["-sSN", "-H", "Authorization: Bearer " + token]
curl = subprocess.Popen(["curl", *auth, url + "/echo/curl", "--next", *auth, "-T", "-", url + "/echo/put"],
                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
held.append(curl.stdout.read1(65536))
node = subprocess.Popen(["node", "-e", """
    const [url, token] = [process.env.U, process.env.TOKEN];
    fetch(url + '/echo/node', { headers: { authorization: 'Bearer ' + token } }).then((r) => r.text()).then((t) => {
        globalThis.held = t; console.log(t.length); setInterval(() => 0, 1000); });
"""], stdout=subprocess.PIPE)
node.stdout.readline()
ask()
pathlib.Path("first").touch()
while not pathlib.Path("go").exists():
    time.sleep(0.05)
held.clear()
ask()
pathlib.Path("second").touch()
time.sleep(600)
"#;

struct Search {
    live: Live,
    needles: Value,
}

impl Search {
    /// The agent's pod.
    fn agents(&self) -> Vec<String> {
        let [agent, forwarder] = ["agent", "forwarder"].map(|name| self.live.container("agent", name));
        let pod = podman(&["inspect", "--format", "{{.Pod}}", &agent]);
        let infra = podman(&["pod", "inspect", "--format", "{{.InfraContainerID}}", pod.trim()]);
        vec![agent, forwarder, infra.trim().to_owned()]
    }

    /// The memory of each process in these containers; all readable memory must have been read.
    fn run(&self, containers: &[String]) -> Vec<Value> {
        let pid = |container: &String| {
            podman(&["inspect", "--format", "{{.State.Pid}}", container]).trim().parse::<u32>().unwrap()
        };
        let pids: serde_json::Map<String, Value> =
            containers.iter().map(|container| (container.clone(), pid(container).into())).collect();
        let mut child = Command::new("podman")
            .args(["unshare", "python3", "-c", include_str!("memory.py")])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let asked = json!({"containers": pids, "needles": self.needles}).to_string();
        child.stdin.take().unwrap().write_all(asked.as_bytes()).unwrap();
        let all = json(&text(&child.wait_with_output().unwrap().stdout));
        let all = all.as_array().unwrap().clone();
        let unread: Vec<&Value> = all.iter().filter(|one| one["unread"] != json!([])).collect();
        assert!(unread.is_empty(), "{unread:#?}");
        for container in containers {
            assert!(all.iter().any(|one| one["container"] == **container), "no process of {container}: {all:#?}");
        }
        all
    }
}

/// Needles that some process has, with the names of those processes.
fn found(all: &[Value]) -> BTreeSet<(String, String)> {
    let each = |one: &Value| {
        let needles = one["found"].as_array().unwrap().clone();
        let name = one["name"].as_str().unwrap().to_owned();
        needles.into_iter().map(move |needle| (needle.as_str().unwrap().to_owned(), name.clone())).collect::<Vec<_>>()
    };
    all.iter().flat_map(each).collect()
}

/// Every form of a value that a client could have, by name.
fn forms(name: &str, value: &str) -> Vec<(String, String)> {
    let url = value.bytes().map(|byte| match byte {
        byte if byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) => char::from(byte).to_string(),
        byte => format!("%{byte:02X}"),
    });
    let url: String = url.collect();
    let mut all = vec![(name.to_owned(), value.to_owned())];
    all.extend(in_base64(value).into_iter().enumerate().map(|(at, form)| (format!("{name} base64 {at}"), form)));
    all.extend((url != value).then(|| (format!("{name} url"), url)));
    all
}

/// A key for a GitHub App whose service does not respond.
fn app_key(sandbox: &Sandbox) -> String {
    let path = sandbox.config_home().join("sandboxc/app.pem");
    let made = Command::new("openssl").args(["genrsa", "-out"]).arg(&path).arg("2048").output().unwrap();
    assert!(made.status.success(), "{}", text(&made.stderr));
    std::fs::read_to_string(path).unwrap().lines().nth(10).unwrap().to_owned()
}

#[test]
fn no_process_of_the_agents_ever_has_a_value_in_its_memory() {
    import_clients();
    let (value, mark) = (format!("real/{}+{}", unique(), unique()), unique());
    let digest: String = Sha256::digest(&value).iter().map(|byte| format!("{byte:02x}")).collect();
    let sandbox = Sandbox::with(
        &format!(
            "version: 1\nimage: {CLIENTS}\nenv: {{U: 'https://api.example.com/wants/{digest}', MARK: {mark}}}\n\
             network:\n  allow: [api.example.com, aws.example.net, api.github.com]\n"
        ),
        &server(&format!(
            "  masked_secrets:\n    TOKEN: {{value: {value}, scopes: [api.example.com], headers: [authorization, x-api-key]}}\n  \
               signing_credentials:\n    prod: {{type: aws-sigv4, access_key_id: {AWS_ID}, secret_access_key: {AWS_SECRET}, scopes: [aws.example.net]}}\n  \
               github_app_credentials:\n    APP: {{app_id: 1, installation_id: 2, private_key: !file app.pem}}\n"
        )),
    );
    let key = app_key(&sandbox);
    std::fs::write(sandbox.repo().join("keeper.py"), KEEPER).unwrap();
    let start = internet_log_end("access.log");
    let mut live = sandbox.start(&[]);
    let surrogates = live.sh("echo $TOKEN $AWS_SECRET_ACCESS_KEY $APP");
    let surrogates: Vec<&str> = surrogates.split_whitespace().collect();
    live.sh("setsid python3 keeper.py >keeper.log 2>&1 & ");
    let said = || std::fs::read_to_string(sandbox.repo().join("keeper.log")).unwrap_or_default();
    let done = |name: &str| {
        wait_until(&format!("{name}: {}", said()), || sandbox.repo().join(name).exists() || said().contains("Error"));
        assert_eq!(said(), "");
    };
    let values = [("token", &*value), ("id", AWS_ID), ("secret", AWS_SECRET), ("key", &*key)];
    let mut needles: Vec<(String, String)> = values.iter().flat_map(|(name, value)| forms(name, value)).collect();
    let own = ["surrogate", "aws surrogate", "app surrogate", "answer"];
    needles.extend(own.into_iter().zip(&surrogates).map(|(name, &text)| (name.to_owned(), text.to_owned())));
    needles.push((own[3].to_owned(), format!("\"credential\": \"{}\"", surrogates[0])));
    let needles: serde_json::Map<String, Value> =
        needles.into_iter().map(|(name, text)| (name, Value::String(text))).collect();
    let search = Search { live, needles: Value::Object(needles) };
    for moment in ["first", "second"] {
        done(moment);
        let all = search.run(&search.agents());
        let bytes: u64 = all.iter().map(|one| one["bytes"].as_u64().unwrap()).sum();
        println!("{moment}: {} processes, {} MiB", all.len(), bytes >> 20);
        let found = found(&all);
        let real: Vec<_> = found.iter().filter(|(needle, _)| !own.contains(&needle.as_str())).collect();
        assert!(real.is_empty(), "{real:?}");
        // The search finds what the processes do have.
        let has = |needle: &str, name: &str| found.contains(&(needle.to_owned(), name.to_owned()));
        assert!(has(own[3], "python3") && has(own[3], "node") && has(own[0], "curl"), "{found:?}");
        assert!(has(own[1], "python3") && has(own[2], "python3"), "{found:?}");
        std::fs::write(sandbox.repo().join("go"), "").unwrap();
    }
    // It finds a value if there is one.
    let router = found(&search.run(&[search.live.container("router", "router")]));
    for needle in ["token", "secret", "key"] {
        assert!(router.contains(&(needle.to_owned(), "sandboxc-router".to_owned())), "{needle}: {router:?}");
    }
    let log = internet_log("access.log", start);
    let right = log.lines().filter(|line| line.contains(&digest) && line.contains("\"given\": \"right\"")).count();
    assert!(right >= 28, "the values were used: {right}");
    assert!(log.contains("\"event\": \"aws\"") && log.contains("\"verdict\": \"ok\""));
}
