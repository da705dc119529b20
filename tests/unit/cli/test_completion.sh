#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# The completion script in bash itself: what it offers for command lines, and what it asks the server for.
# usage: test_completion.sh HOLDFAST
set -uo pipefail # completion does not expect -e
script=$("$1" completion bash)
dir=$(mktemp -d)
trap 'rm -f "$dir/holdfast" "$dir/asked" "$dir/ran"; rmdir "$dir"' EXIT
cat >"$dir/holdfast" <<'SH'
#!/bin/bash
echo "$*" >>"${0%/*}/asked"
case $3 in
volume) printf 'db\ndb2\n' ;;
node) echo node-1 ;;
job) printf '%s\n' 'x$(touch $dir/ran)' 'y`touch $dir/ran`' "z;'\"" '*' ;;
esac
SH
chmod +x "$dir/holdfast"
PATH=$dir:$PATH
eval "$script"
failed=0

# expect OFFERS WORD...: the last word is the one under the cursor
expect() {
	local want=$1
	shift
	COMP_WORDS=(holdfast "$@")
	COMP_CWORD=$#
	COMPREPLY=()
	_holdfast
	[ "${COMPREPLY[*]}" = "$want" ] || {
		echo "holdfast $*: '${COMPREPLY[*]}', not '$want'" >&2
		failed=1
	}
}

asked() {
	[ "$(tail -n 1 "$dir/asked")" = "$1" ] || {
		echo "asked for '$(tail -n 1 "$dir/asked")', not '$1'" >&2
		failed=1
	}
}

expect 'volume' vol
expect 'create delete list' volume snapshot ''
expect 'verify' operator audit ''
expect 'db db2' volume status d
asked 'completion ids volume d'
expect 'db db2' --address h:1 volume status --verbose d
asked 'completion ids volume d --address h:1'
expect 'node-1' volume detach db ''
expect 'db db2' node attest node-1 db d # any number of them
expect '' volume status db ''            # but one here
expect 'node-1' volume status --node ''
expect '--why' volume status --wh
expect '' volume init --type ''
expect 'x\$\(touch\ \$dir/ran\)' job status x # ids are data
expect 'y\`touch\ \$dir/ran\`' job status y
expect 'z\;\'\''\"' job status z
expect '\*' job status '*'
[ ! -e "$dir/ran" ] || {
	echo "an id was run" >&2
	failed=1
}
expect "$dir/holdfast" volume register "$dir/hold"
exit "$failed"
