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

# Every method of the claim server, twice: each driver has a server of its own.
for driver in grpc-js curl; do
	site=$dir/$driver
	"$server" --dev "$site" --cluster interop --node n1 >"$site.log" 2>&1 &
	pids+=($!)
	for _ in $(seq 200); do
		[ ! -s "$site/address" ] || break
		kill -0 $! 2>/dev/null || break
		sleep 0.05
	done
	if ! node "$work/methods.js" "$driver" "$site"; then
		failed=1
		sed 's/^/server: /' "$site.log"
	fi
	# it has to end well
	kill $! && wait $! || failed=1
done
exit "$failed"
