/* SPDX-License-Identifier: Apache-2.0 */
#include "privileged/journal_socket.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "base/sys.h"

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>

enum { ENTRY_MAX = 8192 };

int journal_socket_open(void)
{
	const struct sockaddr_un journal = {.sun_family = AF_UNIX, .sun_path = "/run/systemd/journal/socket"};
	cleanup_close int fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0);

	if (fd < 0 || connect(fd, (const struct sockaddr *)&journal, sizeof(journal)) < 0)
		return -errno;
	return TAKE_FD(fd);
}

static size_t value_length(const char *value, size_t hash_digits)
{
	size_t n = strcspn(value, " ");

	if (hash_digits > 0 && n > hash_digits + 1 && value[n - hash_digits - 1] == '-' &&
	    strspn(value + n - hash_digits, "0123456789abcdef") == hash_digits)
		n -= hash_digits + 1;
	return n;
}

void journal_socket_send(int fd, int priority, const char *identifier, const char *event, const char *text,
			 const struct journal_field *fields, size_t n_fields)
{
	char entry[ENTRY_MAX];
	int n;

	if (fd < 0)
		return;
	n = str_format(entry, sizeof(entry), "PRIORITY=%d\nSYSLOG_IDENTIFIER=%s\nMESSAGE=%s\n%s", priority,
		       identifier, text, event ? event : "");
	for (size_t i = 0; i < n_fields && n > 0; i++) {
		const char *value = strstr(text, fields[i].key);
		int more = 0;

		if (value) {
			value += strlen(fields[i].key);
			more = str_format(entry + n, sizeof(entry) - (size_t)n, "%s=%.*s\n", fields[i].name,
					  (int)value_length(value, fields[i].hash_digits), value);
		}
		n = more < 0 ? more : n + more;
	}
	if (n > 0)
		(void)sys_sendto(fd, entry, (size_t)n, MSG_DONTWAIT | MSG_NOSIGNAL, NULL, 0);
}
