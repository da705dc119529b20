/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/fd.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "rpc/pbjson.h"
#include "show/show.h"

#include <holdfast/v1/agent.pb-c.h>
#include <inttypes.h>
#include <openssl/sha.h>
#include <string.h>

enum { POLICY_BYTES_MAX = 65536 };

/* Returns whether the policy's text was changed since the helper's policy was compiled from it. False if it
 * cannot be read, or no helper has reported its @digest yet. */
static bool is_edited(const char *digest)
{
	uint8_t sha256[SHA256_DIGEST_LENGTH];
	char hex[2 * sizeof(sha256) + 1];
	cleanup_free char *text = NULL;
	size_t n;

	if (!digest[0] || file_read(HOLDFAST_POLICY_PATH, POLICY_BYTES_MAX, &text, &n) < 0)
		return false;
	(void)SHA256((const unsigned char *)text, n, sha256);
	hex_encode(hex, sha256, sizeof(sha256));
	return !str_eq(hex, digest);
}

static void put_edited(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__AgentHelper *helper = (const void *)shown->message;

	if (is_edited(helper->policy_digest))
		strbuf_puts(sb, HOLDFAST_POLICY_PATH " was edited and is not in use: holdfast policy apply, "
						     "then SIGHUP to the agent");
}

static DEFINE_ROWS(helper_page, holdfast__v1__agent_helper, NULL,
		   COL("mount helper",
		       "{running?running, launch mode {launch_mode:16}|not running}, restarts: {restarts}, "
		       "waiting: {queued}"),
		   COL_SET("its policy", "{policy_digest}"),
		   COLUMN("its policy's text", "", .put = put_edited, .is_optional = true),
		   COL_SET("its mounts", "{container?in the agent's mount namespace (container = yes)}"),
		   COL_SET("tickets",
			   "{running?{ticket_optional?optional (stand-alone use): mounts the server did not "
			   "grant are allowed|required}}"),
		   COL_SET("its last error", "{last_error}"));

static DEFINE_ROWS(
	helper_table, holdfast__v1__agent_helper_instance, NULL, COL_NUMBER("PID", "{pid?{pid}}"),
	COL("LAUNCH", "{launch_mode}"), COL("FOR", "{nfs?nfs|all but nfs}"), COL_STATE("STATE", "{state}"),
	COL("BUSY WITH",
	    "{operation?{operation:16}{volume? of {volume:64}} for {since_ms:age}}"), /* STAGE of db for 4s */
	COL_NUMBER("RESTARTS", "{restarts}"), COL("LAST ERROR", "{last_error}"));

/* "NodeStageVolume for 4s and 2 more" */
static void put_calls(const struct shown *shown, struct strbuf *sb)
{
	const Holdfast__V1__AgentPlugin *p = (const void *)shown->message;
	uint32_t others = p->calls_in_flight + p->calls_waiting;

	show_text(shown, "{oldest_call?{oldest_call:64} for {oldest_since_ms:age}}", sb);
	if (p->oldest_call[0] && others > 1)
		strbuf_printf(sb, " and %" PRIu32 " more", others - 1);
}

static DEFINE_ROWS(plugin_table, holdfast__v1__agent_plugin, NULL, COL("PLUGIN", "{plugin_id}"),
		   COL("PROVIDER", "{provider}{provider_version? {provider_version}}"),
		   COL_STATE("STATE", "{state}"), COL("FOR", "{since_ms:age}"), COL("USED", "{used}"),
		   COL("SOCKET", "{socket}"), COL("ALLOCATION", "{alloc_id}"),
		   COL_PUT("BUSY WITH", put_calls), COL_NUMBER("FAILED", "{calls_failed} of {calls}"));

/* Errors are shown whole below their table, which has no room for them in a terminal. */
static DEFINE_ROWS(plugin_errors, holdfast__v1__agent_plugin, NULL,
		   LINE("{last_error}", "plugin {plugin_id} is {state}{socket? at {socket}}: {last_error}"));

static DEFINE_ROWS(driver_table, holdfast__v1__agent_driver, NULL, COL("DRIVER", "{name}"),
		   COL("VERSION", "{version}"), COL_STATE("STATE", "{healthy?healthy|unhealthy}"));
static DEFINE_ROWS(driver_errors, holdfast__v1__agent_driver, NULL,
		   LINE("{healthy?|y}", "driver {name} is unhealthy: {reason}"));

static DEFINE_ROWS(mount_table, holdfast__v1__agent_mount, NULL, COL("VOLUME", "{volume_id}"),
		   COL("ALLOCATION", "{alloc_id}"), COL("PATH", "{path}"), COL("DEVICE", "{device}"),
		   COL("PROPAGATION", "{propagation}"), COL_STATE("VERIFIED", "{stale?stale|{verified}}"),
		   COL_NUMBER("FULL", "{usage.percent?{usage.percent}%}"), COL("OPTIONS", "{options}"));
static DEFINE_ROWS(mount_errors, holdfast__v1__agent_mount, NULL,
		   LINE("{stale}", "stale mount of volume {volume_id} at {path}: {stale}"),
		   LINE("{usage.condition}", "volume {volume_id} at {path}: {usage.condition}"));

/* WITHIN: its deadline, or the next try. */
static DEFINE_ROWS(operation_table, holdfast__v1__agent_operation, NULL, COL("VOLUME", "{volume_id}"),
		   COL("ALLOCATION", "{alloc_id}"), COL("STEP", "{step}"), COL("FOR", "{since_ms:age}"),
		   COL("WITHIN", "{deadline_ms:left}"), COL_NUMBER("TRIES", "{attempts}"));
static DEFINE_ROWS(operation_errors, holdfast__v1__agent_operation, NULL,
		   LINE("{last_error}", "{step}{volume_id? of {volume_id}}: {last_error}"));

static DEFINE_ROWS(agent_fields, holdfast__v1__get_agent_status_response, NULL, COL("node", "{node_id}"),
		   COL("cluster", "{cluster}"), COL("version", "{version}"), COL("boot ID", "{boot_id}"),
		   COL("server", "{server}"), COL("connected", "{connected}"),
		   COL_WHEN("{connected?y}", "connected for", "{connected_since_ms:age}"),
		   COL_SET("session error before", "{connected?{last_session_error}}"),
		   COL_SET("last session error", "{connected?|{last_session_error}}"));

static DEFINE_ROWS(agent_page, holdfast__v1__get_agent_status_response, NULL, PART("helper", &helper_page),
		   COL("receipts pending", "{receipts_pending}"),
		   TABLE("mount helpers", "helper.instances", &helper_table),
		   TABLE("plugins", "plugins", &plugin_table), PART("plugins", &plugin_errors),
		   TABLE("task drivers", "drivers", &driver_table), PART("drivers", &driver_errors),
		   TABLE("allocations", "allocations", &show_allocs), TABLE("mounts", "mounts", &mount_table),
		   PART("mounts", &mount_errors), TABLE("in flight", "operations", &operation_table),
		   PART("operations", &operation_errors), PART("drain", &show_agent_drain));

static enum status show_agent(const Holdfast__V1__GetAgentStatusResponse *agent, bool verbose,
			      struct error *err)
{
	TRY(show_page(&agent_fields, agent, NULL, verbose, err));
	for (size_t i = 0; i < agent->n_problems; i++)
		print_field("problem", agent->problems[i]);
	return show_page(&agent_page, agent, NULL, verbose, err);
}

/* The answer, with is_edited() in "helper", because the agent does not read the text. */
static enum status print_agent_json(const Holdfast__V1__GetAgentStatusResponse *agent, struct error *err)
{
	cleanup(json_decrefp) json_t *json = NULL;

	TRY(pbjson_encode(&agent->base, PBJSON_PROTO_NAMES | PBJSON_DEFAULTS, &json, err));
	if (agent->helper && json_object_set_new(json_object_get(json, "helper"), "policy_edited",
						 json_boolean(is_edited(agent->helper->policy_digest))) < 0)
		return error_no_memory(err, "the answer");
	return print_json(json_incref(json), err);
}

static enum status agent_status_show(struct call *call, const void *message, struct error *err)
{
	if (call_has(call, OPT_JSON))
		return print_agent_json(message, err);
	return show_agent(message, call_has(call, OPT_VERBOSE), err);
}

static const struct command commands[] = {
	{.path = "agent status",
	 .args = "",
	 .help = "Show the node agent of this machine: mounts and what it is doing",
	 .example = "",
	 .options = OPTION_BIT(OPT_VERBOSE),
	 .call = {.service = &holdfast__v1__agent__descriptor,
		  .method = "Status",
		  .show = agent_status_show,
		  .shows_json = true}},
};

const struct command_table agent_commands = {commands, ARRAY_SIZE(commands)};
