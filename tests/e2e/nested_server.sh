# Makes localhost/db:1 of localhost/tiny:1, as images of databases are made: the entry point begins as root, gives the data directory
# to the server's own user and becomes that user; the server refuses root, and a directory that is not its own.
mkdir -p /tmp/db; cd /tmp/db
cat >entry <<'END'
#!/bin/sh
set -e
if [ "$(id -u)" = 0 ]; then
  chown -R db:db /var/lib/db; chmod 700 /var/lib/db
  exec su -s /bin/sh db -c 'exec server'
fi
exec server
END
cat >server <<'END'
#!/bin/sh
[ "$(id -u)" != 0 ] || { echo "root may not run the server" >&2; exit 1; }
own=$(stat -c %u:%g:%a /var/lib/db)
[ "$own" = "$(id -u):$(id -g):700" ] || { echo "the data directory has the wrong owner or mode: $own" >&2; exit 1; }
echo "ready as $(id -u)"
cd /var/lib/db
touch rows
exec nc -ll -p 15432 -e session
END
cat >session <<'END'
#!/bin/sh
while read -r verb word; do
  case $verb in put) echo "$word" >>rows; echo stored ;; get) cat rows; echo end; exit ;; esac
done
END
cat >client <<'END'
#!/bin/sh
for i in $(seq 100); do printf '%s\n' "$@" | nc -w 5 127.0.0.1 15432 2>/dev/null && exit; sleep 0.1; done; exit 1
END
cat >Containerfile <<'END'
FROM localhost/tiny:1
RUN ln -s /usr/bin/busybox /bin/seq
RUN echo db:x:999:999::/var/lib/db:/bin/sh >>/etc/passwd && echo db:x:999: >>/etc/group && mkdir -p /var/lib/db && chown db:db /var/lib/db
COPY --chmod=755 entry server session client /usr/bin/
VOLUME /var/lib/db
ENTRYPOINT ["entry"]
END
podman build -q -t localhost/db:1 . >/dev/null
cd "$OLDPWD"
