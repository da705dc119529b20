/* SPDX-License-Identifier: Apache-2.0 */
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "call/call.h"
#include "command/commands.h"
#include "command/values.h"
#include "rpc/pbjson_word.h"
#include "show/output.h"

#include <errno.h>
#include <holdfast/v1/operator.pb-c.h>
#include <stdlib.h>

enum { TOKEN_DAYS_MAX = 36500, TOKEN_POLICY_ARGS = 16 /* policies of one token */ };

#define DAY_MS INT64_C(86400000)

static const char *expiry_text(int64_t at_ms, char text[static CLOCK_TEXT_SIZE])
{
	return at_ms == 0 ? "never" : clock_format(at_ms, text);
}

static void join_policies(const Holdfast__V1__Token *token, char *ret, size_t size)
{
	size_t at = 0;

	ret[0] = '\0';
	for (size_t i = 0; i < token->n_policies; i++) {
		int n = str_format(ret + at, size - at, "%s%s", i > 0 ? "," : "", token->policies[i]);

		if (n < 0)
			return; /* cut between names */
		at += (size_t)n;
	}
}

static void print_token(const Holdfast__V1__Token *token)
{
	char type[PBJSON_WORD_SIZE];
	char policies[1200];
	char text[CLOCK_TEXT_SIZE];

	join_policies(token, policies, sizeof(policies));
	print_field("accessor", token->accessor);
	print_field("name", token->name);
	print_field("type", pbjson_word_text(&holdfast__v1__token_type__descriptor, (int)token->type, type));
	print_field("policies", policies);
	if (token->node[0] != '\0')
		print_field("node", token->node);
	print_field("expires", expiry_text(token->expires_at_ms, text));
	if (token->secret[0] != '\0') {
		print_field("secret", token->secret);
		print_line(
			"The secret is shown this once. Put it into a file that only its user can read, and "
			"name that with --token-file.");
	}
}

static enum status token_bootstrap_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__BootstrapTokenResponse *answer = message;

	print_token(answer->token);
	return STATUS_OK;
}

/* --- create --- */

static enum status check_create(struct invocation *inv, uint32_t *ret_days, struct error *err)
{
	const char *days = inv->options[OPT_DAYS];
	const char *node = inv->options[OPT_NODE];

	if (days && parse_u32(days, 1, TOKEN_DAYS_MAX, ret_days) < 0)
		return usage_error(inv, err, "--days: a number from 1 to %d is wanted", TOKEN_DAYS_MAX);
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

static enum status token_create_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__CreateTokenRequest *request = message;
	Holdfast__V1__Token *token;
	uint32_t days = 0;

	TRY(check_create(call->inv, &days, err));
	token = request->token = message_new(&holdfast__v1__token__descriptor);
	if (!token)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "describe the token");
	token->type = call_has(call, OPT_MANAGEMENT) ? HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT
						     : HOLDFAST__V1__TOKEN_TYPE__CLIENT;
	token->expires_at_ms = days > 0 ? clock_realtime_ms() + days * DAY_MS : 0;
	call_set(call, &token->name, call->inv->args[0]);
	call_set(call, &token->node, call->inv->options[OPT_NODE]);
	return set_policies(call, token, err);
}

static enum status token_create_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__CreateTokenResponse *answer = message;

	print_token(answer->token);
	return STATUS_OK;
}

/* --- list --- */

static void add_row(struct table *table, const Holdfast__V1__Token *token, int64_t now_ms)
{
	char type[PBJSON_WORD_SIZE];
	char policies[1200];
	char text[CLOCK_TEXT_SIZE];
	char age[AGE_SIZE];
	bool is_expired = token->expires_at_ms != 0 && token->expires_at_ms <= now_ms;

	join_policies(token, policies, sizeof(policies));
	table_add(table,
		  (const char *const[]){
			  token->accessor, token->name,
			  pbjson_word_text(&holdfast__v1__token_type__descriptor, (int)token->type, type),
			  policies, token->node, age_text(token->create_time_ms, now_ms, age),
			  is_expired ? "expired" : expiry_text(token->expires_at_ms, text)});
}

static enum status token_list_show(struct call *call, const void *message, struct error *err)
{
	static const struct column columns[] = {
		{.name = "ACCESSOR"},
		{.name = "NAME"},
		{.name = "TYPE"},
		{.name = "POLICIES"},
		{.name = "NODE"},
		{.name = "AGE"},
		{.name = "EXPIRES", .is_state = true},
	};
	const Holdfast__V1__ListTokensResponse *answer = message;
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));
	int64_t now_ms = clock_realtime_ms();

	for (size_t i = 0; i < answer->n_tokens && table; i++)
		add_row(table, answer->tokens[i], now_ms);
	return table_print(table, NULL, err);
}

/* --- revoke, whoami --- */

static enum status token_revoke_load(struct call *call, void *message, struct error *err)
{
	Holdfast__V1__RevokeTokenRequest *request = message;

	call_set(call, &request->accessor, call->inv->args[0]);
	return value_confirm(call->inv, "Whoever uses the token is refused from then on. Do it?", err);
}

static enum status token_revoke_show(struct call *call, const void *message, struct error *err)
{
	print_line("token %s is revoked", call->inv->args[0]);
	return STATUS_OK;
}

static enum status token_whoami_show(struct call *call, const void *message, struct error *err)
{
	const Holdfast__V1__WhoAmIResponse *answer = message;

	print_field("certificate", answer->identity);
	print_field("tokens", answer->acl_enabled ? "are taken" : "are not taken (acl = false)");
	if (answer->token)
		print_token(answer->token);
	return STATUS_OK;
}

static const struct command commands[] = {
	{.path = "operator token bootstrap",
	 .args = "",
	 .help = "Make the first management token",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "BootstrapToken",
		  .show = token_bootstrap_show}},
	{.path = "operator token create",
	 .args = "NAME [POLICY...]",
	 .help = "Make a token that may do what its policies say",
	 .example = "ci readers --days 30",
	 .options = OPTION_BIT(OPT_MANAGEMENT) | OPTION_BIT(OPT_NODE) | OPTION_BIT(OPT_DAYS),
	 .min_args = 1,
	 .max_args = 1 + TOKEN_POLICY_ARGS,
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "CreateToken",
		  .load = token_create_load,
		  .show = token_create_show}},
	{.path = "operator token list",
	 .args = "",
	 .help = "List tokens, never their secrets",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "ListTokens",
		  .show = token_list_show,
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
		  .load = token_revoke_load,
		  .show = token_revoke_show}},
	{.path = "operator token whoami",
	 .args = "",
	 .help = "Show as whom the server sees this caller",
	 .example = "",
	 .call = {.service = &holdfast__v1__operator__descriptor,
		  .method = "WhoAmI",
		  .show = token_whoami_show}},
};

const struct command_table token_commands = {commands, ARRAY_SIZE(commands)};
