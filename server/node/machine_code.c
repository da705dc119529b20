/* SPDX-License-Identifier: Apache-2.0 */
/* Codes that the server shows instead of machines. */

#include "node/machine_code.h"

#include "server.h"

#include "base/str.h"
#include "model/message.h"
#include "ticket/ticket.h"

#include <string.h>

enum { MACHINE_PART = 32, MACHINE_PARTS = 2 };

/* The fields of a part's code; zero to the end of each text. */
struct sealed {
	char what[16];
	char cluster[CONFIG_CLUSTER_SIZE];
	char node[NODE_ID_MAX + 1];
	char part[MACHINE_PART + 1];
};

const char *machine_code(struct server *server, const char *node_id, const char *machine,
			 char ret[static NODE_MACHINE_MAX + 1])
{
	uint8_t code[TICKET_MAC_SIZE];
	struct sealed sealed;
	char *at = ret;

	*at = '\0';
	for (int i = 0; i < MACHINE_PARTS && strlen(machine) >= MACHINE_PART; i++) {
		memset(&sealed, 0, sizeof(sealed));
		(void)str_copy(sealed.what, sizeof(sealed.what), "mark machine");
		(void)str_copy(sealed.cluster, sizeof(sealed.cluster), server->config.cluster);
		(void)str_copy(sealed.node, sizeof(sealed.node), node_id);
		memcpy(sealed.part, machine, MACHINE_PART);
		ticket_issuer_mac(server->issuer, &sealed, sizeof(sealed), code);
		if (i > 0)
			*at++ = '+';
		hex_encode(at, code, MACHINE_PART / 2);
		at += MACHINE_PART;
		machine += MACHINE_PART + (machine[MACHINE_PART] == '+');
	}
	return ret;
}

/* Copies the next machine of the list to @ret. Returns the rest of it, or NULL at its end. */
static const char *next_of(const char *list, char ret[static NODE_MACHINE_MAX + 1])
{
	size_t n = strcspn(list, " ");

	if (n == 0)
		return NULL;
	(void)str_format(ret, NODE_MACHINE_MAX + 1, "%.*s", (int)n, list);
	return list + n + (list[n] == ' ');
}

const char *machine_code_list(struct server *server, const char *node_id, const char *machines,
			      char ret[static NODE_REFUSED_SIZE])
{
	char machine[NODE_MACHINE_MAX + 1], code[NODE_MACHINE_MAX + 1];
	size_t len = 0;

	*ret = '\0';
	while ((machines = next_of(machines, machine))) {
		int r = str_format(ret + len, NODE_REFUSED_SIZE - len, "%s%s", len > 0 ? " " : "",
				   machine_code(server, node_id, machine, code));

		len += r > 0 ? (size_t)r : 0;
	}
	return ret;
}

bool machine_code_show(struct server *server, const char *node_id, char **field)
{
	char codes[NODE_REFUSED_SIZE];

	return message_set_text(field, machine_code_list(server, node_id, *field, codes));
}

bool machine_code_find(struct server *server, const char *node_id, const char *list, const char *code,
		       char ret[static NODE_MACHINE_MAX + 1])
{
	char own[NODE_MACHINE_MAX + 1];

	while ((list = next_of(list, ret)))
		if (str_eq(machine_code(server, node_id, ret, own), code))
			return true;
	return false;
}
