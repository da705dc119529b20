/* SPDX-License-Identifier: Apache-2.0 */
#include "prompt.h"
#include "unit.h"

#include "model/admission.h"
#include "ticket/ticket.h"

#include <mounthelper_wire.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/sha.h>
#include <pthread.h>
#include <sched.h>
#include <sys/stat.h>

struct fixture {
	char dir[64], key_path[96];
	struct ticket_issuer *issuer;
	uint8_t public_key[TICKET_KEY_SIZE];
};

UNIT_SETUP(setup, struct fixture, f)
{
	(void)str_copy(f->dir, sizeof(f->dir), "/tmp/holdfast-ticket-XXXXXX");
	assert_non_null(mkdtemp(f->dir));
	(void)str_format(f->key_path, sizeof(f->key_path), "%s/ticket.key", f->dir);
	assert_int_equal(ticket_key_make(f->key_path, NULL), STATUS_OK);
	assert_int_equal(ticket_issuer_new(f->key_path, "c1", &f->issuer, NULL), STATUS_OK);
	ticket_issuer_public_key(f->issuer, f->public_key);
}

UNIT_TEARDOWN(teardown, struct fixture, f)
{
	ticket_issuer_free(f->issuer);
	(void)unlink(f->key_path);
	assert_int_equal(rmdir(f->dir), 0);
}

static void hash(uint8_t prefix, const void *bytes, size_t n, uint8_t *ret)
{
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();

	assert_int_equal(EVP_DigestInit_ex(ctx, EVP_sha256(), NULL), 1);
	assert_int_equal(EVP_DigestUpdate(ctx, &prefix, 1), 1);
	assert_int_equal(EVP_DigestUpdate(ctx, bytes, n), 1);
	assert_int_equal(EVP_DigestFinal_ex(ctx, ret, NULL), 1);
	EVP_MD_CTX_free(ctx);
}

static struct ticket_root root_of(const struct ticket *ticket)
{
	struct ticket_root root = {.magic = TICKET_ROOT_MAGIC, .version = TICKET_VERSION};
	uint8_t pair[2][TICKET_DIGEST_SIZE];
	size_t depth = 0;

	hash(0, ticket, TICKET_BODY_SIZE, root.hash);
	for (unsigned int place = ticket->place; place > 1; place >>= 1) {
		assert_true(depth < TICKET_DEPTH_MAX);
		memcpy(pair[place & 1], root.hash, TICKET_DIGEST_SIZE);
		memcpy(pair[(place & 1) ^ 1], ticket->path[depth++], TICKET_DIGEST_SIZE);
		hash(1, pair, sizeof(pair), root.hash);
	}
	return root;
}

static bool is_signed(const struct fixture *f, const struct ticket *ticket)
{
	const struct ticket_root root = root_of(ticket);
	EVP_PKEY *key =
		EVP_PKEY_new_raw_public_key(EVP_PKEY_ED25519, NULL, f->public_key, sizeof(f->public_key));
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	bool good;

	assert_int_equal(EVP_DigestVerifyInit(ctx, NULL, NULL, NULL, key), 1);
	good = EVP_DigestVerify(ctx, ticket->signature, sizeof(ticket->signature),
				(const unsigned char *)&root, sizeof(root)) == 1;
	EVP_MD_CTX_free(ctx);
	EVP_PKEY_free(key);
	return good;
}

static const struct claim a_claim =
	ROW(.id = "01890000-0000-7000-8000-00000000c001",
	    .allocation_id = "01890000-0000-7000-8000-000000000001", .node_id = "n1",
	    .boot_id = "b0010000-0000-4000-8000-000000000001", .mode = CLAIM_WRITE,
	    .propagation = PROPAGATION_HOST_TO_TASK, .generation = 7);

static const struct volume a_volume = {
	.id = "db",
	.namespace = "default",
	.profile = "disk",
	.generation = 8, /* another writer was let in beside */
	.source = {.class = SOURCE_BLOCK, .by_id = "wwn-0x1"},
};

TEST(a_ticket_matches_its_claim_and_is_signed)
{
	const struct fixture *f = *state;
	char wire[WIRE_VOLUME_SIZE];
	struct ticket t;

	assert_int_equal(ticket_issue(f->issuer, &a_claim, &a_volume, 123456, &t, NULL), STATUS_OK);
	volume_wire_name("default", "db", wire);
	assert_int_equal(t.magic, TICKET_MAGIC);
	assert_string_equal(t.cluster, "c1");
	assert_string_equal(t.node, "n1");
	assert_memory_equal(t.boot_id, "\xb0\x01\0\0\0\0\x40\0\x80\0\0\0\0\0\0\x01", sizeof(t.boot_id));
	assert_memory_equal(t.alloc, "\x01\x89\0\0\0\0\x70\0\x80\0\0\0\0\0\0\x01", sizeof(t.alloc));
	assert_string_equal(t.volume, wire);
	assert_string_equal(t.profile, "disk");
	assert_int_equal(t.generation, 8);
	assert_int_equal(t.not_after_ms, 123456);
	assert_int_equal(t.read_only, 0);
	assert_int_equal(t.propagation, TICKET_PROPAGATION_HOST_TO_TASK);
	assert_true(is_signed(f, &t));
}

TEST(the_ticket_of_a_csi_volume_names_its_plugin_and_storage)
{
	const struct fixture *f = *state;
	struct mh_source source = {.class = MH_CLASS_CSI};
	struct volume csi = a_volume;
	uint8_t digest[TICKET_DIGEST_SIZE];
	struct ticket t;

	csi.type = VOLUME_CSI;
	csi.profile[0] = '\0';
	csi.source = (struct source){0};
	memcpy(csi.plugin_id, "ebs", sizeof("ebs"));
	memcpy(csi.external_id, "vol-1", sizeof("vol-1"));
	(void)SHA256((const unsigned char *)"vol-1", strlen("vol-1"), source.u.csi.volume);
	assert_int_equal(ticket_issue(f->issuer, &a_claim, &csi, 1, &t, NULL), STATUS_OK);
	assert_string_equal(t.profile, "ebs");
	(void)SHA256((const unsigned char *)&source, sizeof(source), digest);
	ticket_mark_digest(digest, true);
	assert_memory_equal(t.source_digest, digest, sizeof(digest));
	assert_true(is_signed(f, &t));
}

TEST(a_readers_ticket_forbids_writing)
{
	const struct fixture *f = *state;
	struct claim reader = a_claim;
	struct ticket t;

	reader.mode = CLAIM_READ;
	assert_int_equal(ticket_issue(f->issuer, &reader, &a_volume, 1, &t, NULL), STATUS_OK);
	assert_int_equal(t.read_only, 1);
}

static struct volume volume_of(enum source_class class, enum access_mode last)
{
	static const struct source sources[SOURCE_CLASS_N] = {
		[SOURCE_BLOCK] = {.class = SOURCE_BLOCK, .by_id = "wwn-0x1"},
		[SOURCE_TMPFS] = {.class = SOURCE_TMPFS, .size_bytes = 1 << 20, .inodes = 100},
		[SOURCE_NFS4] = {.class = SOURCE_NFS4, .server = "10.0.0.1", .export = "/e"},
		[SOURCE_BIND] = {.class = SOURCE_BIND, .host_volume = "data"},
	};
	struct volume volume = a_volume;

	volume.source = sources[class];
	for (enum access_mode mode = SINGLE_NODE_READER_ONLY; mode <= last; mode++)
		volume.capabilities[volume.n_capabilities++] =
			(struct capability){.access_mode = mode, .attachment_mode = ATTACHMENT_FILE_SYSTEM};
	return volume;
}

static struct claim claim_of(enum access_mode access, enum claim_mode mode)
{
	struct claim claim = a_claim;

	claim.access_mode = access;
	claim.mode = mode;
	memcpy(claim.plugin_id, PLUGIN_NATIVE, sizeof(PLUGIN_NATIVE));
	return claim;
}

static bool is_staged_read_only(const struct fixture *f, const struct claim *claim,
				const struct volume *volume)
{
	struct ticket t;

	assert_int_equal(ticket_issue(f->issuer, claim, volume, 1, &t, NULL), STATUS_OK);
	assert_int_equal(t.read_only, claim->mode == CLAIM_READ);
	assert_true(t.read_only || !t.stage_read_only);
	return t.stage_read_only;
}

/* Whoever the server lets beside whom on one node finds the stage as he needs it, whoever comes first. */
static void assert_one_stage(const struct fixture *f, const struct volume *volume, unsigned int *ret_pairs)
{
	for (uint32_t i = 0; i < 2 * volume->n_capabilities; i++) {
		for (uint32_t j = 0; j < 2 * volume->n_capabilities; j++) {
			const struct claim held = claim_of(volume->capabilities[i / 2].access_mode,
							   i % 2 ? CLAIM_WRITE : CLAIM_READ);
			const struct claim next = claim_of(volume->capabilities[j / 2].access_mode,
							   j % 2 ? CLAIM_WRITE : CLAIM_READ);
			const struct claim *claims[] = {&held};
			const struct claim *blocker;

			if (!admission_has_room(claim_capability(&held), held.mode, "n1", NULL, 0,
						&blocker) ||
			    !admission_has_room(claim_capability(&next), next.mode, "n1", claims, 1,
						&blocker))
				continue;
			assert_false(is_staged_read_only(f, &held, volume));
			assert_false(is_staged_read_only(f, &next, volume));
			*ret_pairs += 1;
		}
	}
}

TEST(readers_and_writers_of_one_node_share_its_stage)
{
	static const enum source_class anywhere[] = {SOURCE_TMPFS, SOURCE_NFS4, SOURCE_BIND};
	const struct fixture *f = *state;
	const struct volume disk = volume_of(SOURCE_BLOCK, SINGLE_NODE_MULTI_WRITER);
	unsigned int pairs = 0;

	assert_one_stage(f, &disk, &pairs);
	assert_int_equal(pairs, 7);
	for (size_t i = 0; i < ARRAY_SIZE(anywhere); i++) {
		const struct volume volume = volume_of(anywhere[i], MULTI_NODE_MULTI_WRITER);

		pairs = 0;
		assert_one_stage(f, &volume, &pairs);
		assert_int_equal(pairs, 48);
	}
}

TEST(a_reader_mounts_no_shared_disk_writable)
{
	const struct fixture *f = *state;
	const struct claim reader = claim_of(SINGLE_NODE_WRITER, CLAIM_READ);
	const struct claim writer = claim_of(SINGLE_NODE_WRITER, CLAIM_WRITE);
	struct volume volume = volume_of(SOURCE_BLOCK, MULTI_NODE_READER_ONLY);

	assert_true(is_staged_read_only(f, &reader, &volume));
	assert_false(is_staged_read_only(f, &writer, &volume));
	/* nor what nobody writes */
	volume = volume_of(SOURCE_BIND, SINGLE_NODE_READER_ONLY);
	assert_true(is_staged_read_only(f, &reader, &volume));
	/* a plugin has a target for each use */
	volume = volume_of(SOURCE_BIND, MULTI_NODE_MULTI_WRITER);
	volume.type = VOLUME_CSI;
	assert_true(is_staged_read_only(f, &reader, &volume));
	assert_false(is_staged_read_only(f, &writer, &volume));
}

/* @n tickets for one claim, of which no two are alike, with one signature. */
static void issue_together(const struct fixture *f, size_t n, struct ticket *ret)
{
	struct ticket *tickets[TICKET_BATCH_MAX];

	for (size_t i = 0; i < n; i++) {
		assert_ok(ticket_make(f->issuer, &a_claim, &a_volume, (int64_t)i, &ret[i], NULL));
		tickets[i] = &ret[i];
	}
	ticket_sign_all(f->issuer, tickets, n);
}

TEST(tickets_that_are_signed_together_are_each_good)
{
	const struct fixture *f = *state;
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t n = 1; n <= ARRAY_SIZE(t); n++) {
		issue_together(f, n, t);
		for (size_t i = 0; i < n; i++) {
			assert_int_equal(t[i].not_after_ms, i);
			assert_true(is_signed(f, &t[i]));
			assert_true(ticket_is_ours(f->issuer, &t[i]));
			assert_memory_equal(t[i].signature, t[0].signature, TICKET_SIGNATURE_SIZE);
		}
	}
}

TEST(a_ticket_with_a_changed_bit_is_not_ours)
{
	const struct fixture *f = *state;
	struct ticket t[TICKET_BATCH_MAX];

	for (size_t n = 1; n <= ARRAY_SIZE(t); n++) {
		issue_together(f, n, t);
		for (size_t bit = 0; bit < 8 * sizeof(struct ticket); bit++) {
			struct ticket broken = t[bit % n];

			((uint8_t *)&broken)[bit / 8] ^= (uint8_t)(1U << bit % 8);
			assert_false(ticket_is_ours(f->issuer, &broken));
		}
	}
}

TEST(the_proof_of_a_ticket_is_of_no_other)
{
	const struct fixture *f = *state;
	struct ticket t[TICKET_BATCH_MAX];

	issue_together(f, ARRAY_SIZE(t), t);
	for (size_t i = 0; i < ARRAY_SIZE(t); i++) {
		for (size_t j = 0; j < ARRAY_SIZE(t); j++) {
			struct ticket mixed = t[j];

			memcpy(&mixed, &t[i], TICKET_BODY_SIZE);
			assert_int_equal(ticket_is_ours(f->issuer, &mixed), i == j);
		}
	}
}

TEST(the_digest_is_that_of_the_source_without_device_numbers)
{
	const struct fixture *f = *state;
	struct mh_source source = {.class = MH_CLASS_BLOCK};
	uint8_t digest[SHA256_DIGEST_LENGTH];
	struct ticket t;

	(void)str_copy(source.u.block.by_id, sizeof(source.u.block.by_id), "wwn-0x1");
	(void)SHA256((const unsigned char *)&source, sizeof(source), digest);
	assert_int_equal(ticket_issue(f->issuer, &a_claim, &a_volume, 1, &t, NULL), STATUS_OK);
	assert_memory_equal(t.source_digest, digest, sizeof(digest));
}

static void open_issuer(const char *path)
{
	struct ticket_issuer *issuer;

	(void)ticket_issuer_new(path, "c1", &issuer, NULL);
}

TEST(no_pass_phrase_is_asked_for_an_encrypted_key)
{
	const struct fixture *f = *state;
	EVP_PKEY *key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	struct ticket_issuer *issuer;
	char path[PATH_MAX];
	FILE *file;

	(void)str_format(path, sizeof(path), "%s.locked", f->key_path);
	file = fopen(path, "we");
	assert_true(key && file);
	assert_int_equal(fchmod(fileno(file), 0600), 0);
	assert_int_equal(PEM_write_PKCS8PrivateKey(file, key, EVP_aes_128_cbc(), "secret", 6, NULL, NULL), 1);
	(void)fclose(file);
	EVP_PKEY_free(key);
	assert_false(asks_for_a_pass_phrase(open_issuer, path));
	assert_int_equal(ticket_issuer_new(path, "c1", &issuer, NULL), STATUS_INVALID_ARGUMENT);
	(void)unlink(path);
}

TEST(a_key_readable_by_others_or_invalid_is_refused)
{
	const struct fixture *f = *state;
	struct ticket_issuer *issuer;
	struct error err;

	assert_int_equal(chmod(f->key_path, 0640), 0);
	assert_error(ticket_issuer_new(f->key_path, "c1", &issuer, &err), STATUS_FAILED_PRECONDITION, err,
		     "chmod 600");
	assert_int_equal(chmod(f->key_path, 0600), 0);
	assert_int_equal(ticket_issuer_new("/dev/null", "c1", &issuer, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(ticket_issuer_new("/nonexistent/key", "c1", &issuer, &err), STATUS_NOT_FOUND);
	assert_int_equal(ticket_key_make(f->key_path, &err), STATUS_ALREADY_EXISTS);
}

enum { MANY = 65 };

static _Atomic unsigned int n_signatures;
static _Atomic unsigned int n_signatures_elsewhere; /* of other threads */
static pthread_t this_thread;

int __real_crypto_sign_ed25519_detached(unsigned char *sig, unsigned long long *n_sig, const unsigned char *m,
					unsigned long long n, const unsigned char *sk);

WRAPPED(int, crypto_sign_ed25519_detached, unsigned char *sig, unsigned long long *n_sig,
	const unsigned char *m, unsigned long long n, const unsigned char *sk)
{
	n_signatures++;
	if (!pthread_equal(this_thread, pthread_self()))
		n_signatures_elsewhere++;
	return __real_crypto_sign_ed25519_detached(sig, n_sig, m, n, sk);
}

static struct ticket_ahead *begin(const struct fixture *f, struct ticket_signer *signer, size_t number)
{
	struct ticket_ahead *ahead;
	struct ticket asked;

	assert_ok(ticket_make(f->issuer, &a_claim, &a_volume, (int64_t)number, &asked, NULL));
	ahead = NON_NULL(ticket_ahead_new(signer, &asked));
	return ahead;
}

/* Every third one is given up; the others are asked for in the order they were made in, or the other way. */
TEST(tickets_signed_ahead_are_those_that_were_asked_for)
{
	const struct fixture *f = *state;
	struct ticket_ahead *ahead[MANY];
	struct ticket_signer *signer;
	struct ticket t;

	assert_int_equal(ticket_signer_new(f->issuer, &signer, NULL), STATUS_OK);
	for (size_t n = 1; n <= MANY; n++) {
		for (size_t i = 0; i < n; i++)
			ahead[i] = begin(f, signer, i);
		for (size_t i = 0; i < n; i++) {
			size_t which = n % 2 == 0 ? i : n - 1 - i;

			if (which % 3 != 2) {
				assert_true(ticket_ahead_take(ahead[which], a_volume.generation, &t));
				assert_int_equal(t.not_after_ms, which);
				assert_true(ticket_is_ours(f->issuer, &t));
			}
			ticket_ahead_free(ahead[which]);
		}
	}
	ticket_signer_free(signer);
}

/* The first one that is asked for takes the others with it, as many as one signature is for. */
TEST(a_partial_batch_is_signed_when_its_first_ticket_is_needed)
{
	const struct fixture *f = *state;
	struct ticket_ahead *ahead[TICKET_BATCH_MAX - 1];
	struct ticket_signer *signer;
	struct ticket t;

	assert_int_equal(ticket_signer_new(f->issuer, &signer, NULL), STATUS_OK);
	for (size_t n = 1; n <= ARRAY_SIZE(ahead); n++) {
		n_signatures = 0;
		for (size_t i = 0; i < n; i++)
			ahead[i] = begin(f, signer, i);
		for (size_t i = n; i-- > 0;) { /* the last one first */
			assert_true(ticket_ahead_take(ahead[i], a_volume.generation, &t));
			assert_true(is_signed(f, &t));
			assert_int_equal(n_signatures, 1);
			ticket_ahead_free(ahead[i]);
		}
	}
	ticket_signer_free(signer);
}

/* Whoever is first: mostly it is the signer. */
TEST(full_batches_are_signed_without_being_asked_for)
{
	enum { BATCHES = 8 };
	const struct fixture *f = *state;
	struct ticket_ahead *ahead[BATCHES * TICKET_BATCH_MAX];
	struct ticket_signer *signer;
	struct ticket t;

	this_thread = pthread_self();
	n_signatures = n_signatures_elsewhere = 0;
	assert_int_equal(ticket_signer_new(f->issuer, &signer, NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(ahead); i++)
		ahead[i] = begin(f, signer, i);
	while (n_signatures < BATCHES) /* nothing is asked for */
		(void)sched_yield();
	assert_int_equal(n_signatures_elsewhere, BATCHES);
	for (size_t i = 0; i < ARRAY_SIZE(ahead); i++) {
		assert_true(ticket_ahead_take(ahead[i], a_volume.generation, &t));
		assert_true(is_signed(f, &t));
		ticket_ahead_free(ahead[i]);
	}
	assert_int_equal(n_signatures, BATCHES);
	ticket_signer_free(signer);
}

TEST(a_ticket_of_another_generation_is_not_taken)
{
	const struct fixture *f = *state;
	struct ticket_ahead *ahead;
	struct ticket_signer *signer;
	struct ticket t;

	assert_int_equal(ticket_signer_new(f->issuer, &signer, NULL), STATUS_OK);
	assert_int_equal(ticket_make(f->issuer, &a_claim, &a_volume, 1, &t, NULL), STATUS_OK);
	ahead = ticket_ahead_new(signer, &t);
	assert_false(ticket_ahead_take(ahead, a_volume.generation + 1, &t));
	assert_false(ticket_ahead_take(NULL, a_volume.generation, &t));
	ticket_ahead_free(ahead);
	ticket_ahead_free(NULL);
	ticket_signer_free(signer);
	ticket_signer_free(NULL);
}

TEST(a_further_key_signs_only_once_it_is_used_and_former_tickets_stay_ours)
{
	struct fixture *f = *state;
	uint8_t next[TICKET_KEY_SIZE], wrapped[TICKET_WRAPPED_SIZE];
	struct ticket_issuer *again;
	struct ticket before, after;

	assert_int_equal(ticket_issuer_make_key(f->issuer, next, wrapped, NULL), STATUS_OK);
	assert_int_equal(ticket_issue(f->issuer, &a_claim, &a_volume, 1, &before, NULL), STATUS_OK);
	assert_true(is_signed(f, &before));
	assert_true(ticket_issuer_use(f->issuer, next));
	assert_int_equal(ticket_issue(f->issuer, &a_claim, &a_volume, 1, &after, NULL), STATUS_OK);
	assert_false(is_signed(f, &after));
	assert_true(ticket_is_ours(f->issuer, &before));
	assert_true(ticket_is_ours(f->issuer, &after));
	memcpy(f->public_key, next, sizeof(next));
	assert_true(is_signed(f, &after));

	/* as a server that starts with the same file */
	assert_int_equal(ticket_issuer_new(f->key_path, "c1", &again, NULL), STATUS_OK);
	assert_false(ticket_is_ours(again, &after));
	assert_false(ticket_issuer_use(again, next));
	assert_int_equal(ticket_issuer_add_key(again, wrapped, sizeof(wrapped), NULL), STATUS_OK);
	assert_true(ticket_is_ours(again, &after));
	assert_true(ticket_issuer_use(again, next));
	ticket_issuer_free(again);
}

TEST(a_stored_key_opens_only_with_the_file_that_it_was_made_with)
{
	const struct fixture *f = *state;
	uint8_t next[TICKET_KEY_SIZE], wrapped[TICKET_WRAPPED_SIZE];
	struct ticket_issuer *other;
	char path[112];

	(void)str_format(path, sizeof(path), "%s/other.key", f->dir);
	assert_int_equal(ticket_key_make(path, NULL), STATUS_OK);
	assert_int_equal(ticket_issuer_new(path, "c1", &other, NULL), STATUS_OK);
	assert_int_equal(ticket_issuer_make_key(f->issuer, next, wrapped, NULL), STATUS_OK);
	assert_int_equal(ticket_issuer_add_key(other, wrapped, sizeof(wrapped), NULL),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(ticket_issuer_add_key(f->issuer, wrapped, sizeof(wrapped) - 1, NULL),
			 STATUS_FAILED_PRECONDITION);
	wrapped[sizeof(wrapped) - 1] ^= 1;
	assert_int_equal(ticket_issuer_add_key(f->issuer, wrapped, sizeof(wrapped), NULL),
			 STATUS_FAILED_PRECONDITION);
	ticket_issuer_free(other);
	assert_int_equal(unlink(path), 0);
}

TEST_GROUP(setup, teardown)
