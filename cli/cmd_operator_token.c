/* SPDX-License-Identifier: Apache-2.0 */
#include "commands.h"
#include "connect.h"
#include "output.h"
#include "values.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/parse.h"
#include "base/str.h"
#include "rpc/pbjson_word.h"

#include <holdfast/v1/operator.pb-c.h>

enum { TOKEN_DAYS_MAX = 36500 };

#define DAY_MS INT64_C(86400000)

static enum status call_operator(struct invocation *inv, const char *method, const ProtobufCMessage *request,
				 void *ret, struct error *err)
{
	cleanup_connection struct connection *connection = NULL;
	enum status st = connect_server(inv, &connection, err);

	return st == STATUS_OK ? connection_call(connection, &holdfast__v1__operator__descriptor, method,
						 request, CALL_TIMEOUT_US, ret, err)
			       : st;
}

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

static void show_token(const Holdfast__V1__Token *token)
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

enum status cmd_operator_token_bootstrap(struct invocation *inv, struct error *err)
{
	const Holdfast__V1__BootstrapTokenRequest request = HOLDFAST__V1__BOOTSTRAP_TOKEN_REQUEST__INIT;
	cleanup_message Holdfast__V1__BootstrapTokenResponse *answer = NULL;
	enum status st = call_operator(inv, "BootstrapToken", &request.base, &answer, err);

	if (st != STATUS_OK)
		return st;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	show_token(answer->token);
	return STATUS_OK;
}

enum status cmd_operator_token_create(struct invocation *inv, struct error *err)
{
	Holdfast__V1__CreateTokenRequest request = HOLDFAST__V1__CREATE_TOKEN_REQUEST__INIT;
	cleanup_message Holdfast__V1__CreateTokenResponse *answer = NULL;
	Holdfast__V1__Token token = HOLDFAST__V1__TOKEN__INIT;
	uint32_t days = 0;
	enum status st;

	if (inv->options[OPT_DAYS] && parse_u32(inv->options[OPT_DAYS], 1, TOKEN_DAYS_MAX, &days) < 0)
		return usage_error(inv, err, "--days: a number from 1 to %d is wanted", TOKEN_DAYS_MAX);
	if (inv->options[OPT_MANAGEMENT] && inv->n_args > 1)
		return usage_error(inv, err, "--management may do everything: give no policies");
	if (inv->options[OPT_MANAGEMENT] && inv->options[OPT_NODE])
		return usage_error(inv, err, "--management may do everything: it is bound to no node");
	if (inv->options[OPT_NODE] && inv->options[OPT_NODE][0] == '\0')
		return usage_error(inv, err, "--node: the name of a node is wanted");
	token.name = inv->args[0];
	token.type = inv->options[OPT_MANAGEMENT] ? HOLDFAST__V1__TOKEN_TYPE__MANAGEMENT
						  : HOLDFAST__V1__TOKEN_TYPE__CLIENT;
	token.policies = inv->args + 1;
	token.n_policies = (size_t)inv->n_args - 1;
	if (inv->options[OPT_NODE])
		token.node = (char *)(uintptr_t)inv->options[OPT_NODE];
	token.expires_at_ms = days > 0 ? clock_realtime_ms() + days * DAY_MS : 0;
	request.token = &token;
	st = call_operator(inv, "CreateToken", &request.base, &answer, err);
	if (st != STATUS_OK)
		return st;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	show_token(answer->token);
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

enum status cmd_operator_token_list(struct invocation *inv, struct error *err)
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
	Holdfast__V1__ListTokensRequest request = HOLDFAST__V1__LIST_TOKENS_REQUEST__INIT;
	cleanup(table_freep) struct table *table = table_new(columns, ARRAY_SIZE(columns));
	cleanup_connection struct connection *connection = NULL;
	cleanup_message Holdfast__V1__ListTokensResponse *page = NULL;
	int64_t now_ms = clock_realtime_ms();
	enum status st = connect_server(inv, &connection, err);

	while (st == STATUS_OK) {
		cleanup_message Holdfast__V1__ListTokensResponse *before = TAKE_PTR(page);

		request.next_token = before ? before->next_token : request.next_token;
		st = connection_call(connection, &holdfast__v1__operator__descriptor, "ListTokens",
				     &request.base, CALL_TIMEOUT_US, (ProtobufCMessage **)(void *)&page, err);
		if (st == STATUS_OK && inv->options[OPT_JSON])
			st = print_answer(&page->base, err);
		for (size_t i = 0; st == STATUS_OK && i < page->n_tokens && table; i++)
			add_row(table, page->tokens[i], now_ms);
		if (st != STATUS_OK || page->next_token[0] == '\0')
			break;
	}
	if (st != STATUS_OK || inv->options[OPT_JSON])
		return st;
	return table_print(table, NULL, err);
}

enum status cmd_operator_token_revoke(struct invocation *inv, struct error *err)
{
	Holdfast__V1__RevokeTokenRequest request = HOLDFAST__V1__REVOKE_TOKEN_REQUEST__INIT;
	cleanup_message Holdfast__V1__RevokeTokenResponse *answer = NULL;
	enum status st = value_confirm(inv, "Whoever uses the token is refused from then on. Do it?", err);

	if (st != STATUS_OK)
		return st;
	request.accessor = inv->args[0];
	st = call_operator(inv, "RevokeToken", &request.base, &answer, err);
	if (st != STATUS_OK)
		return st;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_line("token %s is revoked", inv->args[0]);
	return STATUS_OK;
}

enum status cmd_operator_token_whoami(struct invocation *inv, struct error *err)
{
	const Holdfast__V1__WhoAmIRequest request = HOLDFAST__V1__WHO_AM_IREQUEST__INIT;
	cleanup_message Holdfast__V1__WhoAmIResponse *answer = NULL;
	enum status st = call_operator(inv, "WhoAmI", &request.base, &answer, err);

	if (st != STATUS_OK)
		return st;
	if (inv->options[OPT_JSON])
		return print_answer(&answer->base, err);
	print_field("certificate", answer->identity);
	print_field("tokens", answer->acl_enabled ? "are taken" : "are not taken (acl = false)");
	if (answer->token)
		show_token(answer->token);
	return STATUS_OK;
}
