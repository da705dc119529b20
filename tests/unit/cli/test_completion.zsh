#!/usr/bin/env zsh
# SPDX-License-Identifier: Apache-2.0
# The completion script in zsh itself: what it offers for command lines, and what it asks the server for. The functions of
# zsh that show matches are replaced by ones that note them.
# usage: test_completion.zsh HOLDFAST
setopt no_global_rcs
dir=$(mktemp -d)
$1 completion zsh >$dir/_holdfast || exit 1
print -r -- '#!/bin/sh
echo "$*" >>"${0%/*}/asked"
case $3 in
volume) printf "db\ndb2\n" ;;
node) echo node-1 ;;
job) echo "x\$(touch ${0%/*}/ran)" ;;
context) echo prod ;;
esac' >$dir/holdfast
chmod +x $dir/holdfast
path=($dir $path)
fpath=($dir $fpath)
failed=0
autoload -Uz compinit
compinit -u -d $dir/dump
[[ ${_comps[holdfast]} == _holdfast ]] || {
	print -u2 "compinit does not find the script"
	failed=1
}

typeset -a offered
_describe() { # [-o] TAG ARRAY
	local item
	for item in "${(@P)@[-1]}"; do offered+=(${item%%:*}); done
}
compadd() { offered+=("${(@P)@[-1]}"); }
_files() { offered+=(FILES); }
source $dir/_holdfast

# expect OFFERS WORD...: the last word is the one under the cursor
expect() {
	local want=$1 got
	shift
	local -a words=(holdfast "$@")
	local CURRENT=${#words} PREFIX=${words[-1]}
	offered=()
	_holdfast
	local -aU matching
	local item
	for item in $offered; do [[ $item == FILES || $item == $PREFIX* ]] && matching+=($item); done
	got=${(j: :)${(o)matching}}
	[[ $got == $want ]] || {
		print -u2 "holdfast $*: '$got', not '$want'"
		failed=1
	}
}

asked() {
	local last=$(tail -n 1 $dir/asked)
	[[ $last == $1 ]] || {
		print -u2 "asked for '$last', not '$1'"
		failed=1
	}
}

expect volume vol
expect 'create delete list' volume snapshot ''
expect 'ca enroll fencer issue node operator revoke revoked server' operator cert ''
expect 'FILES verify' operator backup ''
expect 'db db2' volume status d
asked 'completion ids volume d'
expect 'db db2' volume status --address h:1 --verbose d
asked 'completion ids volume d --address h:1'
expect node-1 volume detach db ''
expect 'db db2' node attest node-1 db d
expect '' volume status db ''
expect node-1 volume status --node ''
expect "x\$(touch $dir/ran)" job status x
[[ ! -e $dir/ran ]] || failed=1
expect prod context use p
expect prod volume status --context ''
expect --why volume status --wh
expect --json node drain --js
expect '' version --wh
expect FILES volume register ''
expect FILES volume status --token-file ''
rm -f $dir/*
rmdir $dir
exit $failed
