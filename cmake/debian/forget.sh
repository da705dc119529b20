# SPDX-License-Identifier: Apache-2.0
# empty FOLDER: remove the files in it, and then itself if nothing else was in it. What is mounted there is kept.
empty() {
	[ -d "$1" ] && [ ! -L "$1" ] || return 0
	if mountpoint -q "$1"; then
		echo "$1 is a mount of its own and is kept" >&2
		return 0
	fi
	find "$1" -xdev -mindepth 1 -maxdepth 1 ! -type d -delete
	rmdir --ignore-fail-on-non-empty "$1"
	[ ! -d "$1" ] || echo "$1 is kept: it holds more than the files of this package" >&2
}

# What several packages use goes with the last of them.
forget_shared() {
	if [ ! -e /etc/holdfast/tls/server.pem ] && [ ! -e /etc/holdfast/tls/node.pem ] &&
		[ ! -e /etc/holdfast/tls/fencer.pem ]; then
		rm -f /etc/holdfast/tls/ca.pem
	fi
	for folder in /etc/holdfast/tls /etc/holdfast/volumes.d /etc/holdfast /var/lib/holdfast; do
		[ ! -d "$folder" ] || rmdir --ignore-fail-on-non-empty "$folder"
	done
}
