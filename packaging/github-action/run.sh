#!/usr/bin/env bash
# The step of the GitHub action, and the script of the GitLab job: runs $SANDBOX_COMMAND in a sandbox, and summarizes what happened.
#   SANDBOX_COMMAND       one line of shell
#   SANDBOX_CONFIG_FROM   the git ref whose .sandboxc/ applies; empty for the working tree's own
#   SANDBOX_TIMEOUT       a duration such as 30m
#   SANDBOX_LOGS          a directory outside the workspace, for network.log and report.json
# Values come in variables and are never pasted into a script, so a branch's name cannot become a command.
set -uo pipefail
: "${SANDBOX_COMMAND:?no command}" "${SANDBOX_LOGS:?no directory for logs}"
summary=${GITHUB_STEP_SUMMARY:-$SANDBOX_LOGS/summary.md}
mkdir -p "$SANDBOX_LOGS" || exit 125

flags=(--timeout "${SANDBOX_TIMEOUT:-30m}" --network-log "$SANDBOX_LOGS/network.log" --report "$SANDBOX_LOGS/report.json")
if [ -n "${SANDBOX_CONFIG_FROM:-}" ]; then
    flags+=("--config-from=$SANDBOX_CONFIG_FROM")
    # For the reviewer only: the change has no effect on this run.
    if changes=$(sandboxc diff --format markdown -- "$SANDBOX_CONFIG_FROM"); then
        printf '## What this change does to its sandbox\n\n%s\n\n' "$changes" >>"$summary"
    fi
fi

sandboxc run "${flags[@]}" -- sh -c "$SANDBOX_COMMAND"
code=$?

{
    printf '## Sandbox\n\nThe command ended with exit code %s.\n\n' "$code"
    # Indented, since the command chose some of the names, and could close a fence.
    { sandboxc log summary "$SANDBOX_LOGS/network.log" 2>/dev/null || echo "no network log"; } | sed 's/^/    /'
} >>"$summary"
[ -z "${GITHUB_OUTPUT:-}" ] || echo "exit-code=$code" >>"$GITHUB_OUTPUT"
exit "$code"
