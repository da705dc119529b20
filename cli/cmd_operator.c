#include "commands.h"
#include "completion.h"
#include "connect.h"
#include "output.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <holdfast/v1/operator.pb-c.h>
#include <inttypes.h>

enum { KEY_MAX = 32 }; /* bytes of an Ed25519 public key */

static void show_status(const Holdfast__V1__GetStatusResponse *s)
{
	char key[2 * KEY_MAX + 1] = "";
	char text[64];
	const struct {
		const char *name;
		uint64_t value;
	} counts[] = {
		{"index", s->index},   {"volumes", s->volumes},
		{"nodes", s->nodes},   {"nodes ready", s->nodes_ready},
		{"claims", s->claims}, {"allocations", s->allocations},
	};

	print_field("version", s->version);
	print_field("cluster", s->cluster);
	for (size_t i = 0; i < ARRAY_SIZE(counts); i++) {
		(void)str_format(text, sizeof(text), "%" PRIu64, counts[i].value);
		print_field(counts[i].name, text);
	}
	if (s->ticket_key.len == KEY_MAX)
		hex_encode(key, s->ticket_key.data, s->ticket_key.len);
	print_field("ticket key", key);
}

enum status cmd_operator_status(struct invocation *inv, struct error *err)
{
	Holdfast__V1__GetStatusRequest request = HOLDFAST__V1__GET_STATUS_REQUEST__INIT;
	cleanup_message Holdfast__V1__GetStatusResponse *answer = NULL;
	cleanup_connection struct connection *connection = NULL;
	enum status status = connect_server(inv, &connection, err);

	if (status == STATUS_OK)
		status = connection_call(connection, &holdfast__v1__operator__descriptor, "Status",
					 &request.base, CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&answer,
					 err);
	if (status != STATUS_OK)
		return status;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	show_status(answer);
	return STATUS_OK;
}

enum status cmd_version(struct invocation *inv, struct error *err)
{
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "version", HOLDFAST_VERSION), err);
	print_line("holdfast %s", HOLDFAST_VERSION);
	return STATUS_OK;
}

enum status cmd_completion(struct invocation *inv, struct error *err)
{
	if (str_eq(inv->args[0], "bash"))
		completion_bash(stdout);
	else if (str_eq(inv->args[0], "man"))
		completion_man(stdout);
	else
		return usage_error(inv, err, "no completion for '%s': bash, man", inv->args[0]);
	return STATUS_OK;
}
