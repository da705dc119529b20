/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "show/output.h"
#include "show/rows.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { TOKEN_DAYS_MAX = 36500, TOKEN_POLICY_ARGS = 16 /* policies of one token */, TOKEN_NETWORK_ARGS = 16 };

#define DAY_MS INT64_C(86400000)

static DEFINE_ROWS(token_page, holdfast__v1__token, NULL, COL("accessor", "{accessor}"),
		   COL("name", "{name}"), COL("type", "{type}"), COL("policies", "{policies}"),
		   COL_SET("node", "{node}"), COL_SET("namespace", "{namespace}"),
		   COL_SET("networks", "{cidrs}"),
		   COL("expires", "{expires_at_ms?{expires_at_ms:time}|never}"),
		   COL_SET("secret", "{secret}"),
		   LINE("{secret}",
			"The secret is shown this once. Put it into a file that only its user can read, and "
			"name that with --token-file."));

static DEFINE_ROWS(token_table, holdfast__v1__token, NULL, COL("ACCESSOR", "{accessor}"),
		   COL("NAME", "{name}"), COL("TYPE", "{type}"), COL("POLICIES", "{policies}"),
		   COL("NODE", "{node}"), COL("NAMESPACE", "{namespace}"), COL("NETWORKS", "{cidrs}"),
		   COL("AGE", "{create_time_ms:age}"), COL_STATE("EXPIRES", "{expires_at_ms:expiry}"),
		   COL("USED", "{last_used_at_ms?{last_used_at_ms:age}|never}"));

static DEFINE_ROWS(bootstrap_page, holdfast__v1__bootstrap_token_response, NULL, PART("token", &token_page));
static DEFINE_ROWS(create_page, holdfast__v1__create_token_response, NULL, PART("token", &token_page));
static DEFINE_ROWS(whoami_page, holdfast__v1__who_am_iresponse, NULL, COL("certificate", "{identity}"),
		   COL("tokens", "{acl_enabled?are taken|are not taken (acl = false)}"),
		   PART("token", &token_page));

/* --- create --- */

/* @ret_ms: 0 without --days and --ttl: the server's default. */
static enum status read_life(struct invocation *inv, uint64_t *ret_ms, bool *ret_endless, struct error *err)
{
	const char *days = inv->options[OPT_DAYS];
	const char *ttl = inv->options[OPT_TTL];
	uint32_t n = 0;

	*ret_ms = 0;
	*ret_endless = ttl && (str_eq(ttl, "never") || str_eq(ttl, "0"));
	if (days && ttl)
		return usage_error(inv, err, "--days and --ttl are the same: give one of them");
	if (days && parse_u32(days, 1, TOKEN_DAYS_MAX, &n) < 0)
		return usage_error(inv, err, "--days: a number from 1 to %d is wanted", TOKEN_DAYS_MAX);
	*ret_ms = n * (uint64_t)DAY_MS;
	return *ret_endless || !ttl
		       ? STATUS_OK
		       : value_duration(inv, OPT_TTL, 0, TOKEN_DAYS_MAX * (uint64_t)DAY_MS, ret_ms, err);
}

static enum status check_create(struct invocation *inv, struct error *err)
{
	const char *node = inv->options[OPT_NODE];

	if (inv->options[OPT_MANAGEMENT] && inv->n_args > 1)
		return usage_error(inv, err, "--management may do everything: give no policies");
	if (inv->options[OPT_MANAGEMENT] && node)
		return usage_error(inv, err, "--management may do everything: it is bound to no node");
	if (node && node[0] == '\0')
		return usage_error(inv, err, "--node: the name of a node is wanted");
	return STATUS_OK;
}

static enum status set_policies(struct call *call, Holdfast__V1__Token *token, struct error *err)
{
	size_t n = (size_t)call->inv->n_args - 1;

	if (n == 0)
		return STATUS_OK;
	token->policies = calloc(n, sizeof(char *));
	if (!token->policies)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "name %zu policies", n);
	token->n_policies = n;
	for (size_t i = 0; i < n; i++)
		call_set(call, &token->policies[i], call->inv->args[i + 1]);
	return STATUS_OK;
}

static enum status set_networks(struct call *call, Holdfast__V1__Token *token, struct error *err)
{
	char text[1024];
	char *rest = text;
	char *cidr;

	if (str_copy(text, sizeof(text), option_text(call->inv, OPT_CIDR)) < 0)
		return usage_error(call->inv, err, "--cidr: too long");
	token->cidrs = calloc(TOKEN_NETWORK_ARGS, sizeof(char *));
	if (!token->cidrs)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "name networks");
	while ((cidr = strsep(&rest, ","))) {
		if (token->n_cidrs == TOKEN_NETWORK_ARGS)
			return usage_error(call->inv, err, "--cidr: more than %d networks",
					   TOKEN_NETWORK_ARGS);
		call_set(call, &token->cidrs[token->n_cidrs++], cidr);
	}
	return STATUS_OK;
}

static enum status token_create_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__CreateTokenRequest *request = message;
	Holdfast__V1__Token *token;
	bool endless;
	uint64_t life_ms;

	TRY(check_create(call->inv, err));
	TRY(read_life(call->inv, &life_ms, &endless, err));
	token = request->token = message_new(&holdfast__v1__token__descriptor);
	if (!token)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "describe the token");
	token->type = call_has(call, OPT_MANAGEMENT) ? HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT
						     : HOLDFAST__V1__TOKEN_TYPE__CLIENT;
	token->expires_at_ms = life_ms > 0 ? clock_realtime_ms() + (int64_t)life_ms : 0;
	request->endless = endless;
	call_set(call, &token->name, call->inv->args[0]);
	call_set(call, &token->node, call->inv->options[OPT_NODE]);
	call_set(call, &token->namespace_, call->inv->options[OPT_BIND_NAMESPACE]);
	if (call_has(call, OPT_CIDR))
		TRY(set_networks(call, token, err));
	return set_policies(call, token, err);
}

static DEFINE_ROWS_OF(revoke_page, holdfast__v1__revoke_token_response,
		      &holdfast__v1__revoke_token_request__descriptor, NULL,
		      LINE(NULL, "token {^accessor} is revoked"));

static enum status token_create_show(struct call *call, const void *answer, struct error *err)
{
	const Holdfast__V1__CreateTokenResponse *response = answer;

	if (!call_has(call, OPT_SECRET_ONLY)) /* it changes nothing */
		return call_show_rows(call, (ProtobufCMessage *)(uintptr_t)answer, err);
	print_line("%s", response->token->secret);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator token bootstrap",
	 .args = "",
	 .help = "Make the first management token",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "BootstrapToken",
		  .rows = &bootstrap_page}},
	{.path = "operator token create",
	 .args = "NAME [POLICY...]",
	 .help = "Make a token with the rights of its policies",
	 .example = "ci readers --days 30 --cidr 192.0.2.0/24",
	 .options = OPTION_BIT(OPT_MANAGEMENT) | OPTION_BIT(OPT_NODE) | OPTION_BIT(OPT_DAYS) |
		    OPTION_BIT(OPT_SECRET_ONLY) | OPTION_BIT(OPT_TTL) | OPTION_BIT(OPT_CIDR) |
		    OPTION_BIT(OPT_BIND_NAMESPACE),
	 .min_args = 1,
	 .max_args = 1 + TOKEN_POLICY_ARGS,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "CreateToken",
		  .load = token_create_load,
		  .show = token_create_show,
		  .rows = &create_page}},
	{.path = "operator token list",
	 .args = "",
	 .help = "List tokens, never their secrets",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListTokens",
		  .rows = &token_table,
		  .pages = PAGES_LIST}},
	{.path = "operator token revoke",
	 .args = "ACCESSOR",
	 .help = "Make a token worthless, at once",
	 .example = "0192f3a0-0000-7000-8000-000000000001",
	 .options = OPTION_BIT(OPT_YES),
	 .min_args = 1,
	 .max_args = 1,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "RevokeToken",
		  .fields = {{"accessor", ARG(0)}},
		  .question = "Its users are refused from then on. Do it?",
		  .rows = &revoke_page}},
	{.path = "operator token whoami",
	 .args = "",
	 .help = "Show as whom the server sees this caller",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor, .method = "WhoAmI", .rows = &whoami_page}},
};

const struct command_table token_commands = {commands, ARRAY_SIZE(commands)};
