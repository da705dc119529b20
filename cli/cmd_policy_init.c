/* SPDX-License-Identifier: Apache-2.0 */
#include "policy_text.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "command/commands.h"
#include "command/settings.h"
#include "show/output.h"

#include <errno.h>
#include <jansson.h>
#include <pwd.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

/* The accounts of the packages, see docs/adr/13-at-home-on-the-host.md. */
static const char agent_account[] = "holdfast";
static const char helper_account[] = "holdfast-mount";

enum {
	NAME_MAX_BYTES = 63,
	TICKET_KEY_BYTES = 32,
	TICKET_KEY_TEXT_MAX = 256,
	FIRST_PID_NAMESPACE = 0xEFFFFFFC, /* PROC_PID_INIT_INO of the kernel */
};

static enum status find_account(const char *name, const char *package, uint32_t *ret_uid, uint32_t *ret_gid,
				struct error *err)
{
	const struct passwd *entry;

	errno = 0;
	entry = getpwnam(name);
	if (!entry)
		return error_set(
			err, STATUS_NOT_FOUND, errno,
			"this machine has no account %s (install the package %s, or run this on the node)",
			name, package);
	*ret_uid = entry->pw_uid;
	*ret_gid = entry->pw_gid;
	return STATUS_OK;
}

/* The files of an enrolled node; missing ones leave the options needed. */
struct enrolled {
	struct conf *settings;
	char *ticket_key;
};

static void release(struct enrolled *enrolled)
{
	conf_free(enrolled->settings);
	free(enrolled->ticket_key);
}

static enum status read_enrolled(struct enrolled *ret, struct error *err)
{
	TRY(agent_settings_load(HOLDFAST_AGENT_SETTINGS_PATH, &ret->settings, err));
	if (file_read(HOLDFAST_TICKET_KEY_PATH, TICKET_KEY_TEXT_MAX, &ret->ticket_key, NULL) == 0)
		ret->ticket_key[strcspn(ret->ticket_key, "\n")] = '\0';
	return STATUS_OK;
}

static enum status parse_name(struct invocation *inv, enum option_id id, const struct enrolled *enrolled,
			      const char *key, const char **ret, struct error *err)
{
	const char *name = inv->options[id];

	if (!name && enrolled->settings)
		name = json_string_value(json_object_get(conf_root(enrolled->settings), key));
	if (!name)
		return usage_error(inv, err, "--%s is needed, as this node has not enrolled by a line",
				   command_options[id].name);
	if (!id_is_name(name, NAME_MAX_BYTES))
		return usage_error(inv, err, "--%s: '%.64s' is not a name (A-Z a-z 0-9 _ and -, up to %d)",
				   command_options[id].name, name, NAME_MAX_BYTES);
	*ret = name;
	return STATUS_OK;
}

static enum status parse_ticket_key(struct invocation *inv, const struct enrolled *enrolled, const char **ret,
				    struct error *err)
{
	unsigned char key[TICKET_KEY_BYTES];
	const char *hex = inv->options[OPT_TICKET_KEY] ? inv->options[OPT_TICKET_KEY] : enrolled->ticket_key;

	if (!hex)
		return usage_error(inv, err, "--ticket-key is needed; holdfast operator status prints it");
	if (hex_decode(key, sizeof(key), hex) < 0)
		return usage_error(
			inv, err,
			"--ticket-key: %d hex digits are wanted, as holdfast operator status prints",
			2 * TICKET_KEY_BYTES);
	*ret = hex;
	return STATUS_OK;
}

static bool is_container(void)
{
	struct stat st;

	return stat("/proc/self/ns/pid", &st) == 0 && st.st_ino != FIRST_PID_NAMESPACE;
}

static enum status cmd_policy_init(struct invocation *inv, struct error *err)
{
	struct policy_words words = {.is_container = is_container()};
	cleanup(release) struct enrolled enrolled = {.settings = NULL};
	char text[POLICY_TEXT_SIZE];
	uint32_t agent_gid;
	int r;

	TRY(read_enrolled(&enrolled, err));
	TRY(parse_name(inv, OPT_CLUSTER, &enrolled, "cluster", &words.cluster, err));
	TRY(parse_name(inv, OPT_NODE, &enrolled, "node_id", &words.node, err));
	TRY(parse_ticket_key(inv, &enrolled, &words.ticket_key, err));
	TRY(find_account(agent_account, "holdfast-agent", &words.agent_uid, &agent_gid, err));
	TRY(find_account(helper_account, "holdfast-mounthelper", &words.helper_uid, &words.helper_gid, err));
	r = policy_text(&words, text);
	if (r < 0)
		return error_set(err, STATUS_INTERNAL, r, "cannot put the policy together");
	if (inv->options[OPT_JSON])
		return print_json(json_pack("{ss}", "policy", text), err);
	print_text(stdout, text);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "policy init",
	 .args = "[--node ID --cluster NAME --ticket-key HEX]",
	 .help = "Print a first policy for the mount helper of this machine; an enrolled node needs no "
		 "options",
	 .example = "--node worker-1 --cluster prod "
		    "--ticket-key 8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c",
	 .options = OPTION_BIT(OPT_NODE) | OPTION_BIT(OPT_CLUSTER) | OPTION_BIT(OPT_TICKET_KEY),
	 .run = cmd_policy_init},
};

const struct command_table policy_init_commands = {commands, ARRAY_SIZE(commands)};
