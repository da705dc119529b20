# SPDX-License-Identifier: Apache-2.0
# From a .proto file: one line {"package.Message", "field"}, for every field marked csi_secret. Fails where it does not
# understand a mark: a secret must not be forgotten silently.

function strip(line) {
	sub(/\/\/.*/, "", line)
	return line
}

function full_name(    i, name) {
	name = package
	for (i = 1; i <= depth; i++)
		if (scope[i] != "")
			name = name "." scope[i]
	return name
}

BEGIN { print "/* Generated from the marks csi_secret. */" }

{ $0 = strip($0) }

$1 == "package" { package = $2; sub(/;/, "", package) }

/\(csi_secret\)/ {
	if (!match($0, /[A-Za-z0-9_]+ *= *[0-9]+ *\[ *\(csi_secret\) *= *true *\] *;/)) {
		print FILENAME ":" FNR ": no field with [(csi_secret) = true] on one line" > "/dev/stderr"
		failed = 1
		exit 1
	}
	field = substr($0, RSTART, RLENGTH)
	sub(/ *=.*/, "", field)
	printf "{\"%s\", \"%s\"},\n", full_name(), field
	found++
}

/\{/ && !/\}/ {
	depth++
	scope[depth] = $1 == "message" ? $2 : ""
}

/\}/ && !/\{/ { depth-- }

END {
	if (failed)
		exit 1
	if (depth != 0 || !found) {
		print FILENAME ": " found + 0 " secrets and " depth " open braces" > "/dev/stderr"
		exit 1
	}
}
