#!/usr/bin/env fish
# SPDX-License-Identifier: Apache-2.0
# The completion script in fish itself: what it offers for command lines, and what it asks the server for.
# usage: test_completion.fish HOLDFAST
set -g dir (mktemp -d)
$argv[1] completion fish >$dir/script
or exit 1
printf '%s\n' '#!/bin/sh' 'echo "$*" >>"${0%/*}/asked"' 'case $3 in' 'volume) printf "db\ndb2\n" ;;' \
    'node) echo node-1 ;;' \
    "job) echo 'x\$(touch $dir/ran)' ;;" 'context) echo prod ;;' esac >$dir/holdfast
chmod +x $dir/holdfast
set -gx PATH $dir $PATH
source $dir/script
set -g failed 0

# expect OFFERS LINE: the last word of the line is the one under the cursor
function expect
    set -l got (complete -C "holdfast $argv[2]" | string replace -r '\t.*' '' | sort -u)
    if test "$got" != "$argv[1]"
        echo "holdfast $argv[2]: '$got', not '$argv[1]'" >&2
        set -g failed 1
    end
end

function asked
    set -l last (tail -n 1 $dir/asked)
    if test "$last" != "$argv[1]"
        echo "asked for '$last', not '$argv[1]'" >&2
        set -g failed 1
    end
end

expect volume vol
expect 'create delete list' 'volume snapshot '
expect 'ca enroll fencer issue node operator revoke revoked server' 'operator cert '
expect 'db db2' 'volume status d'
asked 'completion ids volume d'
expect 'db db2' 'volume status --address h:1 --verbose d'
asked 'completion ids volume d --address h:1'
expect node-1 'volume detach db '
expect 'db db2' 'node attest node-1 db d'
expect '' 'volume status db '
expect node-1 'volume status --node '
expect "x\$(touch $dir/ran)" 'job status x'
test ! -e $dir/ran; or set -g failed 1
expect prod 'context use p'
expect prod 'volume status --context '
expect --why 'volume status --wh'
expect --json 'node drain --js'
expect '' 'version --wh'
expect "$dir/holdfast" "volume register $dir/holdf"
rm $dir/holdfast $dir/script $dir/asked
rmdir $dir
exit $failed
