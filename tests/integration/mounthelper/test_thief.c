/* SPDX-License-Identifier: Apache-2.0 */
/* A table of what a compromised agent tries with one ticket that it was granted: each field of each message
 * and of the ticket, with a value that was not granted. The real setuid program, and after each attempt the
 * kernel's own mount table and the trees, which must be as before.
 *
 * What stands there: tmpfs "mem-1", staged, and published at slot 7 of the allocation.
 * tests/docs/check_thief.py counts the rows. */

#include "mounthelper_words.h"
#include "volume.h"

#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"

#include <ftw.h>
#include <sodium.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#define OTHER_ALLOC "bbbbbbbb-1111-2222-3333-444444444444"

enum base {
	STAGE_DISK,
	STAGE_MEM, /* "mem-2" */
	PUBLISH,   /* "mem-1" at slot 1 */
	UNPUBLISH, /* slot 7 */
	UNSTAGE,   /* "mem-1" */
	LIST,
};

enum signer {
	AS_IT_WAS, /* the ticket is the one that was granted, changed or not */
	SERVER,	   /* a ticket that the server may have signed: for another place, time or use */
	THIEF,	   /* the agent signs it itself */
};

enum { ENDS = MH_STATUS_N }; /* a violation of the protocol, which ends the helper */

union request {
	struct mh_header header;
	struct mh_stage stage;
	struct mh_publish publish;
	struct mh_unpublish unpublish;
	struct mh_unstage unstage;
	struct mh_list list;
};

struct attempt {
	const char *name;
	enum base base;
	enum signer signer;
	size_t at, size;      /* of the field that is changed */
	const char *bytes;    /* its new value; the rest of the field is zeroed */
	size_t n_bytes;	      /* of them */
	unsigned int outcome; /* enum mh_status, or ENDS */
};

#define FIELD(type, field, value) \
	offsetof(struct type, field), sizeof(((struct type *)0)->field), (value), sizeof(value) - 1
#define NOTHING 0, 0, "", 0

static const char sixty_four[] = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa";

static const struct attempt attempts[] = {
	/* STAGE: ids are no paths, and the ticket says which */
	{"another volume", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, "mem-3"), MH_REFUSED},
	{"a volume that is staged", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, "mem-1"), MH_REFUSED},
	{"a path as volume", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, "../publish"), ENDS},
	{"a folder as volume", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, "a/b"), ENDS},
	{"the tree itself as volume", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, "."), ENDS},
	{"no volume", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, ""), ENDS},
	{"a volume without an end", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, sixty_four), ENDS},
	{"a volume with more behind its end", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, volume, "mem-2\0x"),
	 ENDS},
	{"another profile", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, profile, "disk"), MH_REFUSED},
	{"a profile that root did not name", STAGE_MEM, SERVER, FIELD(mh_stage, profile, "root"), MH_REFUSED},
	{"a path as profile", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, profile, "/etc"), ENDS},
	{"another allocation", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, alloc, OTHER_ALLOC), MH_REFUSED},
	{"a path as allocation", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, alloc, "../../../etc"), ENDS},
	{"the allocation, spelled otherwise", STAGE_MEM, AS_IT_WAS,
	 FIELD(mh_stage, alloc, "AAAAAAAA-1111-2222-3333-444444444444"), ENDS},
	{"read-only that is neither yes nor no", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, read_only, "\2"),
	 ENDS},
	{"a reserved byte", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, reserved, "\1"), ENDS},
	{"a larger tmpfs", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, source.u.tmpfs.size_bytes, "\0\0\x20"),
	 MH_REFUSED},
	{"a larger tmpfs than root allows", STAGE_MEM, SERVER,
	 FIELD(mh_stage, source.u.tmpfs.size_bytes, "\0\0\0\4"), MH_REFUSED},
	{"a tmpfs without end", STAGE_MEM, SERVER, FIELD(mh_stage, source.u.tmpfs.size_bytes, ""),
	 MH_REFUSED},
	{"more inodes", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, source.u.tmpfs.inodes, "\xff\xff"), MH_REFUSED},
	{"a host folder as source", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, source.class, "\4"), ENDS},
	{"a plugin's mount as source", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, source.class, "\5"), MH_REFUSED},
	{"a source of no class", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, source.class, "\x63"), ENDS},
	{"a path as device", STAGE_DISK, AS_IT_WAS, FIELD(mh_stage, source.u.block.by_id, "../../sda"), ENDS},
	{"a device that the ticket does not name", STAGE_DISK, AS_IT_WAS,
	 FIELD(mh_stage, source.u.block.by_id, "holdfast-test-other"), MH_REFUSED},
	{"a device that root does not name", STAGE_DISK, SERVER,
	 FIELD(mh_stage, source.u.block.by_id, "ata-root-disk"), MH_REFUSED},
	{"the numbers of another device", STAGE_DISK, AS_IT_WAS,
	 FIELD(mh_stage, source.u.block.minor, "\xff"), MH_REFUSED},
	{"the disk as a tmpfs's profile", STAGE_DISK, SERVER, FIELD(mh_stage, profile, "mem"), MH_REFUSED},
	/* the ticket */
	{"no ticket", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, ticket, ""), MH_REFUSED},
	{"another signature", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, ticket.signature, "x"), MH_REFUSED},
	{"a ticket that the agent signs", STAGE_MEM, THIEF, NOTHING, MH_REFUSED},
	{"a ticket that the agent signs for what it likes", STAGE_MEM, THIEF,
	 FIELD(mh_stage, volume, "mem-3"), MH_REFUSED},
	{"a ticket of another node", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.node, "node-2"), MH_REFUSED},
	{"a ticket of another cluster", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.cluster, "prod"),
	 MH_REFUSED},
	{"a ticket of another boot", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.boot_id, "0123456789abcdef"),
	 MH_REFUSED},
	{"a ticket of another allocation", STAGE_MEM, SERVER,
	 FIELD(mh_stage, ticket.alloc, "0123456789abcdef"), MH_REFUSED},
	{"a ticket of another volume", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.volume, "mem-1"),
	 MH_REFUSED},
	{"a ticket of another profile", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.profile, "disk"),
	 MH_REFUSED},
	{"a ticket of another source", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.source_digest, "x"),
	 MH_REFUSED},
	{"a ticket that has expired", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.not_after_ms, "\1"),
	 MH_REFUSED},
	{"a ticket of another version", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.version, "\3"), MH_REFUSED},
	{"a ticket with another magic", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.magic, "HFTR"), MH_REFUSED},
	{"a ticket with a reserved byte", STAGE_MEM, SERVER, FIELD(mh_stage, ticket.reserved2, "\1"),
	 MH_REFUSED},
	{"another place in the tree", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, ticket.place, "\2"), MH_REFUSED},
	{"hashes that its place does not need", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, ticket.path, "x"),
	 MH_REFUSED},
	{"to stage writable with a ticket for a read-only stage", STAGE_MEM, SERVER,
	 FIELD(mh_stage, ticket.stage_read_only, "\1"), MH_REFUSED},
	/* PUBLISH */
	{"a publish for another allocation", PUBLISH, AS_IT_WAS, FIELD(mh_publish, alloc, OTHER_ALLOC),
	 MH_REFUSED},
	{"a publish of another volume", PUBLISH, AS_IT_WAS, FIELD(mh_publish, volume, "vol-1"), MH_REFUSED},
	{"a publish at a path", PUBLISH, AS_IT_WAS, FIELD(mh_publish, alloc, "../../../../etc"), ENDS},
	{"a publish where the allocation has another volume", PUBLISH, AS_IT_WAS,
	 FIELD(mh_publish, slot, "\2"), MH_REFUSED},
	{"a publish at slot 32", PUBLISH, AS_IT_WAS, FIELD(mh_publish, slot, "\x20"), ENDS},
	{"a writable publish with a ticket for reading", PUBLISH, SERVER,
	 FIELD(mh_publish, ticket.read_only, "\1"), MH_REFUSED},
	{"an executable publish that root does not allow", PUBLISH, AS_IT_WAS, FIELD(mh_publish, exec, "\1"),
	 MH_REFUSED},
	{"a publish that follows the host, ungranted", PUBLISH, AS_IT_WAS,
	 FIELD(mh_publish, propagation, "\1"), MH_REFUSED},
	{"a publish that reaches the host, ungranted", PUBLISH, AS_IT_WAS,
	 FIELD(mh_publish, propagation, "\2"), MH_REFUSED},
	{"an unknown propagation", PUBLISH, AS_IT_WAS, FIELD(mh_publish, propagation, "\x9"), ENDS},
	{"a publish without a ticket", PUBLISH, AS_IT_WAS, FIELD(mh_publish, ticket, ""), MH_REFUSED},
	{"a publish of an earlier generation", PUBLISH, SERVER, FIELD(mh_publish, ticket.generation, "\1"),
	 MH_REFUSED},
	{"a publish after its ticket has expired", PUBLISH, SERVER,
	 FIELD(mh_publish, ticket.not_after_ms, "\1"), MH_REFUSED},
	{"a publish with another node's ticket", PUBLISH, SERVER, FIELD(mh_publish, ticket.node, "node-2"),
	 MH_REFUSED},
	{"a publish with the ticket of another boot", PUBLISH, SERVER,
	 FIELD(mh_publish, ticket.boot_id, "0123456789abcdef"), MH_REFUSED},
	{"a publish that the agent signs", PUBLISH, THIEF, NOTHING, MH_REFUSED},
	/* UNPUBLISH and UNSTAGE need no ticket: only names in the trees, and what is in use stays */
	{"to unpublish as another volume", UNPUBLISH, AS_IT_WAS, FIELD(mh_unpublish, volume, "vol-1"),
	 MH_CONFLICT},
	{"to unpublish lazily", UNPUBLISH, AS_IT_WAS, FIELD(mh_unpublish, detach, "\1"), MH_REFUSED},
	{"to unpublish a path", UNPUBLISH, AS_IT_WAS, FIELD(mh_unpublish, alloc, "../../elsewhere"), ENDS},
	{"to unpublish a path as volume", UNPUBLISH, AS_IT_WAS, FIELD(mh_unpublish, volume, "../.."), ENDS},
	{"to unpublish slot 32", UNPUBLISH, AS_IT_WAS, FIELD(mh_unpublish, slot, "\x20"), ENDS},
	{"to unstage what is published", UNSTAGE, AS_IT_WAS, NOTHING, MH_BUSY},
	{"to unstage it lazily", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, detach, "\1"), MH_REFUSED},
	{"to unstage a path", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, volume, "../publish"), ENDS},
	{"to unstage the tree", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, volume, "."), ENDS},
	{"to unstage a staging folder", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, volume, "mem-1/staging"), ENDS},
	{"to unstage it in a plugin's folder", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, profile, "plugin"),
	 MH_CONFLICT},
	{"to unstage in the folder of a path", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, profile, "../.."), ENDS},
	{"to unstage the folder of all plugins", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, volume, ".csi"), ENDS},
	/* the messages themselves */
	{"an operation that does not exist", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, header.op, "\x63"), ENDS},
	{"the helper's own HELLO", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, header.op, "\1"), ENDS},
	{"another ACK", UNSTAGE, AS_IT_WAS, FIELD(mh_unstage, header.op, "\2"), ENDS},
	{"another operation's length", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, header.op, "\5"), ENDS},
	{"another magic", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, header.magic, "HFTK"), ENDS},
	{"another version", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, header.version, "\6"), ENDS},
	{"a length that is not the datagram's", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, header.length, "\x20"),
	 ENDS},
	{"a flag", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, header.flags, "\1"), ENDS},
	{"a reserved word", STAGE_MEM, AS_IT_WAS, FIELD(mh_stage, header.reserved, "\1"), ENDS},
	{"a list of another kind", LIST, AS_IT_WAS, FIELD(mh_list, kind, "\x9"), ENDS},
	{"a list of a path", LIST, AS_IT_WAS, FIELD(mh_list, volume, "../../etc"), ENDS},
	{"a list in the folder of a path", LIST, AS_IT_WAS, FIELD(mh_list, profile, "../.."), ENDS},
};

static struct agent agent;

/* --- what was granted --- */

/* The ticket's fields that follow from the request. */
static void fill_ticket(struct ticket *ticket, const char *volume)
{
	(void)str_copy(ticket->volume, sizeof(ticket->volume), volume);
	ticket->generation = 2;
	sign_ticket(ticket);
}

static size_t make_request(enum base base, union request *ret)
{
	*ret = (union request){.stage = {.read_only = 0}};
	switch (base) {
	case STAGE_DISK:
		ret->stage = stage_disk();
		return sizeof(ret->stage);
	case STAGE_MEM:
		ret->stage = stage_tmpfs();
		memset(ret->stage.volume, 0, sizeof(ret->stage.volume));
		(void)str_copy(ret->stage.volume, sizeof(ret->stage.volume), "mem-2");
		fill_ticket(&ret->stage.ticket, "mem-2");
		return sizeof(ret->stage);
	case PUBLISH:
		ret->publish = publish_tmpfs();
		ret->publish.slot = ret->publish.ticket.slot = 1;
		fill_ticket(&ret->publish.ticket, "mem-1");
		return sizeof(ret->publish);
	case UNPUBLISH:
		ret->unpublish = unpublish("mem-1");
		return sizeof(ret->unpublish);
	case UNSTAGE:
		ret->unstage = unstage("mem-1");
		return sizeof(ret->unstage);
	case LIST:
		ret->list.header = mh_header_make(MH_OP_LIST, sizeof(ret->list), 0);
		return sizeof(ret->list);
	}
	return 0;
}

static struct ticket *ticket_of(enum base base, union request *request)
{
	return base == PUBLISH ? &request->publish.ticket : &request->stage.ticket;
}

/* As the server would, for the request as it is now. */
static void sign_as_server(enum base base, union request *request, const struct attempt *a)
{
	struct ticket *ticket = ticket_of(base, request);

	if (base != PUBLISH && a->at < offsetof(struct mh_stage, ticket)) {
		const struct mh_stage s =
			stage_of(request->stage.profile, request->stage.source, request->stage.read_only);

		memcpy(ticket->profile, s.ticket.profile, sizeof(ticket->profile));
		memcpy(ticket->source_digest, s.ticket.source_digest, sizeof(ticket->source_digest));
	}
	sign_ticket(ticket);
}

static void sign_as_thief(struct ticket *ticket)
{
	uint8_t public_key[crypto_sign_PUBLICKEYBYTES], secret_key[crypto_sign_SECRETKEYBYTES];
	struct ticket_root root = {.magic = TICKET_ROOT_MAGIC, .version = TICKET_VERSION};
	struct ticket_leaf leaf = {.prefix = 0};

	(void)crypto_sign_keypair(public_key, secret_key);
	memcpy(leaf.body, ticket, sizeof(leaf.body));
	(void)crypto_hash_sha256(root.hash, (const unsigned char *)&leaf, sizeof(leaf));
	(void)crypto_sign_detached(ticket->signature, NULL, (const unsigned char *)&root, sizeof(root),
				   secret_key);
}

static int start(void **state)
{
	struct mh_publish publish = publish_tmpfs();
	struct mh_stage stage = stage_tmpfs();

	agent_up(&agent);
	fill_ticket(&stage.ticket, "mem-1");
	fill_ticket(&publish.ticket, "mem-1");
	expect_stage(&agent, stage, MH_OK);
	expect_publish(&agent, publish, MH_OK);
	return 0;
}

static int stop(void **state)
{
	expect_unpublish(&agent, unpublish("mem-1"), MH_OK);
	expect_unstage(&agent, unstage("mem-1"), MH_OK);
	assert_int_equal(agent_stop_code(&agent), 0);
	return count_mounts();
}

/* --- what the machine shows --- */

static char picture_text[1 << 16];

static int add_file(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	size_t n = strlen(picture_text);

	(void)snprintf(picture_text + n, sizeof(picture_text) - n, "%s %o %u:%u\n", path,
		       (unsigned int)st->st_mode, (unsigned int)st->st_uid, (unsigned int)st->st_dev);
	return 0;
}

/* The mount table of PID 1's namespace, which is this one, and all that is in the trees. The caller's. */
static char *picture(void)
{
	char *mounts = NULL;
	size_t n;

	assert_int_equal(file_read("/proc/self/mountinfo", sizeof(picture_text) / 2, &mounts, NULL), 0);
	(void)str_copy(picture_text, sizeof(picture_text), mounts);
	free(mounts);
	assert_int_equal(nftw(TEST_PREFIX "/trees", add_file, 16, FTW_PHYS), 0);
	n = strlen(picture_text);
	assert_true(n < sizeof(picture_text) - 256);
	return strdup(picture_text);
}

/* --- the attempts --- */

/* Sends it; its status, or ENDS. */
static unsigned int send_request(union request *request, size_t n)
{
	uint8_t answer[2048];
	const struct mh_reply *reply = (const void *)answer;
	size_t got;

	request->header.seq = ++agent.seq;
	got = agent_raw(&agent, request, n, answer);
	return got == 0 ? (unsigned int)ENDS : reply->status;
}

static unsigned int attempt(const struct attempt *a)
{
	union request request;
	size_t n = make_request(a->base, &request);

	if (a->size > 0) {
		assert_true(a->at + a->size <= n && a->n_bytes <= a->size);
		memset((char *)&request + a->at, 0, a->size);
		memcpy((char *)&request + a->at, a->bytes, a->n_bytes);
	}
	if (a->signer == SERVER)
		sign_as_server(a->base, &request, a);
	if (a->signer == THIEF)
		sign_as_thief(ticket_of(a->base, &request));
	return send_request(&request, n);
}

/* How many lines of the trail have @word; with @number, the sum of what is behind it in them. */
static int recorded(const char *word, const char *number)
{
	char *log = world_log();
	char *rest = log;
	char *line;
	int sum = 0;

	while ((line = strsep(&rest, "\n"))) {
		const char *at = number ? strstr(line, number) : NULL;

		if (strstr(line, word))
			sum += at ? (int)strtol(at + strlen(number), NULL, 10) : 1;
	}
	free(log);
	return sum;
}

static void expect_unchanged(const char *name, const char *before)
{
	char *after = picture();

	if (!str_eq(before, after))
		fail_msg("%s: the mounts or the trees have changed:\n%s\nbefore:\n%s", name, after, before);
	free(after);
}

TEST_FIXTURE(a_compromised_agent_mounts_and_unmounts_nothing_that_was_not_granted, start, stop)
{
	int n_wrong = 0, n_refusals = 0, n_violations = 0;
	char *before = picture();

	for (size_t i = 0; i < ARRAY_SIZE(attempts); i++) {
		const struct attempt *a = &attempts[i];
		unsigned int outcome = attempt(a);

		expect_unchanged(a->name, before);
		if (outcome != a->outcome) {
			n_wrong++;
			print_error("%s: status %u, expected %u\n", a->name, outcome, a->outcome);
		}
		if (outcome == ENDS) {
			n_violations++;
			(void)agent_stop(&agent);
			agent_up(&agent);
		}
		n_refusals += outcome == MH_REFUSED;
	}
	free(before);
	assert_int_equal(n_wrong, 0);
	/* each is on record by itself or in a sum, which the end of an instance writes */
	(void)agent_stop(&agent);
	agent_up(&agent);
	assert_int_equal(recorded("status=refused", NULL) + recorded("op=refusals", "count="), n_refusals);
	assert_int_equal(recorded("op=violation", NULL), n_violations);
}

/* Or the rows above would be refused for another reason than theirs. */
TEST_FIXTURE(granted_requests_are_mounted, start, stop)
{
	static const enum base bases[] = {STAGE_DISK, STAGE_MEM, PUBLISH};
	struct mh_unpublish slot_1 = unpublish("mem-1");

	for (size_t i = 0; i < ARRAY_SIZE(bases); i++) {
		union request request;
		size_t n = make_request(bases[i], &request);
		char *before = picture();
		char *after;

		assert_int_equal(send_request(&request, n), MH_OK);
		after = picture();
		assert_string_not_equal(before, after);
		free(before);
		free(after);
	}
	slot_1.slot = 1;
	expect_unpublish(&agent, slot_1, MH_OK);
	expect_unstage(&agent, unstage("mem-2"), MH_OK);
	expect_unstage(&agent, unstage("vol-1"), MH_OK);
}

/* --- messages that are no message --- */

TEST_FIXTURE(malformed_messages_end_the_helper_and_change_nothing, start, stop)
{
	enum { CUT, LONG, REPEATED, SKIPPED, WITH_FD, FROM_CHILD, EMPTY_BODY, KINDS };
	char *before = picture();

	for (int kind = 0; kind < KINDS; kind++) {
		uint8_t bytes[MH_MESSAGE_MAX + 1] = {0}, answer[2048];
		union request request;
		size_t n = make_request(STAGE_MEM, &request);
		size_t got;

		request.header.seq = kind == REPEATED ? agent.seq : agent.seq + (kind == SKIPPED ? 2 : 1);
		memcpy(bytes, &request, n);
		n = kind == CUT ? n - 1 : kind == LONG ? sizeof(bytes) : kind == EMPTY_BODY ? 32 : n;
		got = kind == WITH_FD	   ? agent_raw_with_fd(&agent, bytes, n, answer)
		      : kind == FROM_CHILD ? agent_raw_from_child(&agent, bytes, n, answer)
					   : agent_raw(&agent, bytes, n, answer);
		expect_unchanged("no request", before);
		if (got != 0)
			fail_msg("kind %d was answered", kind);
		(void)agent_stop(&agent);
		agent_up(&agent);
	}
	free(before);
}

/* Whoever keeps it keeps what it read at its start: here, that no ticket is needed. */
TEST_FIXTURE(a_helper_does_nothing_by_a_policy_that_root_has_replaced, NULL, NULL)
{
	for (enum mh_op op = MH_OP_STAGE; op <= MH_OP_UNSTAGE; op++) {
		struct mh_stage s = stage_tmpfs();
		struct mh_publish p = publish_tmpfs();
		struct agent old, fresh;
		char *before;

		memset(&s.ticket, 0, sizeof(s.ticket));
		memset(&p.ticket, 0, sizeof(p.ticket));
		world_policy("optional", "");
		agent_up(&old);
		if (op != MH_OP_STAGE)
			expect_stage(&old, s, MH_OK);
		if (op == MH_OP_UNPUBLISH)
			expect_publish(&old, p, MH_OK);
		before = picture();
		world_policy("required", "");
		if (op == MH_OP_STAGE)
			expect_stage(&old, s, MH_REPLACED);
		else if (op == MH_OP_PUBLISH)
			expect_publish(&old, p, MH_REPLACED);
		else if (op == MH_OP_UNPUBLISH)
			expect_unpublish(&old, unpublish("mem-1"), MH_REPLACED);
		else
			expect_unstage(&old, unstage("mem-1"), MH_REPLACED);
		expect_unchanged("another policy", before);
		free(before);
		assert_int_equal(agent_stop_code(&old), MH_EXIT_CLOSED);
		assert_int_equal(recorded("reason=policy-replaced", NULL), op - MH_OP_STAGE + 1);
		agent_up(&fresh);
		if (op == MH_OP_UNPUBLISH)
			expect_unpublish(&fresh, unpublish("mem-1"), MH_OK);
		if (op != MH_OP_STAGE)
			expect_unstage(&fresh, unstage("mem-1"), MH_OK);
		assert_int_equal(agent_stop_code(&fresh), MH_EXIT_CLOSED);
	}
}

/* The profile has kept its name, and allows other disks now. */
TEST_FIXTURE(a_disk_that_root_has_withdrawn_is_not_published_again, NULL, NULL)
{
	static const char after[] =
		"agent %d {\n\tcluster = demo\n\tnode = node-1\n"
		"\thelper_uid = %d\n\thelper_gid = %d\n"
		"\tstage_base = " STAGE_BASE "\n\tpublish_base = " PUBLISH_BASE "\n"
		"\tlog = " LOG_PATH "\n\tlock_dir = " TEST_PREFIX "/lock\n"
		"\tcontainer = yes\n\tticket = required\n\tticket_key = %s\n"
		"\tstarts_per_minute = 6000\n\taudit = optional\n"
		"\tprofile disk { class = block; fstype = ext4; trust = trusted; exec = yes\n"
		"\t\tby_id = some-other-disk }\n}\n";
	struct agent kept;
	char text[4096];
	char *before;

	world_policy("required", "");
	agent_up(&kept);
	expect_stage(&kept, stage_disk(), MH_OK);
	expect_publish(&kept, publish_disk(), MH_OK);
	expect_unpublish(&kept, unpublish("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&kept), MH_EXIT_CLOSED);
	before = picture();
	assert_true(str_format(text, sizeof(text), after, AGENT_UID, HELPER_UID, HELPER_UID,
			       ticket_key_hex()) > 0);
	world_policy_text(text);
	agent_up(&kept);
	expect_publish(&kept, publish_disk(), MH_REFUSED);
	expect_unchanged("a withdrawn disk", before);
	free(before);
	expect_unstage(&kept, unstage("vol-1"), MH_OK);
	assert_int_equal(agent_stop_code(&kept), MH_EXIT_CLOSED);
	world_policy("required", "");
}

TEST_GROUP(world_up, world_down)
