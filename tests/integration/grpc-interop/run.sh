#!/usr/bin/env bash
# Both directions between us and grpc-js, over a unix socket and over mutual TLS; and every method of the claim server by
# grpc-js and by curl.
# usage: run.sh [BUILD-FOLDER]     default build/dev; npm packages are put there, nothing else is installed
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../../..")
build=$(readlink -f "${1:-$root/build/dev}")
interop=$build/tests/integration/grpc-interop/interop
server=$build/server/holdfast-server
work=$build/grpc-interop

for program in "$interop" "$server"; do
	[ -x "$program" ] || {
		echo "run.sh: $program is missing; build it: cmake --build $build --target ${program##*/}" >&2
		exit 2
	}
done
mkdir -p "$work"
cp "$here"/package.json "$here"/package-lock.json "$here"/*.js "$work"
(cd "$work" && npm ci --loglevel=error --no-audit --no-fund)
export HOLDFAST_PROTOS=$root/proto

dir=$(mktemp -d /tmp/holdfast-interop-XXXXXX)
pids=()
# shellcheck disable=SC2317 # called by trap
finish() {
	for pid in "${pids[@]}"; do
		kill "$pid" 2>/dev/null || true
		wait "$pid" 2>/dev/null || true
	done
	find "$dir" -depth -delete
}
trap finish EXIT

# Start a server and wait for its "ready PORT"; sets $port.
start() {
	local out=$dir/$1.out
	shift
	"$@" >"$out" &
	pids+=($!)
	for _ in $(seq 200); do
		port=$(sed -n 's/^ready //p' "$out")
		[ -z "$port" ] || return 0
		kill -0 $! || break
		sleep 0.05
	done
	echo "run.sh: $1 did not get ready" >&2
	exit 1
}

"$interop" certs "$dir"
failed=0
start c "$interop" serve "$dir"
node "$work/client.js" "$dir" "$port" || failed=1
# our server has to end well, with nothing leaked where that is looked for
kill "${pids[0]}"
wait "${pids[0]}" || failed=1
start js node "$work/server.js" "$dir"
"$interop" call "$dir" "$port" || failed=1

# Wait until a server has written its address to $1/address.
wait_address() {
	for _ in $(seq 200); do
		[ ! -s "$1/address" ] || return 0
		kill -0 "${pids[-1]}" 2>/dev/null || break
		sleep 0.05
	done
}

# Run a script against the server that was started last, for the site $2; then the server has to end well.
tell() {
	local pid=${pids[-1]}
	node "$work/$1" "$driver" "$2" || {
		failed=1
		sed 's/^/server: /' "$2.log"
	}
	kill "$pid" && wait "$pid" || failed=1
}

# Every method of the claim server, twice: each driver has servers of its own.
for driver in grpc-js curl; do
	site=$dir/$driver
	"$server" --dev "$site" --cluster interop --node n1 >"$site.log" 2>&1 &
	pids+=($!)
	wait_address "$site"
	tell methods.js "$site"
	# the same keys and certificates for a server that takes tokens
	port=$(node -e 'const s = require("net").createServer().listen(0, "127.0.0.1", () => {
		console.log(s.address().port); s.close(); })')
	mkdir "$site/store"
	cat >"$site/server.hcl" <<-TXT
		cluster    = "interop"
		data_dir   = "$site/store"
		ticket_key = "$site/ticket.key"
		acl        = true
		listen { port = $port }
		tls {
		  ca   = "$site/tls/ca.pem"
		  cert = "$site/tls/server.pem"
		  key  = "$site/tls/server.key"
		}
	TXT
	echo "127.0.0.1:$port" >"$site/address"
	"$server" --config "$site/server.hcl" >"$site.log" 2>&1 &
	pids+=($!)
	for _ in $(seq 200); do
		! grep -q listening "$site.log" || break
		sleep 0.05
	done
	tell rights.js "$site"
done
exit "$failed"
