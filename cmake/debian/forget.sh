# SPDX-License-Identifier: Apache-2.0
# A purge takes what it may and continues: rm, find and rmdir say what they cannot remove.
# forget FILE...: remove these files.
forget() {
	rm -f -- "$@" || true
}

# drop FOLDER...: remove those that are empty.
drop() {
	for folder in "$@"; do
		[ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty -- "$folder" || true
	done
}

# empty FOLDER: remove the files in it, and then itself if nothing else was in it. What is mounted there is kept.
empty() {
	[ -d "$1" ] && [ ! -L "$1" ] || return 0
	if mountpoint -q "$1"; then
		echo "$1 is a mount of its own and is kept" >&2
		return 0
	fi
	find "$1" -xdev -mindepth 1 -maxdepth 1 ! -type d -delete || true
	drop "$1"
	[ ! -d "$1" ] || echo "$1 is kept: it is not empty" >&2
}

# kept FILE WHY: say of what is the administrator's how to remove it.
kept() {
	[ ! -e "$1" ] || echo "$1 is kept: $2. To remove it: rm $1" >&2
}

# kept_secrets UNITS: those that drop-ins of these units, a pattern, name.
kept_secrets() {
	find /etc/systemd/system -maxdepth 2 -path "*/$1.d/*.conf" -exec \
		sed -n 's/^[[:space:]]*LoadCredential\(Encrypted\)\?[[:space:]]*=[[:space:]]*//p' {} + 2>/dev/null |
		while IFS=: read -r name path; do
			kept "/etc/credstore/${path:-$name}" "a drop-in of $1 names it"
			kept "/etc/credstore.encrypted/${path:-$name}" "a drop-in of $1 names it"
		done
}

# What several packages use goes with the last of them: each has a program, settings or a key here.
forget_shared() {
	used=
	for file in /usr/sbin/holdfast-* /usr/bin/holdfast /etc/holdfast/*.hcl /etc/holdfast/cli.env \
		/etc/holdfast/tls/server.* /etc/holdfast/tls/node.* /etc/holdfast/tls/fencer.*; do
		[ ! -e "$file" ] || used=yes
	done
	[ -n "$used" ] || forget /etc/holdfast/tls/ca.pem
	drop /etc/holdfast/tls /etc/holdfast/volumes.d /etc/holdfast /var/lib/holdfast
}
