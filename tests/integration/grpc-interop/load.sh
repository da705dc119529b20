#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# h2load against our servers: not one request may fail, whoever answers it.
# usage: load.sh NAME REQUESTS STREAMS BODY URL [h2load options]     by 1, 4 and 16 connections with STREAMS streams each
set -euo pipefail
name=$1 requests=$2 streams=$3 body=$4 url=$5
shift 5
failed=0
for connections in 1 4 16; do
	what="h2load, $name: $requests requests on $connections connections with $streams streams each"
	said=$(h2load --requests="$requests" --clients="$connections" --max-concurrent-streams="$streams" \
		--data="$body" "$@" "$url") ||
		said="$said (exit $?)"
	if grep -qxF "requests: $requests total, $requests started, $requests done, $requests succeeded, 0 failed, 0 errored, 0 timeout" <<<"$said" &&
		grep -qxF "status codes: $requests 2xx, 0 3xx, 0 4xx, 0 5xx" <<<"$said"; then
		echo "ok      $what"
	else
		failed=1
		printf 'FAILED  %s:\n%s\n' "$what" "$said"
	fi
done
exit "$failed"
