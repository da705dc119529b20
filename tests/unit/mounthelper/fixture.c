/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "base/id.h"

#include <sodium.h>

static struct {
	uint8_t public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
	bool made;
} pairs[3];

static void make_pair(int which)
{
	uint8_t seed[crypto_sign_SEEDBYTES];

	memset(seed, 17 + which, sizeof(seed));
	if (!pairs[which].made)
		assert_int_equal(crypto_sign_seed_keypair(pairs[which].public_key, pairs[which].secret, seed),
				 0);
	pairs[which].made = true;
}

const uint8_t *fixture_public_key(int which)
{
	make_pair(which);
	return pairs[which].public_key;
}

static void hash(uint8_t prefix, const void *left, size_t n_left, const void *right, size_t n_right,
		 uint8_t *ret)
{
	crypto_hash_sha256_state state;

	(void)crypto_hash_sha256_init(&state);
	(void)crypto_hash_sha256_update(&state, &prefix, 1);
	(void)crypto_hash_sha256_update(&state, left, n_left);
	(void)crypto_hash_sha256_update(&state, right, n_right);
	(void)crypto_hash_sha256_final(&state, ret);
}

static size_t depth_of(unsigned int place)
{
	size_t depth = 0;

	for (; place > 1; place /= 2)
		depth++;
	return depth;
}

/* As RFC 9162, 2.1.1, has it: the left half has the largest power of two below @n. */
static void hash_tree(struct ticket *tickets, size_t n, const struct fixture_tree *how, unsigned int place,
		      uint8_t *ret)
{
	uint8_t child[2][TICKET_DIGEST_SIZE];
	size_t half = 1;

	if (n == 1) {
		tickets->place = (uint8_t)place;
		memset(tickets->path, 0, sizeof(tickets->path));
		hash(how->leaf_prefix, tickets, TICKET_BODY_SIZE, NULL, 0, ret);
		return;
	}
	while (2 * half < n)
		half *= 2;
	hash_tree(tickets, half, how, 2 * place, child[0]);
	hash_tree(tickets + half, n - half, how, 2 * place + 1, child[1]);
	for (size_t i = 0; i < n; i++)
		memcpy(tickets[i].path[depth_of(tickets[i].place) - depth_of(place) - 1], child[i < half],
		       TICKET_DIGEST_SIZE);
	hash(how->node_prefix, child[0], sizeof(child[0]), child[1], sizeof(child[1]), ret);
}

void fixture_sign_tree(struct ticket *tickets, size_t n, const struct fixture_tree *how)
{
	struct ticket_root root = {.magic = how->magic, .version = how->version};

	make_pair(how->which);
	hash_tree(tickets, n, how, 1, root.hash);
	for (size_t i = 0; i < n; i++)
		(void)crypto_sign_detached(tickets[i].signature, NULL, (const unsigned char *)&root,
					   sizeof(root), pairs[how->which].secret);
}

void fixture_sign(struct ticket *ticket, int which)
{
	struct fixture_tree how = FIXTURE_TREE;

	how.which = which;
	fixture_sign_tree(ticket, 1, &how);
}

const char *fixture_policy_text(const char *extra)
{
	static char text[4096];
	char hex[2 * TICKET_KEY_SIZE + 1];

	hex_encode(hex, fixture_public_key(0), TICKET_KEY_SIZE);
	assert_true(
		str_format(
			text, sizeof(text),
			"agent %d {\n"
			"cluster = demo; node = node-1\n"
			"helper_uid = %d; helper_gid = %d\n"
			"stage_base = /srv/stage\n"
			"publish_base = /srv/publish\n"
			"log = /var/log/trail\n"
			"lock_dir = /run/hf\n"
			"max_tmpfs_total = 4MiB\n"
			"ticket_key = %s\n%s\n"
			"profile db { class = block; fstype = ext4; trust = trusted; exec = yes\n"
			"by_id = holdfast-demo-; options = discard,noatime }\n"
			"profile ro { class = block; fstype = ext4; trust = trusted; ro = yes\n"
			"by_id = exact:holdfast-demo-1 }\n"
			"profile image { class = block; fstype = squashfs; trust = untrusted; ro = yes\n"
			"by_id = holdfast-demo- }\n"
			"profile mem { class = tmpfs; fstype = tmpfs; max_size = 2MiB; max_inodes = 1000 }\n"
			"}\n",
			FIXTURE_UID, FIXTURE_HELPER_UID, FIXTURE_HELPER_UID, hex, extra) > 0);
	return text;
}

void fixture_policy(const char *extra, struct policy *ret)
{
	const char *text = fixture_policy_text(extra);
	struct error err = {.msg = ""};
	unsigned int line;

	assert_succeeds(policy_parse("fixture", text, strlen(text), ret, &line, &err), err);
}

static struct ticket grant(const char *volume, const char *alloc, const char *profile,
			   const struct mh_source *source)
{
	struct ticket ticket = {.magic = TICKET_MAGIC,
				.version = TICKET_VERSION,
				.cluster = "demo",
				.node = "node-1",
				.boot_id = FIXTURE_BOOT_ID_BYTES,
				.generation = 7,
				.not_after_ms = FIXTURE_NOW_MS + 60000};

	(void)str_copy(ticket.volume, sizeof(ticket.volume), volume);
	(void)id_uuid_bytes(alloc, ticket.alloc);
	(void)str_copy(ticket.profile, sizeof(ticket.profile), profile);
	ticket_source_digest(source, ticket.source_digest);
	fixture_sign(&ticket, 0);
	return ticket;
}

static struct mh_header header(uint16_t op, size_t size)
{
	return (struct mh_header){
		.magic = MH_MAGIC, .version = MH_VERSION, .op = op, .length = (uint32_t)size, .seq = 2};
}

void fixture_grant_stage(struct mh_stage *req)
{
	req->ticket = grant(req->volume, req->alloc, req->profile, &req->source);
}

void fixture_grant_publish(struct mh_publish *req, const struct mh_source *source)
{
	req->source = *source;
	req->ticket = grant(req->volume, req->alloc, req->profile, source);
	*req = fixture_at_slot(*req, req->slot);
}

struct mh_publish fixture_at_slot(struct mh_publish req, uint8_t slot)
{
	req.slot = slot;
	if (ticket_is_absent(&req.ticket))
		return req;
	req.ticket.slot = slot;
	fixture_sign(&req.ticket, 0);
	return req;
}

struct mh_stage fixture_stage(void)
{
	struct mh_stage req = {
		.header = header(MH_OP_STAGE, sizeof(req)),
		.volume = "vol-1",
		.profile = "db",
		.alloc = FIXTURE_ALLOC,
		.source = {
			.class = MH_CLASS_BLOCK,
			.u.block = {.by_id = FIXTURE_BY_ID, .major = FIXTURE_MAJOR, .minor = FIXTURE_MINOR}}};

	fixture_grant_stage(&req);
	return req;
}

struct mh_stage fixture_stage_tmpfs(void)
{
	struct mh_stage req = {
		.header = header(MH_OP_STAGE, sizeof(req)),
		.volume = "mem-1",
		.profile = "mem",
		.alloc = FIXTURE_ALLOC,
		.source = {.class = MH_CLASS_TMPFS, .u.tmpfs = {.size_bytes = 1 << 20, .inodes = 100}}};

	fixture_grant_stage(&req);
	return req;
}

struct mh_publish fixture_publish(void)
{
	const struct mh_stage stage = fixture_stage();
	struct mh_publish req = {.header = header(MH_OP_PUBLISH, sizeof(req)),
				 .volume = "vol-1",
				 .profile = "db",
				 .alloc = FIXTURE_ALLOC,
				 .slot = 2};

	fixture_grant_publish(&req, &stage.source);
	return req;
}

struct mh_publish fixture_publish_tmpfs(void)
{
	const struct mh_stage stage = fixture_stage_tmpfs();
	struct mh_publish req = {.header = header(MH_OP_PUBLISH, sizeof(req)),
				 .volume = "mem-1",
				 .profile = "mem",
				 .alloc = FIXTURE_ALLOC,
				 .slot = 2};

	fixture_grant_publish(&req, &stage.source);
	return req;
}

struct mh_unpublish fixture_unpublish(void)
{
	return (struct mh_unpublish){.header = header(MH_OP_UNPUBLISH, sizeof(struct mh_unpublish)),
				     .volume = "vol-1",
				     .alloc = FIXTURE_ALLOC,
				     .slot = 2};
}

struct mh_unstage fixture_unstage(void)
{
	return (struct mh_unstage){.header = header(MH_OP_UNSTAGE, sizeof(struct mh_unstage)),
				   .volume = "vol-1"};
}
