/* SPDX-License-Identifier: Apache-2.0 */
#include "operator/hosts.h"

#include "base/str.h"
#include "call/call.h"

#include <arpa/inet.h>
#include <string.h>

static bool is_address(const char *text)
{
	unsigned char address[16];

	return inet_pton(AF_INET, text, address) == 1 || inet_pton(AF_INET6, text, address) == 1;
}

enum status hosts_read(struct invocation *inv, struct hosts *hosts, struct error *err)
{
	char *rest = hosts->text;
	const char *host;

	if (str_copy(hosts->text, sizeof(hosts->text), option_text(inv, OPT_HOST)) < 0)
		return usage_error(inv, err, "--host: too long");
	while (hosts->text[0] != '\0' && (host = strsep(&rest, ","))) {
		if (hosts->n_names + hosts->n_addresses == HOSTS_MAX || host[0] == '\0')
			return usage_error(inv, err, "--host: 1 to %d names or addresses with commas between",
					   HOSTS_MAX);
		if (is_address(host))
			hosts->addresses[hosts->n_addresses++] = host;
		else
			hosts->names[hosts->n_names++] = host;
	}
	return STATUS_OK;
}
