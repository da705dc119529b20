/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include <sodium.h>

static struct ticket_keys keys;
static unsigned int n_verifications;

int __real_crypto_sign_verify_detached(const unsigned char *sig, const unsigned char *m, unsigned long long n,
				       const unsigned char *pk);

WRAPPED(int, crypto_sign_verify_detached, const unsigned char *sig, const unsigned char *m,
	unsigned long long n, const unsigned char *pk)
{
	n_verifications++;
	return __real_crypto_sign_verify_detached(sig, m, n, pk);
}

struct expectation {
	struct ticket need;
	int64_t now_ms;
};

static struct expectation expectation(const struct mh_stage *req)
{
	struct expectation want = {.need = {.magic = TICKET_MAGIC,
					    .version = TICKET_VERSION,
					    .cluster = "demo",
					    .node = "node-1",
					    .boot_id = FIXTURE_BOOT_ID_BYTES,
					    .volume = "vol-1",
					    .alloc = FIXTURE_ALLOC_BYTES,
					    .profile = "db"},
				   .now_ms = FIXTURE_NOW_MS};

	keys.n = 1;
	memcpy(keys.key[0], fixture_public_key(0), TICKET_KEY_SIZE);
	ticket_source_digest(&req->source, want.need.source_digest);
	return want;
}

static enum reason check(const struct ticket *ticket, const struct expectation *want)
{
	return ticket_check(ticket, &want->need, &keys, want->now_ms);
}

TEST(a_ticket_for_this_request_is_good)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);

	assert_int_equal(check(&req.ticket, &want), REASON_NONE);
}

#define SIGNED(statement, reason)                             \
	do {                                                  \
		t = req.ticket;                               \
		statement;                                    \
		fixture_sign(&t, 0);                          \
		assert_int_equal(check(&t, &want), (reason)); \
	} while (0)

TEST(each_wrong_field_has_its_own_reason)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t;

	SIGNED(t.magic++, REASON_TICKET_FORMAT);
	SIGNED(t.version++, REASON_TICKET_FORMAT);
	SIGNED(t.reserved = 1, REASON_TICKET_FORMAT);
	SIGNED(t.reserved2[2] = 1, REASON_TICKET_FORMAT);
	SIGNED(t.stage_read_only = 2, REASON_TICKET_FORMAT);
	SIGNED(t.read_only = 2, REASON_TICKET_FORMAT);
	SIGNED(t.propagation = TICKET_PROPAGATION_N, REASON_TICKET_FORMAT);
	SIGNED(t.cluster[63] = 1, REASON_TICKET_CLUSTER);
	SIGNED(memset(t.node, 'a', sizeof(t.node)), REASON_TICKET_NODE);
	SIGNED(memset(t.boot_id, 'a', sizeof(t.boot_id)), REASON_TICKET_BOOT);
	SIGNED(t.volume[63] = 1, REASON_TICKET_VOLUME);
	SIGNED(t.alloc[15] ^= 1, REASON_TICKET_ALLOC);
	SIGNED(t.profile[63] = 1, REASON_TICKET_PROFILE);
	SIGNED(t.cluster[0] = 'D', REASON_TICKET_CLUSTER);
	SIGNED(t.cluster[3] = '\0', REASON_TICKET_CLUSTER);
	SIGNED(t.node[5] = '2', REASON_TICKET_NODE);
	SIGNED(t.node[6] = '0', REASON_TICKET_NODE);
	SIGNED(t.boot_id[15] ^= 1, REASON_TICKET_BOOT);
	SIGNED(t.volume[4] = '2', REASON_TICKET_VOLUME);
	SIGNED(t.alloc[0] ^= 1, REASON_TICKET_ALLOC);
	SIGNED(t.profile[0] = 'x', REASON_TICKET_PROFILE);
	SIGNED(t.source_digest[31] ^= 1, REASON_TICKET_SOURCE);
	SIGNED(t.read_only = 1, REASON_TICKET_READ_ONLY);
	SIGNED(t.stage_read_only = 1, REASON_TICKET_READ_ONLY);
	SIGNED(t.slot = 1, REASON_TICKET_SLOT);
	SIGNED(t.generation = UINT64_MAX, REASON_NONE);
}

/* @n tickets for the request, of which no two are alike. */
static void sign_batch(const struct mh_stage *req, size_t n, const struct fixture_tree *how,
		       struct ticket *ret)
{
	for (size_t i = 0; i < n; i++) {
		ret[i] = req->ticket;
		ret[i].generation = i;
	}
	fixture_sign_tree(ret, n, how);
}

TEST(every_ticket_of_a_batch_is_good)
{
	static const struct fixture_tree right = FIXTURE_TREE;
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t n = 1; n <= ARRAY_SIZE(t); n++) {
		sign_batch(&req, n, &right, t);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(check(&t[i], &want), REASON_NONE);
			assert_true((t[i].place == 1) == (n == 1));
		}
	}
	assert_int_equal(t[TICKET_BATCH_MAX - 1].place, 2 * TICKET_BATCH_MAX - 1); /* as deep as can be */
}

/* Body, place, signature, path, and what is unused of it. */
TEST(a_changed_bit_anywhere_breaks_the_signature)
{
	static const struct fixture_tree right = FIXTURE_TREE;
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t n = 1; n <= ARRAY_SIZE(t); n++) {
		sign_batch(&req, n, &right, t);
		for (size_t bit = 0; bit < 8 * sizeof(struct ticket); bit++) {
			struct ticket broken = t[bit % n];

			((uint8_t *)&broken)[bit / 8] ^= (uint8_t)(1U << bit % 8);
			assert_int_equal(check(&broken, &want), REASON_TICKET_SIGNATURE);
		}
	}
}

TEST(a_ticket_is_good_at_its_place_only)
{
	static const struct fixture_tree right = FIXTURE_TREE;
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t n = 1; n <= ARRAY_SIZE(t); n++) {
		sign_batch(&req, n, &right, t);
		for (size_t i = 0; i < n; i++) {
			struct ticket moved = t[i];

			for (unsigned int place = 0; place <= UINT8_MAX; place++) {
				moved.place = (uint8_t)place;
				assert_int_equal(check(&moved, &want),
						 place == t[i].place ? REASON_NONE : REASON_TICKET_SIGNATURE);
			}
		}
	}
}

TEST(the_proof_of_a_ticket_proves_no_other)
{
	static const struct fixture_tree right = FIXTURE_TREE;
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t n = 2; n <= ARRAY_SIZE(t); n++) {
		sign_batch(&req, n, &right, t);
		for (size_t i = 0; i < n * n; i++) {
			struct ticket mixed = t[i % n];

			memcpy(&mixed, &t[i / n], TICKET_BODY_SIZE);
			assert_int_equal(check(&mixed, &want),
					 i % n == i / n ? REASON_NONE : REASON_TICKET_SIGNATURE);
		}
	}
}

TEST(a_ticket_hashed_or_signed_otherwise_is_refused)
{
	static const struct fixture_tree wrong[] = {
		{1, 1, TICKET_ROOT_MAGIC, TICKET_VERSION, 0},	  /* a leaf like a node */
		{0, 0, TICKET_ROOT_MAGIC, TICKET_VERSION, 0},	  /* a node like a leaf */
		{1, 0, TICKET_ROOT_MAGIC, TICKET_VERSION, 0},	  /* the one for the other */
		{0, 1, TICKET_MAGIC, TICKET_VERSION, 0},	  /* something else that the key signed */
		{0, 1, TICKET_ROOT_MAGIC, TICKET_VERSION - 1, 0}, /* before */
		{0, 1, TICKET_ROOT_MAGIC, TICKET_VERSION + 1, 0}, /* after */
	};
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t i = 0; i < ARRAY_SIZE(wrong); i++) {
		sign_batch(&req, ARRAY_SIZE(t), &wrong[i], t);
		for (size_t j = 0; j < ARRAY_SIZE(t); j++)
			assert_int_equal(check(&t[j], &want), REASON_TICKET_SIGNATURE);
	}
}

/* A signature of the bytes themselves, as tickets were signed before they came in batches. */
TEST(a_ticket_of_another_version_is_refused)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	uint8_t public_key[crypto_sign_PUBLICKEYBYTES], secret[crypto_sign_SECRETKEYBYTES];
	struct ticket t = req.ticket;

	SIGNED(t.version = TICKET_VERSION - 1, REASON_TICKET_FORMAT);
	SIGNED(t.version = TICKET_VERSION + 1, REASON_TICKET_FORMAT);
	(void)crypto_sign_keypair(public_key, secret);
	memcpy(keys.key[0], public_key, sizeof(public_key));
	for (uint8_t place = 0; place <= 1; place++) {
		t = req.ticket;
		t.version = TICKET_VERSION + 1;
		t.place = place;
		(void)crypto_sign_detached(t.signature, NULL, (const unsigned char *)&t,
					   offsetof(struct ticket, signature), secret);
		assert_int_equal(check(&t, &want), REASON_TICKET_SIGNATURE);
	}
}

TEST(only_the_policys_keys_count_and_both_of_them)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t = req.ticket;

	fixture_sign(&t, 1);
	assert_int_equal(check(&t, &want), REASON_TICKET_SIGNATURE);
	keys.n = 2;
	memcpy(keys.key[1], fixture_public_key(1), TICKET_KEY_SIZE);
	assert_int_equal(check(&t, &want), REASON_NONE);
	assert_int_equal(check(&req.ticket, &want), REASON_NONE);
	fixture_sign(&t, 2);
	assert_int_equal(check(&t, &want), REASON_TICKET_SIGNATURE);
	keys.n = 0;
	assert_int_equal(check(&req.ticket, &want), REASON_TICKET_SIGNATURE);
}

TEST(it_ends_with_the_millisecond_after_not_after)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);

	want.now_ms = (int64_t)req.ticket.not_after_ms - 1;
	assert_int_equal(check(&req.ticket, &want), REASON_NONE);
	want.now_ms++;
	assert_int_equal(check(&req.ticket, &want), REASON_NONE);
	want.now_ms++;
	assert_int_equal(check(&req.ticket, &want), REASON_TICKET_EXPIRED);
	want.now_ms = -1;
	assert_int_equal(check(&req.ticket, &want), REASON_TICKET_EXPIRED);
}

TEST(less_than_granted_is_allowed_and_more_is_not)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t;

	want.need.read_only = 1;
	SIGNED(t.read_only = 1, REASON_NONE);
	SIGNED(t.read_only = 0, REASON_NONE);
	for (unsigned int granted = 0; granted < TICKET_PROPAGATION_N; granted++) {
		for (unsigned int asked = 0; asked < TICKET_PROPAGATION_N; asked++) {
			want.need.propagation = (uint8_t)asked;
			SIGNED(t.propagation = (uint8_t)granted,
			       asked <= granted ? REASON_NONE : REASON_TICKET_PROPAGATION);
		}
	}
}

TEST(no_ticket_is_all_zero)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t = {.magic = 0};

	assert_true(ticket_is_absent(&t));
	assert_int_equal(check(&t, &want), REASON_TICKET_MISSING);
	t.signature[63] = 1;
	assert_false(ticket_is_absent(&t));
	assert_int_equal(check(&t, &want), REASON_TICKET_SIGNATURE);
}

TEST(the_source_digest_leaves_out_device_numbers_and_nothing_else)
{
	/* SHA-256 of 288 bytes: 1, seven zeroes, "holdfast-demo-1", zeroes; computed elsewhere */
	static const char known[] = "037050cca5e71781f89226732affbe7c3a3ebf3675b2d382234eba09a0ff5c96";
	char hex[2 * TICKET_DIGEST_SIZE + 1];
	struct mh_stage req = fixture_stage();
	uint8_t digest[TICKET_DIGEST_SIZE], other[TICKET_DIGEST_SIZE];

	ticket_source_digest(&req.source, digest);
	hex_encode(hex, digest, sizeof(digest));
	assert_string_equal(hex, known);
	req.source.u.block.major = 99;
	req.source.u.block.minor = 98;
	ticket_source_digest(&req.source, other);
	assert_memory_equal(digest, other, sizeof(digest));
	req.source.u.block.by_id[0] = 'x';
	ticket_source_digest(&req.source, other);
	assert_memory_not_equal(digest, other, sizeof(digest));
	req = fixture_stage_tmpfs();
	ticket_source_digest(&req.source, digest);
	req.source.u.tmpfs.inodes++;
	ticket_source_digest(&req.source, other);
	assert_memory_not_equal(digest, other, sizeof(digest));
}

TEST(the_source_digest_has_the_type_of_the_volume)
{
	for (uint8_t i = 0; i < 16; i++) {
		struct mh_source csi = {.class = MH_CLASS_CSI, .u.csi.volume = {i}};
		struct mh_source disk = {.class = MH_CLASS_BLOCK, .u.block.by_id = {(char)('a' + i)}};
		uint8_t digest[TICKET_DIGEST_SIZE];

		ticket_source_digest(&csi, digest);
		assert_int_equal(digest[0] & TICKET_DIGEST_CSI, TICKET_DIGEST_CSI);
		ticket_source_digest(&disk, digest);
		assert_int_equal(digest[0] & TICKET_DIGEST_CSI, 0);
	}
}

/* A good ticket that no other test has. */
static struct ticket fresh(const struct mh_stage *req, uint64_t generation)
{
	struct ticket t = req->ticket;

	t.generation = generation;
	fixture_sign(&t, 0);
	return t;
}

TEST(the_signature_of_a_known_ticket_is_not_computed_again)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	struct ticket t[TICKET_CACHE_SIZE + 1];

	n_verifications = 0;
	for (unsigned int i = 0; i < ARRAY_SIZE(t); i++) {
		t[i] = fresh(&req, 1000 + i);
		for (int again = 0; again < 3; again++)
			assert_int_equal(check(&t[i], &want), REASON_NONE);
		assert_int_equal(n_verifications, i + 1);
	}
	assert_int_equal(check(&t[1], &want), REASON_NONE); /* the last 16 are known */
	assert_int_equal(n_verifications, ARRAY_SIZE(t));
	assert_int_equal(check(&t[0], &want), REASON_NONE); /* it has made room for the 17th */
	assert_int_equal(n_verifications, ARRAY_SIZE(t) + 1);
}

TEST(a_known_ticket_with_a_changed_byte_is_unknown)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	const struct ticket good = fresh(&req, 2000);

	for (size_t i = 0; i < sizeof(good); i++) {
		struct ticket t = good;

		assert_int_equal(check(&good, &want), REASON_NONE);
		for (unsigned int bit = 0; bit < 8; bit++) {
			t = good;
			((uint8_t *)&t)[i] ^= (uint8_t)(1U << bit);
			assert_int_equal(check(&t, &want), REASON_TICKET_SIGNATURE);
		}
	}
}

TEST(a_known_ticket_is_held_against_every_request)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	const struct expectation same = want;
	const struct ticket t = fresh(&req, 3000);

	assert_int_equal(check(&t, &want), REASON_NONE);
	want.now_ms = (int64_t)t.not_after_ms + 1;
	assert_int_equal(check(&t, &want), REASON_TICKET_EXPIRED);
	want = same;
	want.need.boot_id[0] ^= 1;
	assert_int_equal(check(&t, &want), REASON_TICKET_BOOT);
	want = same;
	(void)str_copy(want.need.volume, sizeof(want.need.volume), "vol-2");
	assert_int_equal(check(&t, &want), REASON_TICKET_VOLUME);
	want = same;
	want.need.alloc[0] ^= 1;
	assert_int_equal(check(&t, &want), REASON_TICKET_ALLOC);
	want = same;
	memset(want.need.source_digest, 0, TICKET_DIGEST_SIZE);
	assert_int_equal(check(&t, &want), REASON_TICKET_SOURCE);
	want = same;
	want.need.propagation = TICKET_PROPAGATION_HOST_TO_TASK;
	assert_int_equal(check(&t, &want), REASON_TICKET_PROPAGATION);
	assert_int_equal(check(&t, &same), REASON_NONE);
}

TEST(a_ticket_known_by_a_key_that_is_gone_is_refused)
{
	struct mh_stage req = fixture_stage();
	struct expectation want = expectation(&req);
	const struct ticket t = fresh(&req, 4000);

	assert_int_equal(check(&t, &want), REASON_NONE);
	memcpy(keys.key[0], fixture_public_key(1), TICKET_KEY_SIZE);
	assert_int_equal(check(&t, &want), REASON_TICKET_SIGNATURE);
	keys.n = 2; /* while keys are rotated both count, in either order */
	memcpy(keys.key[1], fixture_public_key(0), TICKET_KEY_SIZE);
	assert_int_equal(check(&t, &want), REASON_NONE);
}
