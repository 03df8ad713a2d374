"""Searches the memory of containers, as root of the user namespace that holds them (`podman unshare`).

On stdin: {"containers": {NAME: PID of its first process}, "needles": {NAME: text}}. A process belongs to a container whose PID namespace
it is in, whoever started it. On stdout: [{"container", "pid", "name", "bytes", "unread", "found": [names of needles]}], where
"unread" are readable mappings that could not be read: the search has not seen everything.
"""
import json
import os
import pathlib
import sys

STEP = 1 << 20
# The kernel's own pages, which hold nothing of a process and which nobody may read through /proc.
KERNELS = ("[vvar]", "[vvar_vclock]", "[vsyscall]")

asked = json.load(sys.stdin)
needles = {name: text.encode() for name, text in asked["needles"].items()}
longest = max(map(len, needles.values()))
spaces = {os.readlink(f"/proc/{pid}/ns/pid"): name for name, pid in asked["containers"].items()}


def mappings(process):
    for line in (process / "maps").read_text().splitlines():
        span, rights, _, _, _, *name = line.split(None, 5)
        if rights.startswith("r") and name not in [[one] for one in KERNELS]:
            start, end = (int(at, 16) for at in span.split("-"))
            yield start, end, line


def search(process):
    seen, found, unread = 0, set(), []
    with open(process / "mem", "rb", buffering=0) as memory:
        for start, end, line in mappings(process):
            tail = b""
            for at in range(start, end, STEP):
                size = min(STEP, end - at)
                try:
                    memory.seek(at)
                    data = memory.read(size)
                except OSError:
                    data = b""
                if len(data) < size:
                    unread.append(line)
                    break
                seen += size
                found |= {name for name, needle in needles.items() if needle in tail + data}
                tail = data[1 - longest :]
    return {"bytes": seen, "unread": unread, "found": sorted(found)}


result = []
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        container = spaces.get(os.readlink(process / "ns/pid"))
        if container:
            name = (process / "comm").read_text().strip()
            result.append({"container": container, "pid": int(process.name), "name": name, **search(process)})
    except (FileNotFoundError, ProcessLookupError):
        pass  # it has ended
    except PermissionError:
        # Another user's, outside of the namespace.
        if process.name in map(str, asked["containers"].values()):
            raise
print(json.dumps(result))
