# Runs one PostgreSQL for a test process: creates it, starts and stops it by the commands on standard input, and removes
# it when standard input closes, which is when that process has ended in any way.
#
# In the environment: bin (the folder of the programs), password, port, settings (lines for postgresql.conf), and for TLS
# tls_cert and tls_key; for a standby source_port, the port of its primary. Every command is answered with its output and
# a last line, `ok` or `failed`.
set -u
umask 077
# The folder for temporary files may belong to another user.
name=rialto-postgres-XXXXXX
folder=$(mktemp -d "${TMPDIR:-/tmp}/$name" 2>/dev/null || mktemp -d "/tmp/$name") || exit 1
data=$folder/data

# Signals of a terminal are ignored: the script ends with its input.
trap '' INT TERM HUP
trap '"$bin/pg_ctl" -D "$data" -w -m immediate stop >/dev/null 2>&1; rm -rf "$folder"' EXIT

make() {
    printf '%s\n' "$password" >"$folder/password"
    "$bin/initdb" -D "$data" -U rialto -A scram-sha-256 --pwfile="$folder/password" -E UTF8 --locale=C --no-sync >"$folder/initdb" 2>&1 || {
        cat "$folder/initdb"
        return 1
    }
    if [ -n "${tls_key-}" ]; then
        printf '%s\n' "$tls_cert" >"$data/server.crt"
        printf '%s\n' "$tls_key" >"$data/server.key"
    fi
    printf '%s\n' "$settings" >>"$data/postgresql.conf"
}

# A copy of the primary that follows it.
copy() {
    PGPASSWORD=$password "$bin/pg_basebackup" -h 127.0.0.1 -p "$source_port" -U rialto -D "$data" -R -X stream -c fast --no-sync >"$folder/copy" 2>&1 </dev/null || {
        cat "$folder/copy"
        return 1
    }
}

start() {
    "$bin/pg_ctl" -D "$data" -w -t 60 -l "$folder/log" -o "-p $port" start >"$folder/start" 2>&1 </dev/null || {
        cat "$folder/start" "$folder/log"
        return 1
    }
}

stop() { "$bin/pg_ctl" -D "$data" -w -t 60 -m "$1" stop 2>&1 </dev/null; }

answer() { if "$@"; then echo ok; else echo failed; fi; }

while read -r word rest; do
    case $word in
        make) answer make ;;
        copy) answer copy ;;
        port) port=$rest && echo ok ;;
        start) answer start ;;
        stop) answer stop "$rest" ;;
        log) answer cat "$folder/log" ;;
        *) echo "$word: no such word" && echo failed ;;
    esac
done
