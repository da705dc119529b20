#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Between us and gRPC of other makes, over a unix socket and over mutual TLS: grpc-js both ways, grpcio as a client, frames
# by hand, and h2load; and every method of the claim server by grpc-js and by curl.
# usage: run.sh [BUILD-FOLDER]     default build/dev; npm packages are put there, nothing else is installed
set -euo pipefail
here=$(dirname "$(readlink -f "$0")")
root=$(readlink -f "$here/../../..")
build=$(readlink -f "${1:-$root/build/dev}")
interop=$build/tests/integration/grpc-interop/interop
server=$build/server/holdfast-server
agent=$build/agent/holdfast-agent
work=$build/grpc-interop

for program in "$interop" "$server" "$agent"; do
	[ -x "$program" ] || {
		echo "run.sh: $program is missing; build it: cmake --build $build --target ${program##*/}" >&2
		exit 2
	}
done
mkdir -p "$work"
cp "$here"/package.json "$here"/package-lock.json "$here"/*.js "$here"/interop.proto "$work"
(cd "$work" && npm ci --loglevel=error --no-audit --no-fund)
export HOLDFAST_PROTOS=$root/proto
mkdir -p "$work/python"
(cd "$root/proto" && protoc -I. -I"$here" --python_out="$work/python" interop.proto holdfast/v1/*.proto holdfast/driver/v1/*.proto)

dir=$(mktemp -d /tmp/holdfast-interop-XXXXXX)
pids=()
agents=()
# shellcheck disable=SC2317 # called by trap
finish() {
	for pid in "${agents[@]}" "${pids[@]}"; do
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
	: >"$out" # before the program is there to make it
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
# Debian's python3, whatever else is installed: grpcio and hpack are its packages
PYTHONPATH=$work/python /usr/bin/python3 -B "$here/cases.py" "$dir" "$port" || failed=1
/usr/bin/python3 -B "$here/raw.py" "$dir" || failed=1
# our server has to end well, with nothing leaked where that is looked for
kill "${pids[0]}"
wait "${pids[0]}" || failed=1
start js node "$work/server.js" "$dir"
"$interop" call "$dir" "$port" || failed=1

# A server under load: as gRPC, where every answer is HTTP 200 and the server's own count tells how the calls ended.
start load "$interop" serve "$dir"
load_pid=${pids[-1]}
printf '\0\0\0\0\0' >"$dir/empty"           # a message of nothing
printf '\0\0\0\0\3\20\200\10' >"$dir/large" # asks UnaryCall for 1 KiB
grpc=(--header='content-type: application/grpc' --header='te: trailers')
service=grpc.testing.TestService
"$here/load.sh" 'gRPC over TLS' 20000 256 "$dir/empty" "https://127.0.0.1:$port/$service/EmptyCall" "${grpc[@]}" || failed=1
"$here/load.sh" 'gRPC over a unix socket' 20000 256 "$dir/empty" "http://localhost/$service/EmptyCall" "${grpc[@]}" \
	--base-uri="unix:$dir/c.sock" || failed=1
"$here/load.sh" 'answers of 1 KiB over TLS' 10000 256 "$dir/large" "https://127.0.0.1:$port/$service/UnaryCall" "${grpc[@]}" || failed=1
kill "$load_pid"
wait "$load_pid" || failed=1
for expected in "EmptyCall OK 120000" "UnaryCall OK 30000"; do
	if grep -qxF "count $service $expected" "$dir/load.out" && [ "$(grep -c '^count' "$dir/load.out")" -eq 2 ]; then
		echo "ok      h2load: the server's own count: $expected"
	else
		failed=1
		echo "FAILED  h2load: the server counted not only $expected:"
		cat "$dir/load.out"
	fi
done

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
		[ ! -e "$2/agent.log" ] || sed 's/^/agent: /' "$2/agent.log"
	}
	kill "$pid" && wait "$pid" || failed=1
}

# A real agent on node n2, for its socket; it has no mount helper, and says so. It refuses to be root.
start_agent() {
	local own=$1/n2 port as=()
	port=$(sed 's/.*://' "$1/address")
	mkdir "$own"
	cp "$1/tls/ca.pem" "$1/tls/node-n2.pem" "$1/tls/node-n2.key" "$own"
	cat >"$own/agent.hcl" <<-TXT
		cluster  = "interop"
		node_id  = "n2"
		data_dir = "$own/journal"
		socket   = "$own/agent.sock"
		server {
		  host       = "127.0.0.1"
		  port       = $port
		  server_uri = "holdfast://interop/server/dev"
		}
		tls {
		  ca   = "$own/ca.pem"
		  cert = "$own/node-n2.pem"
		  key  = "$own/node-n2.key"
		}
		helper { path = "$own/no-helper" }
	TXT
	if [ "$(id -u)" -eq 0 ]; then
		chmod 711 "$dir" "$1"
		chown -R 65534:65534 "$own"
		as=(setpriv --reuid=65534 --regid=65534 --clear-groups)
	fi
	"${as[@]}" "$agent" --config "$own/agent.hcl" >"$1/agent.log" 2>&1 &
	agents+=($!)
}

# The claim server and an agent under load, as JSON, where a refusal is another HTTP status.
site=$dir/load
"$server" --dev "$site" --cluster interop --node n1 --node n2 >"$site.log" 2>&1 &
pids+=($!)
load_pid=$!
wait_address "$site"
start_agent "$site"
for _ in $(seq 200); do
	[ ! -S "$site/n2/agent.sock" ] || break
	sleep 0.05
done
echo '{}' >"$dir/object"
json=(--header='content-type: application/json')
"$here/load.sh" 'the claim server over TLS' 10000 256 "$dir/object" \
	"https://$(cat "$site/address")/holdfast.v1.Volumes/List" "${json[@]}" || failed=1
# 16 is what the agent takes of one connection at a time
"$here/load.sh" "the agent's socket" 10000 16 "$dir/object" http://localhost/holdfast.v1.Agent/Status "${json[@]}" \
	--base-uri="unix:$site/n2/agent.sock" || failed=1
kill "${agents[-1]}" && wait "${agents[-1]}" || failed=1
kill "$load_pid" && wait "$load_pid" || failed=1

# Every method of the claim server, twice: each driver has servers of its own.
for driver in grpc-js curl; do
	site=$dir/$driver
	"$server" --dev "$site" --cluster interop --node n1 --node n2 >"$site.log" 2>&1 &
	pids+=($!)
	wait_address "$site"
	start_agent "$site"
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
		ca {
		  certificate = "$site/tls/ca.pem"
		  key         = "$site/tls/ca.key"
		}
	TXT
	echo "127.0.0.1:$port" >"$site/address"
	"$server" --config "$site/server.hcl" --new-cluster >"$site.log" 2>&1
	"$server" --config "$site/server.hcl" >>"$site.log" 2>&1 &
	pids+=($!)
	for _ in $(seq 200); do
		! grep -q listening "$site.log" || break
		sleep 0.05
	done
	tell rights.js "$site"
done
exit "$failed"
