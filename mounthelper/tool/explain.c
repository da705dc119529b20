/* SPDX-License-Identifier: Apache-2.0 */
#include "explain.h"

#include "admission.h"
#include "block_lexer.h"

#include "base/cleanup.h"
#include "base/parse.h"
#include "base/str.h"

#include <string.h>

/* The text for a reason about a key of the profile or the agent. */
static const struct explanation {
	enum reason reason;
	bool is_of_agent;
	const char *key;
	const char *text;
} explanations[] = {
	{REASON_PROFILE_UNKNOWN, true, NULL, "has no profile or hostvol of that name"},
	{REASON_CLASS, false, "class", "is of another class than the source asked for"},
	{REASON_READ_ONLY, false, "ro", "can be mounted only read-only"},
	{REASON_EXEC, false, "exec", "does not allow programs to be run"},
	{REASON_PROPAGATION, false, "shared",
	 "does not allow this propagation; bidirectional needs to be writable"},
	{REASON_BY_ID, false, "by_id", "has no by_id that the device begins with or is"},
	{REASON_TMPFS_SIZE, false, "max_size", "does not allow that size"},
	{REASON_TMPFS_INODES, false, "max_inodes", "does not allow so many inodes"},
	{REASON_SERVER, false, "server", "has no server that holds the address"},
	{REASON_EXPORT, false, "export", "has no export that the path is below"},
	{REASON_HOSTVOL, false, NULL, "is not the host volume asked for"},
	{REASON_DETACH, true, "allow_detach", "does not allow a busy mount to be detached"},
	{REASON_MAX_PER_ALLOC, true, "max_per_alloc", "does not allow that slot"},
};

/* The keys that allow a request: an answer has a line for each, and for agent and profile. */
enum allowing { BY_ID, SERVER, EXPORT, MAX_SIZE, PATH, MOUNT, UUID, EXEC, SHARED, ALLOW_DETACH, ALLOWING_N };

static const char *const allowing_keys[] = {
	[BY_ID] = "by_id",   [SERVER] = "server",
	[EXPORT] = "export", [MAX_SIZE] = "max_size",
	[PATH] = "path",     [MOUNT] = "mount",
	[UUID] = "uuid",     [EXEC] = "exec",
	[SHARED] = "shared", [ALLOW_DETACH] = "allow_detach",
};

_Static_assert(ARRAY_SIZE(allowing_keys) == ALLOWING_N, "one for each");
_Static_assert(ANSWER_LINES == 2 + ALLOWING_N, "agent, profile and each key");

struct asked {
	const char *text;
	size_t n;
	const struct agent_policy *agent;
	const struct profile *profile; /* NULL: unknown, or not asked for */
	struct answer *answer;
};

/* A walk through a policy that was accepted. */
struct walk {
	struct block_lexer lexer;
	unsigned int depth;
	char names[3][BLOCK_WORD_MAX + 1]; /* of the blocks around: [1] uid, [2] profile */
};

static bool is_in(const struct walk *walk, const struct asked *asked, bool is_of_agent)
{
	uint32_t uid;

	if (walk->depth != (is_of_agent ? 1U : 2U))
		return false;
	return parse_u32(walk->names[1], 1, UINT32_MAX - 1, &uid) == 0 && uid == asked->agent->uid &&
	       (is_of_agent || str_eq(walk->names[2], asked->profile->name));
}

/* Returns the line of the @nth value of @key, or 0; the value is the lexer's token then. */
static unsigned int find_value(struct walk *walk, const struct asked *asked, const char *key,
			       bool is_of_agent, uint32_t nth)
{
	struct block_lexer *lx = &walk->lexer;
	char word[BLOCK_WORD_MAX + 1] = "";

	*walk = (struct walk){
		.lexer = {.file = "", .p = asked->text, .end = asked->text + asked->n, .line = 1}};
	while (lexer_next(lx) == STATUS_OK && lx->token != TOKEN_EOF) {
		if (lx->token == TOKEN_OPEN && walk->depth < 2)
			(void)str_copy(walk->names[++walk->depth], sizeof(word), word);
		else if (lx->token == TOKEN_CLOSE && walk->depth > 0)
			walk->depth--;
		else if (lx->token == TOKEN_WORD)
			(void)str_copy(word, sizeof(word), lx->word);
		else if (lx->token == TOKEN_EQUALS && lexer_next(lx) == STATUS_OK && str_eq(word, key) &&
			 is_in(walk, asked, is_of_agent) && nth-- == 0)
			return lx->token_line;
	}
	return 0;
}

static struct answer_line *add_line(const struct asked *asked, unsigned int line)
{
	struct answer_line *ret = &asked->answer->lines[asked->answer->n_lines++];

	ret->line = line;
	return ret;
}

static void add_block(const struct asked *asked, bool is_of_agent)
{
	const struct profile *profile = is_of_agent ? NULL : asked->profile;
	struct answer_line *line = add_line(asked, profile ? profile->line : asked->agent->line);

	if (!profile)
		(void)str_format(line->text, sizeof(line->text), "agent %u", asked->agent->uid);
	else
		(void)str_format(line->text, sizeof(line->text), "%s %s",
				 profile->class == MH_CLASS_BIND ? "hostvol" : "profile", profile->name);
}

static void add_value(const struct asked *asked, enum allowing allowing, uint32_t nth)
{
	static struct walk walk;
	const char *key = allowing_keys[allowing];
	unsigned int at = find_value(&walk, asked, key, allowing == ALLOW_DETACH, nth);
	struct answer_line *line;

	if (at == 0)
		return;
	line = add_line(asked, at);
	(void)str_format(line->text, sizeof(line->text), "%s = %s", key, walk.lexer.word);
}

/* Adds the cause as the last line, at the line of the key or else of the block. */
static void add_refusal(const struct asked *asked)
{
	const struct explanation *why = explanations;
	static struct walk walk;
	unsigned int at = 0;
	char text[ANSWER_TEXT_SIZE];

	while (why < &explanations[ARRAY_SIZE(explanations)] && why->reason != asked->answer->reason)
		why++;
	if (why == &explanations[ARRAY_SIZE(explanations)])
		return;
	if (why->key)
		at = find_value(&walk, asked, why->key, why->is_of_agent, 0);
	add_block(asked, why->is_of_agent);
	(void)str_format(text, sizeof(text), "%s %s%s%s%s",
			 asked->answer->lines[asked->answer->n_lines - 1].text, why->text,
			 why->key ? ": " : "", why->key ? why->key : "",
			 !why->key ? ""
			 : at	   ? " = "
				   : " is not set");
	if (at != 0) {
		struct answer_line *line = add_line(asked, at);

		(void)str_format(line->text, sizeof(line->text), "%s%s", text, walk.lexer.word);
	} else {
		(void)str_copy(asked->answer->lines[asked->answer->n_lines - 1].text, ANSWER_TEXT_SIZE, text);
	}
}

/* Adds the rule of a list that admits the source: the first one that suffices. */
static void add_rules(const struct asked *asked, const struct mh_source *source)
{
	const struct profile *profile = asked->profile;
	static struct profile one;

	for (uint32_t i = 0; profile->class == MH_CLASS_BLOCK && i < profile->n_by_id; i++) {
		one = *profile;
		one.n_by_id = 1;
		one.by_id[0] = profile->by_id[i];
		if (profile_admit_source(&one, source) == REASON_NONE)
			return add_value(asked, BY_ID, i);
	}
	for (uint32_t i = 0; i < profile->n_servers * profile->n_exports; i++) {
		const uint32_t server = i / profile->n_exports;
		const uint32_t export = i % profile->n_exports;

		one = *profile;
		one.n_servers = 1;
		one.n_exports = 1;
		one.server[0] = profile->server[server];
		memcpy(one.export[0], profile -> export[export], MH_EXPORT_SIZE);
		if (profile_admit_source(&one, source) != REASON_NONE)
			continue;
		add_value(asked, SERVER, server);
		return add_value(asked, EXPORT, export);
	}
	if (profile->class == MH_CLASS_TMPFS)
		add_value(asked, MAX_SIZE, 0);
	if (profile->class == MH_CLASS_BIND)
		add_value(asked, PATH, 0);
	if (profile->needs_mount)
		add_value(asked, MOUNT, 0);
	if (profile->class == MH_CLASS_BIND && profile->n_by_id > 0)
		add_value(asked, UUID, 0);
}

static struct mh_source source_of(const struct asked *asked, enum mh_op op, const struct mh_source *source)
{
	struct mh_source ret = *source;

	if (ret.class != 0 || !asked->profile)
		return ret;
	ret.class = (uint8_t)asked->profile->class;
	if (ret.class == MH_CLASS_TMPFS) {
		ret.u.tmpfs.size_bytes = asked->profile->max_size;
		ret.u.tmpfs.inodes = asked->profile->max_inodes;
	}
	if (ret.class == MH_CLASS_BIND)
		(void)str_copy(ret.u.bind.name, sizeof(ret.u.bind.name), asked->profile->name);
	if (ret.class == MH_CLASS_BLOCK && op == MH_OP_PUBLISH) /* of any that may be staged */
		(void)str_copy(ret.u.block.by_id, sizeof(ret.u.block.by_id), asked->profile->by_id[0].text);
	if (ret.class == MH_CLASS_NFS4 && op == MH_OP_PUBLISH) {
		ret.u.nfs4.family = asked->profile->server[0].family;
		memcpy(ret.u.nfs4.addr, asked->profile->server[0].addr, sizeof(ret.u.nfs4.addr));
		if (asked->profile->server[0].prefix_bits < 8)
			ret.u.nfs4.addr[0] |= 1; /* no special address */
		(void)str_copy(ret.u.nfs4.export, sizeof(ret.u.nfs4.export), asked->profile->export[0]);
	}
	return ret;
}

static enum reason decide(const struct asked *asked, const struct question *q, const struct mh_source *source)
{
	static struct helper helper;
	struct agent_policy agent = *asked->agent;
	union mh_request req = {.header.op = q->op};
	struct admission admission;

	agent.ticket_optional = 1; /* the answer is about the policy */
	helper = (struct helper){.agent = &agent};
	for (size_t i = 0; i < ARRAY_SIZE(helper.type_available); i++)
		helper.type_available[i] = true;
	if (q->op == MH_OP_STAGE || q->op == MH_OP_PUBLISH) { /* they begin alike */
		req.stage.read_only = q->read_only;
		req.stage.source = *source;
		(void)str_copy(req.stage.profile, sizeof(req.stage.profile), q->profile);
	}
	if (q->op == MH_OP_PUBLISH) {
		req.publish.exec = q->exec;
		req.publish.slot = q->slot;
		req.publish.propagation = q->propagation;
	} else if (q->op == MH_OP_UNPUBLISH) {
		req.unpublish.detach = q->detach;
	} else if (q->op == MH_OP_UNSTAGE) {
		req.unstage.detach = q->detach;
	}
	return admit_request(&helper, &req, 0, &admission);
}

void explain(const char *text, size_t n, const struct agent_policy *agent, const struct question *q,
	     struct answer *ret)
{
	struct asked asked = {.text = text, .n = n, .agent = agent, .answer = ret};
	struct mh_source source;

	*ret = (struct answer){.reason = REASON_NONE};
	if (q->profile)
		asked.profile = policy_profile(agent, q->profile);
	source = source_of(&asked, q->op, &q->source);
	ret->reason = decide(&asked, q, &source);
	if (ret->reason != REASON_NONE)
		return add_refusal(&asked);
	add_block(&asked, true);
	if (asked.profile)
		add_block(&asked, false);
	if (q->op == MH_OP_STAGE && asked.profile)
		add_rules(&asked, &source);
	if (q->op == MH_OP_PUBLISH && q->exec)
		add_value(&asked, EXEC, 0);
	if (q->op == MH_OP_PUBLISH && q->propagation != TICKET_PROPAGATION_PRIVATE)
		add_value(&asked, SHARED, 0);
	if (q->detach)
		add_value(&asked, ALLOW_DETACH, 0);
	ret->needs_ticket = asked.profile && !agent->ticket_optional;
}
