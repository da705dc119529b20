/* SPDX-License-Identifier: Apache-2.0 */
#include "command/aliases.h"

#include "base/cleanup.h"
#include "base/str.h"

#include <string.h>

static const char *const looking[] = {"ls", "list", "get", "describe", "show", "info", "inspect", "status"};

static const struct noun {
	const char *name, *plural, *other;
	const char *status;
} nouns[] = {
	{"volume", "volumes", "vol", "volume status"},
	{"node", "nodes", "no", "node status"},
	{"alloc", "allocs", "allocation", "alloc status"},
	{"job", "jobs", "deployment", "job status"},
	{"plugin", "plugins", "driver", "plugin status"},
	{"token", "tokens", "token", "operator token list"},
};

static const struct words {
	const char *given;
	const char *meant;
} aliases[] = {
	{"allocations", "alloc status"},
	{"wait volume", "volume wait"},
	{"wait node", "node wait"},
	{"wait alloc", "alloc wait"},
	{"wait job", "job wait"},
	{"volume rm", "volume deregister"},
	{"volume remove", "volume deregister"},
	{"volume resize", "volume expand"},
	{"volume add", "volume register"},
	{"volume snapshot ls", "volume snapshot list"},
	{"volume snapshot status", "volume snapshot list"},
	{"volume snapshot rm", "volume snapshot delete"},
	{"snapshot list", "volume snapshot list"},
	{"snapshot create", "volume snapshot create"},
	{"alloc rm", "alloc stop"},
	{"job rm", "job stop"},
	{"job remove", "job stop"},
	{"job apply", "job run"},
	{"job inspect", "job status"},
	{"alloc log", "alloc logs"},
	{"logs", "alloc logs"},
	{"exec", "alloc exec"},
	{"top", "alloc stats"},
	{"run", "job run"},
	{"plan", "job plan"},
	{"stop", "alloc stop"},
	{"drain", "node drain"},
	{"status", "operator status"},
	{"server members", "operator members"},
	{"system gc", "operator gc"},
	{"monitor", "operator watch"},
	{"watch", "operator watch"},
	{"events", "operator audit"},
	{"agent-info", "agent status"},
	{"node-status", "node status"},
	{"operator snapshot save", "operator backup"},
	{"operator snapshot restore", "operator restore"},
	{"operator token ls", "operator token list"},
	{"operator token status", "operator token list"},
	{"operator policy ls", "operator policy list"},
	{"operator policy status", "operator policy list"},
	{"acl token list", "operator token list"},
	{"acl policy list", "operator policy list"},
	{"acl bootstrap", "operator token bootstrap"},
	{"list-units", "alloc status"},
	{"contexts", "context list"},
	{"context ls", "context list"},
	{"context status", "context list"},
	{"context rm", "context delete"},
	{"config get-contexts", "context list"},
	{"config use-context", "context use"},
	{"config current-context", "context show"},
};

static const struct words hints[] = {
	{"create", "volume create FILE or job run FILE"},
	{"delete", "volume delete ID, alloc stop ID or node purge ID"},
	{"rm", "volume deregister ID, alloc stop ID or job stop ID"},
	{"cordon", "node eligibility ID --disable"},
	{"uncordon", "node eligibility ID --enable"},
	{"start", "alloc run FILE or job run FILE"},
	{"restart", "job restart ID"},
	{"scale", "job scale ID GROUP N"},
	{"node rm", "node purge ID"},
	{"node delete", "node purge ID"},
	{"snapshot", "volume snapshot list"},
	{"journalctl", "alloc logs ID or agent status"},
	{"acl", "operator token list or operator policy list"},
	{"mount", "volume hold ID or alloc run FILE"},
	{"umount", "alloc stop ID"},
	{"wait", "volume wait ID --for free or alloc wait ID --for running"},
};

/* Returns how long @given is if @args begin with it, else 0. */
static int match(const char *given, char *const *args, int n)
{
	int used = 0;

	for (; *given; used++) {
		size_t length = strcspn(given, " ");

		if (used == n || strlen(args[used]) != length || strncmp(args[used], given, length) != 0)
			return 0;
		given += length;
		given += strspn(given, " ");
	}
	return used;
}

static const struct noun *noun_of(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(nouns); i++)
		if (str_eq(word, nouns[i].name) || str_eq(word, nouns[i].plural) ||
		    str_eq(word, nouns[i].other))
			return &nouns[i];
	return NULL;
}

static bool is_looking(const char *word)
{
	for (size_t i = 0; i < ARRAY_SIZE(looking); i++)
		if (str_eq(word, looking[i]))
			return true;
	return false;
}

/* "volumes", "volume ls", "get volume". */
static const char *find_looking(char *const *args, int n, int *ret_used)
{
	const struct noun *noun = n > 0 ? noun_of(args[0]) : NULL;
	const struct noun *second = n > 1 ? noun_of(args[1]) : NULL;

	*ret_used = 2;
	if (noun && n > 1 && is_looking(args[1]))
		return noun->status;
	if (second && is_looking(args[0]))
		return second->status;
	*ret_used = 1;
	return noun && str_eq(args[0], noun->plural) ? noun->status : NULL;
}

const char *alias_find(char *const *args, int n, int *ret_used)
{
	const char *meant = NULL;
	int used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(aliases); i++) {
		int matched = match(aliases[i].given, args, n);

		if (matched > used) {
			used = matched;
			meant = aliases[i].meant;
		}
	}
	*ret_used = used;
	return meant ? meant : find_looking(args, n, ret_used);
}

const char *alias_hint(char *const *args, int n)
{
	const char *meant = NULL;
	int used = 0;

	for (size_t i = 0; i < ARRAY_SIZE(hints); i++) {
		int matched = match(hints[i].given, args, n);

		if (matched > used) {
			used = matched;
			meant = hints[i].meant;
		}
	}
	return meant;
}
