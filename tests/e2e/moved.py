# Tries to change the content of protected parts that were moved away, and are still under their mounts: in a namespace without those
# mounts, and in the container's own. crate::namespaces::MOVE stands at its line.
import ctypes, os, struct

libc = ctypes.CDLL(None, use_errno=True)
git, proc = os.open(".git", os.O_PATH), os.open("/proc/self/fd", os.O_PATH)
held = {"config.moved": os.open(".git/config", os.O_RDONLY), "hooks.moved/own": os.open(".git/hooks/own", os.O_RDONLY)}
free = os.open(".git/description", os.O_RDONLY)


def tried(name, act):
    try:
        act()
    except OSError:
        return
    print("ESCAPED:", name, flush=True)


def call(result):
    if result < 0:
        raise OSError(ctypes.get_errno(), "")


def opened(path, flags, at=None):
    os.close(os.open(path, flags, dir_fd=git if at is None else at))


def on_the_open_file(where, path, fd=None):
    fd = fd or held[path]
    # A namespace has no /proc of its own, so that of the start is used, whose names are this process's.
    tried(f"{where}: {path} through /proc", lambda: opened(f"/proc/self/fd/{fd}", os.O_WRONLY))
    tried(f"{where}: {path} through its number", lambda: opened(str(fd), os.O_WRONLY, proc))
    tried(f"{where}: {path} linked", lambda: call(libc.linkat(fd, b"", git, f"linked-{fd}".encode(), 0x1000)))
    tried(f"{where}: {path} mode", lambda: os.fchmod(fd, 0o777))
    clear_read_only = struct.pack("QQQQ", 0, 1, 0, 0)
    tried(f"{where}: {path} mount made writable", lambda: call(libc.syscall(442, fd, b"", 0x1000, clear_read_only, 32)))


def attempts(where):
    for path in held:
        for flags in (os.O_WRONLY, os.O_RDWR | os.O_APPEND, os.O_RDONLY | os.O_TRUNC):
            tried(f"{where}: {path} opened with {flags}", lambda: opened(path, flags))
        tried(f"{where}: {path} linked by name", lambda: os.link(path, "linked", src_dir_fd=git, dst_dir_fd=git))
        on_the_open_file(where, path)
    tried(f"{where}: a file made", lambda: opened("hooks.moved/new", os.O_WRONLY | os.O_CREAT))
    tried(f"{where}: a file taken out", lambda: os.rename("hooks.moved/own", "own", src_dir_fd=git, dst_dir_fd=git))
    tried(f"{where}: a file removed", lambda: os.unlink("hooks.moved/own", dir_fd=git))


on_the_open_file("twin", "description", free)
(wait, go), (done, end) = os.pipe(), os.pipe()
if os.fork() == 0:
    while step := os.read(wait, 1):
        attempts("outside") if step == b"m" else on_the_open_file("outside, removed", "config.moved")
        os.write(end, b".")
        if step == b"r":
            os._exit(0)
MOVE
attempts("in the namespace")
os.write(go, b"m"), os.read(done, 1)
# Without a name, it is not under a mount either.
os.unlink("config.moved", dir_fd=git)
on_the_open_file("in the namespace, removed", "config.moved")
os.write(go, b"r"), os.read(done, 1)
print("tried")
