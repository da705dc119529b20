/* SPDX-License-Identifier: Apache-2.0 */
/* The table of troubles, and how its sentences are filled in. */

#include "lead/trouble.h"

#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"

#include <assert.h>
#include <string.h>

/* {server}, {store}, {detail} and {for} are replaced by the facts. */
static const struct row {
	const char *word;
	const char *sentence;
	const char *next;
} rows[] = {
	[TROUBLE_NONE] = {.word = "none"},
	[TROUBLE_NO_LEADER] = {"no_leader", "no server leads just now", "ask again in some seconds"},
	[TROUBLE_NO_ANSWER] = {"no_answer",
			       "etcd does not answer, and without it no server leads or stores anything",
			       "on a machine of etcd: systemctl status etcd; "
			       "holdfast operator members names the members that do not answer"},
	[TROUBLE_NO_QUORUM] =
		{"no_quorum",
		 "etcd has no quorum, and without it no server leads or stores anything: too few of its "
		 "members reach each other",
		 "start the members that are down: holdfast operator members names them, and the trouble "
		 "while it lasts"},
	[TROUBLE_NO_SPACE] =
		{"no_space",
		 "etcd is full (its alarm NOSPACE is on): nothing is stored; a server that "
		 "leads answers reads, and no other becomes the leader",
		 "on a machine of etcd, with Debian's package etcd-client: etcdctl compact REVISION; "
		 "etcdctl defrag --cluster; etcdctl alarm disarm"},
	[TROUBLE_CERTIFICATE] =
		{"certificate",
		 "TLS between this server and etcd fails, so it neither leads nor stores anything: {detail}",
		 "compare ca, certificate and key in store \"etcd\" with those of etcd; openssl "
		 "x509 -noout -subject -dates -in FILE"},
	[TROUBLE_OTHER_KEY] =
		{"other_key",
		 "this server, {server}, has another ticket key than the cluster, so it does "
		 "not lead: every node would refuse its tickets",
		 "put the ticket key of the other servers here and restart this one; or, if all "
		 "servers have a new key: holdfast-server --replace-ticket-key"},
	[TROUBLE_OTHER_SCHEMA] = {"other_schema", "no server leads: {detail}", NULL},
	[TROUBLE_BEHIND] = {"behind",
			    "etcd is behind what this server has seen: {detail}; the leader is ended, and an "
			    "epoch begins with the next one",
			    "holdfast operator status"},
	[TROUBLE_SAME_NAME] = {"same_name",
			       "another server with the name and the address of this one, {server}, leads: "
			       "this is a copy of its machine, or the other way round",
			       "stop one of the two, or give this one a name and an address of its own (name "
			       "and advertise in store \"etcd\")"},
	[TROUBLE_RETIRED] =
		{"retired",
		 "the store in etcd at {store} was moved to the sqlite of server {server}: servers "
		 "no longer open it",
		 "on the other machines: systemctl disable --now holdfast-server"},
	[TROUBLE_HANGS] = {"hangs",
			   "the store at {store} has stored nothing for {for}, as its disk hangs: reads are "
			   "answered from memory, and no change is taken",
			   "journalctl -k -n 50; findmnt -T {store}; a frozen file system: fsfreeze -u "
			   "MOUNTPOINT"},
};
static_assert(ARRAY_SIZE(rows) == TROUBLE_N, "each trouble has a row");

const char *trouble_word(enum trouble_kind kind)
{
	assert(kind < TROUBLE_N);
	return rows[kind].word;
}

bool trouble_is_of_one_server(enum trouble_kind kind)
{
	return kind == TROUBLE_SAME_NAME || kind == TROUBLE_CERTIFICATE;
}

/* Returns the fact whose name @text begins with, "{server}", and the length of the name; NULL: not a name. */
static const char *find_fact(const char *text, const struct trouble_facts *facts, const char *duration,
			     size_t *ret_len)
{
	const struct {
		const char *name;
		const char *value;
	} known[] = {{"{server}", facts->server},
		     {"{store}", facts->store},
		     {"{detail}", facts->detail},
		     {"{for}", duration}};

	for (size_t i = 0; i < ARRAY_SIZE(known); i++)
		if (str_starts_with(text, known[i].name)) {
			*ret_len = strlen(known[i].name);
			return known[i].value ? known[i].value : "?";
		}
	return NULL;
}

/* Appends @text to the @n bytes of @ret, truncated to the room. */
static size_t add_text(const char *text, const struct trouble_facts *facts, char *ret, size_t n)
{
	char duration[CLOCK_TEXT_SIZE];

	(void)clock_format_duration(facts->for_us - facts->for_us % USEC_PER_SEC, duration);
	while (*text && n < TROUBLE_TEXT_SIZE - 1) {
		size_t skip;
		const char *fact = *text == '{' ? find_fact(text, facts, duration, &skip) : NULL;

		if (fact) {
			str_copy_text(ret + n, TROUBLE_TEXT_SIZE - n, fact);
			n += strlen(ret + n);
			text += skip;
		} else {
			ret[n++] = *text++;
		}
	}
	ret[n] = '\0';
	return n;
}

const char *trouble_text(enum trouble_kind kind, const struct trouble_facts *facts,
			 char ret[static TROUBLE_TEXT_SIZE])
{
	size_t n;

	assert(kind > TROUBLE_NONE && kind < TROUBLE_N);
	n = add_text(rows[kind].sentence, facts, ret, 0);
	if (rows[kind].next) {
		n = add_text(". Next: ", facts, ret, n);
		(void)add_text(rows[kind].next, facts, ret, n);
	}
	return ret;
}
