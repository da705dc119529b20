/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket/ticket.h"

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <pthread.h>
#include <signal.h>
#include <sodium.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/queue.h>
#include <sys/random.h>
#include <sys/stat.h>

/* OpenSSL's knows what the processor can do and takes a third of the time, but needs memory. */
static void digest(const EVP_MD *sha256, const void *bytes, size_t n, uint8_t *ret)
{
	if (EVP_Digest(bytes, n, ret, NULL, sha256, NULL) != 1)
		(void)crypto_hash_sha256(ret, bytes, n); /* cannot fail */
}

static void leaf_hash(const EVP_MD *sha256, const struct ticket *ticket, uint8_t *ret)
{
	struct ticket_leaf leaf = {.prefix = 0};

	memcpy(leaf.body, ticket, sizeof(leaf.body));
	digest(sha256, &leaf, sizeof(leaf), ret);
}

/* @ret may be one of the children. */
static void node_hash(const EVP_MD *sha256, const uint8_t *left, const uint8_t *right, uint8_t *ret)
{
	struct ticket_node node = {.prefix = 1};

	memcpy(node.child[0], left, TICKET_DIGEST_SIZE);
	memcpy(node.child[1], right, TICKET_DIGEST_SIZE);
	digest(sha256, &node, sizeof(node), ret);
}

static struct ticket_root root_of(const uint8_t *hash)
{
	struct ticket_root root = {.magic = TICKET_ROOT_MAGIC, .version = TICKET_VERSION};

	memcpy(root.hash, hash, sizeof(root.hash));
	return root;
}

/* The way up from a leaf, while the tree is built. */
struct way {
	unsigned int depth;
	unsigned int turns; /* bit k: on the right, k levels above the leaf */
};

static void add_level(struct ticket *ticket, struct way *way, bool is_right, const uint8_t *sibling)
{
	memcpy(ticket->path[way->depth], sibling, TICKET_DIGEST_SIZE);
	way->turns |= (unsigned int)is_right << way->depth;
	way->depth++;
}

/* From the leaves up: two neighbours become one node; the last one of an odd number stays what it is, for the
 * next level. That is the tree of RFC 9162. */
struct ticket_root ticket_tree_make(const EVP_MD *sha256, struct ticket *const *tickets, size_t n)
{
	uint8_t hash[TICKET_BATCH_MAX][TICKET_DIGEST_SIZE]; /* of the node whose first leaf has the index */
	struct way ways[TICKET_BATCH_MAX] = {{0}};

	assert(n > 0 && n <= TICKET_BATCH_MAX);
	for (size_t i = 0; i < n; i++) {
		memset(tickets[i]->path, 0, sizeof(tickets[i]->path));
		leaf_hash(sha256, tickets[i], hash[i]);
	}
	for (size_t width = 1; width < n; width *= 2) {
		for (size_t left = 0; left + width < n; left += 2 * width) {
			size_t right = left + width;

			for (size_t i = left; i < right + width && i < n; i++)
				add_level(tickets[i], &ways[i], i >= right, hash[i < right ? right : left]);
			node_hash(sha256, hash[left], hash[right], hash[left]);
		}
	}
	for (size_t i = 0; i < n; i++)
		tickets[i]->place = (uint8_t)(1U << ways[i].depth | ways[i].turns);
	return root_of(hash[0]);
}

bool ticket_tree_root(const EVP_MD *sha256, const struct ticket *ticket, struct ticket_root *ret)
{
	uint8_t hash[TICKET_DIGEST_SIZE];
	size_t depth = 0;

	if (ticket->place < 1 || ticket->place >= 2 * TICKET_BATCH_MAX)
		return false;
	leaf_hash(sha256, ticket, hash);
	for (unsigned int place = ticket->place; place > 1; place /= 2) {
		const uint8_t *sibling = ticket->path[depth++];
		bool is_right = place % 2 == 1;

		node_hash(sha256, is_right ? sibling : hash, is_right ? hash : sibling, hash);
	}
	*ret = root_of(hash);
	return bytes_are_zero(ticket->path + depth, sizeof(ticket->path) - depth * TICKET_DIGEST_SIZE);
}

/* Its key is never changed nor freed while there is an issuer: another thread may sign with it. */
struct signing_key {
	SLIST_ENTRY(signing_key) next;
	uint8_t public_key[TICKET_KEY_SIZE];
	uint8_t secret[crypto_sign_ed25519_SECRETKEYBYTES];
};

struct ticket_issuer {
	struct signing_key file;	/* of the key's file */
	SLIST_HEAD(, signing_key) keys; /* that and, owned, others; of the event loop's thread */
	_Atomic(const struct signing_key *) in_use;
	uint8_t mac_key[crypto_generichash_KEYBYTES];
	uint8_t wrap_key[crypto_secretbox_KEYBYTES];
	char cluster[TICKET_CLUSTER_SIZE];
	EVP_MD *sha256; /* owned; looking it up costs as much as digesting a source */
};

static void free_pkey(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

static void free_bio(BIO **bio)
{
	(void)BIO_free(*bio);
}

enum status ticket_key_make(const char *key_path, struct error *err)
{
	cleanup(free_pkey) EVP_PKEY *key = NULL;
	cleanup(free_bio) BIO *bio = BIO_new(BIO_s_mem());
	char *pem = NULL;
	long len;
	int r;

	if (access(key_path, F_OK) == 0)
		return error_set(err, STATUS_ALREADY_EXISTS, 0, "%s exists already", key_path);
	key = EVP_PKEY_Q_keygen(NULL, NULL, "ED25519");
	if (!key || !bio || PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL) != 1)
		return error_set(err, STATUS_INTERNAL, 0, "make an Ed25519 key for %s", key_path);
	len = BIO_get_mem_data(bio, &pem);
	r = file_write_atomic(key_path, 0600, pem, (size_t)len);
	return r < 0 ? error_set(err, status_from_errno(r), r, "write %s", key_path) : STATUS_OK;
}

static char no_passphrase[] = ""; /* else OpenSSL asks on the terminal */

static enum status load_key(const char *key_path, EVP_PKEY **ret, struct error *err)
{
	cleanup_fclose FILE *f = fopen(key_path, "re");
	struct stat st;

	if (!f || fstat(fileno(f), &st) < 0)
		return error_set(err, status_from_errno(errno), errno,
				 "read the ticket key %s (to make one: openssl genpkey -algorithm ed25519 "
				 "-out FILE, mode 0600, the server's user)",
				 key_path);
	if (!credential_is_private(key_path, &st))
		return error_set(err, STATUS_FAILED_PRECONDITION, 0,
				 "the ticket key %s can be read by others than its owner; run: chmod 600 %s",
				 key_path, key_path);
	*ret = PEM_read_PrivateKey(f, NULL, NULL, no_passphrase);
	if (!*ret || EVP_PKEY_get_id(*ret) != EVP_PKEY_ED25519)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is not an Ed25519 private key in PEM",
				 key_path);
	return STATUS_OK;
}

static const char mac_context[] = "holdfast: codes of the ticket key";
static const char wrap_context[] = "holdfast: keys in the store";

static void derive_keys(struct ticket_issuer *issuer, const EVP_PKEY *key)
{
	uint8_t seed[crypto_sign_ed25519_SEEDBYTES];
	size_t len = sizeof(seed);

	(void)EVP_PKEY_get_raw_private_key(key, seed, &len); /* of an Ed25519 key: cannot fail */
	(void)crypto_sign_ed25519_seed_keypair(issuer->file.public_key, issuer->file.secret, seed);
	/* of its own: no key is for two things */
	(void)crypto_generichash(issuer->mac_key, sizeof(issuer->mac_key), (const uint8_t *)mac_context,
				 sizeof(mac_context), seed, sizeof(seed));
	(void)crypto_generichash(issuer->wrap_key, sizeof(issuer->wrap_key), (const uint8_t *)wrap_context,
				 sizeof(wrap_context), seed, sizeof(seed));
	explicit_bzero(seed, sizeof(seed));
}

void ticket_issuer_mac(const struct ticket_issuer *issuer, const void *data, size_t len,
		       uint8_t ret[static TICKET_MAC_SIZE])
{
	(void)crypto_generichash(ret, TICKET_MAC_SIZE, data, len, issuer->mac_key, sizeof(issuer->mac_key));
}

void ticket_issuer_sign(const struct ticket_issuer *issuer, const void *data, size_t len,
			uint8_t ret[static TICKET_SIGNATURE_SIZE])
{
	(void)crypto_sign_ed25519_detached(ret, NULL, data, len, atomic_load(&issuer->in_use)->secret);
}

/* --- further keys --- */

enum { SEED_SIZE = crypto_sign_ed25519_SEEDBYTES, NONCE_SIZE = crypto_secretbox_NONCEBYTES };

_Static_assert(TICKET_WRAP_OVERHEAD == NONCE_SIZE + crypto_secretbox_MACBYTES, "its own bytes fit");
_Static_assert(TICKET_WRAPPED_SIZE == NONCE_SIZE + crypto_secretbox_MACBYTES + SEED_SIZE, "the seed fits");

static const struct signing_key *find_key(const struct ticket_issuer *issuer, const uint8_t *public_key)
{
	const struct signing_key *key;

	SLIST_FOREACH(key, &issuer->keys, next)
	if (memcmp(key->public_key, public_key, TICKET_KEY_SIZE) == 0)
		return key;
	return NULL;
}

static enum status add_seed(struct ticket_issuer *issuer, const uint8_t *seed, uint8_t *ret_public,
			    struct error *err)
{
	struct signing_key *key = calloc(1, sizeof(*key));

	if (!key)
		return error_no_memory(err, "a ticket key");
	(void)crypto_sign_ed25519_seed_keypair(key->public_key, key->secret, seed);
	memcpy(ret_public, key->public_key, TICKET_KEY_SIZE);
	if (find_key(issuer, key->public_key))
		free(key);
	else
		SLIST_INSERT_HEAD(&issuer->keys, key, next);
	return STATUS_OK;
}

enum status ticket_issuer_make_key(struct ticket_issuer *issuer, uint8_t ret_public[static TICKET_KEY_SIZE],
				   uint8_t ret_wrapped[static TICKET_WRAPPED_SIZE], struct error *err)
{
	uint8_t seed[SEED_SIZE];
	enum status status;

	if (getrandom(seed, sizeof(seed), 0) != (ssize_t)sizeof(seed))
		return error_set(err, STATUS_INTERNAL, errno, "make a ticket key");
	status = ticket_issuer_wrap(issuer, seed, sizeof(seed), ret_wrapped, err);
	if (status == STATUS_OK)
		status = add_seed(issuer, seed, ret_public, err);
	explicit_bzero(seed, sizeof(seed));
	return status;
}

enum status ticket_issuer_add_key(struct ticket_issuer *issuer, const uint8_t *wrapped, size_t n,
				  struct error *err)
{
	uint8_t public_key[TICKET_KEY_SIZE];
	uint8_t seed[SEED_SIZE];
	enum status status;

	if (n != TICKET_WRAPPED_SIZE || !ticket_issuer_unwrap(issuer, wrapped, n, seed))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"a ticket key in the store was encrypted with another key than this server's "
			"(ticket_key): give this server the file that the key was made with");
	status = add_seed(issuer, seed, public_key, err);
	explicit_bzero(seed, sizeof(seed));
	return status;
}

enum status ticket_issuer_wrap(const struct ticket_issuer *issuer, const void *data, size_t len, uint8_t *ret,
			       struct error *err)
{
	if (getrandom(ret, NONCE_SIZE, 0) != NONCE_SIZE)
		return error_set(err, STATUS_INTERNAL, errno, "encrypt a key");
	(void)crypto_secretbox_easy(ret + NONCE_SIZE, data, len, ret, issuer->wrap_key);
	return STATUS_OK;
}

bool ticket_issuer_unwrap(const struct ticket_issuer *issuer, const uint8_t *wrapped, size_t n, void *ret)
{
	return n > TICKET_WRAP_OVERHEAD &&
	       crypto_secretbox_open_easy(ret, wrapped + NONCE_SIZE, n - NONCE_SIZE, wrapped,
					  issuer->wrap_key) == 0;
}

bool ticket_issuer_has(const struct ticket_issuer *issuer, const uint8_t public_key[static TICKET_KEY_SIZE])
{
	return find_key(issuer, public_key);
}

bool ticket_issuer_use(struct ticket_issuer *issuer, const uint8_t public_key[static TICKET_KEY_SIZE])
{
	const struct signing_key *key = find_key(issuer, public_key);

	if (key)
		atomic_store(&issuer->in_use, key);
	return key;
}

DEFINE_CLEANUP(struct ticket_issuer, ticket_issuer_free)

enum status ticket_issuer_new(const char *key_path, const char *cluster, struct ticket_issuer **ret,
			      struct error *err)
{
	cleanup(free_pkey) EVP_PKEY *key = NULL;
	enum status status = load_key(key_path, &key, err);
	cleanup(ticket_issuer_freep) struct ticket_issuer *issuer = NULL;

	if (status != STATUS_OK)
		return status;
	issuer = calloc(1, sizeof(*issuer));
	if (!issuer)
		return error_no_memory(err, "a ticket");
	if (str_copy(issuer->cluster, sizeof(issuer->cluster), cluster) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the cluster's name is too long for a ticket");
	issuer->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	if (!issuer->sha256)
		return error_set(err, STATUS_INTERNAL, 0, "OpenSSL has no SHA-256");
	derive_keys(issuer, key);
	SLIST_INIT(&issuer->keys);
	SLIST_INSERT_HEAD(&issuer->keys, &issuer->file, next);
	atomic_store(&issuer->in_use, &issuer->file);
	*ret = TAKE_PTR(issuer);
	return STATUS_OK;
}

void ticket_issuer_free(struct ticket_issuer *issuer)
{
	if (!issuer)
		return;
	EVP_MD_free(issuer->sha256);
	while (!SLIST_EMPTY(&issuer->keys)) {
		struct signing_key *key = SLIST_FIRST(&issuer->keys);

		SLIST_REMOVE_HEAD(&issuer->keys, next);
		explicit_bzero(key, sizeof(*key));
		if (key != &issuer->file)
			free(key);
	}
	explicit_bzero(issuer, sizeof(*issuer));
	free(issuer);
}

void ticket_issuer_public_key(const struct ticket_issuer *issuer, uint8_t ret[static TICKET_KEY_SIZE])
{
	memcpy(ret, atomic_load(&issuer->in_use)->public_key, TICKET_KEY_SIZE);
}

void ticket_issuer_file_key(const struct ticket_issuer *issuer, uint8_t ret[static TICKET_KEY_SIZE])
{
	memcpy(ret, issuer->file.public_key, TICKET_KEY_SIZE);
}

void ticket_issuer_hex(const struct ticket_issuer *issuer, char ret[static TICKET_KEY_HEX_SIZE])
{
	uint8_t key[TICKET_KEY_SIZE];

	ticket_issuer_file_key(issuer, key);
	hex_encode(ret, key, sizeof(key));
}

/* libsodium's takes about half of the time that OpenSSL's does; the signature is the same. */
void ticket_sign_all(const struct ticket_issuer *issuer, struct ticket *const *tickets, size_t n)
{
	const struct ticket_root root = ticket_tree_make(issuer->sha256, tickets, n);

	/* cannot fail */
	(void)crypto_sign_ed25519_detached(tickets[0]->signature, NULL, (const unsigned char *)&root,
					   sizeof(root), atomic_load(&issuer->in_use)->secret);
	for (size_t i = 1; i < n; i++)
		memcpy(tickets[i]->signature, tickets[0]->signature, TICKET_SIGNATURE_SIZE);
}

void ticket_sign(const struct ticket_issuer *issuer, struct ticket *ticket)
{
	ticket_sign_all(issuer, &ticket, 1);
}

static bool is_signed(const struct signing_key *key, const struct ticket *ticket,
		      const struct ticket_root *root)
{
	return crypto_sign_ed25519_verify_detached(ticket->signature, (const unsigned char *)root,
						   sizeof(*root), key->public_key) == 0;
}

bool ticket_is_ours(struct ticket_issuer *issuer, const struct ticket *ticket)
{
	struct signing_key *key;
	struct ticket_root root;

	if (!(ticket->magic == TICKET_MAGIC && ticket->version == TICKET_VERSION &&
	      memcmp(ticket->cluster, issuer->cluster, sizeof(ticket->cluster)) == 0 &&
	      ticket_tree_root(issuer->sha256, ticket, &root)))
		return false;
	SLIST_FOREACH(key, &issuer->keys, next)
	if (is_signed(key, ticket, &root))
		break;
	if (!key)
		return false;
	SLIST_REMOVE(&issuer->keys, key, signing_key, next);
	SLIST_INSERT_HEAD(&issuer->keys, key, next);
	return true;
}

bool ticket_issuer_knows_key(const struct ticket_issuer *issuer, const uint8_t id[static TICKET_KEY_ID_SIZE])
{
	const struct signing_key *key;
	bool knows = false;

	SLIST_FOREACH(key, &issuer->keys, next)
	knows = knows || memcmp(key->public_key, id, TICKET_KEY_ID_SIZE) == 0;
	return knows;
}

/* One stage serves all claims of a native volume on a node, so a reader's is writable where a writer may join
 * it; read-only is each publish of its own. A disk that several nodes may have at once is not mounted
 * writable by those that only read: each would write to its superblock. */
static bool is_staged_writable(const struct claim *claim, const struct volume *volume)
{
	bool has_writers = false;
	bool has_nodes = false;

	for (uint32_t i = 0; i < volume->n_capabilities; i++) {
		has_writers |= access_mode_is_writer(volume->capabilities[i].access_mode);
		has_nodes |= volume->capabilities[i].access_mode >= MULTI_NODE_READER_ONLY;
	}
	if (claim->mode != CLAIM_READ)
		return true;
	return volume->type != VOLUME_CSI && has_writers &&
	       !(has_nodes && volume->source.class == SOURCE_BLOCK);
}

enum status ticket_make(const struct ticket_issuer *issuer, const struct claim *claim,
			const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			struct error *err)
{
	struct ticket ticket = {
		.magic = TICKET_MAGIC,
		.version = TICKET_VERSION,
		/* not the claim's: if a later writer shares the volume, the helper refuses that */
		.generation = volume->generation,
		.not_after_ms = (uint64_t)not_after_ms,
		.slot = (uint8_t)claim->slot,
		.read_only = claim->mode == CLAIM_READ,
		.propagation = (uint8_t)claim->propagation,
		.stage_read_only = !is_staged_writable(claim, volume),
	};
	bool is_csi = volume->type == VOLUME_CSI;

	TRY(volume_source_digest(volume, ticket.source_digest, err));
	memcpy(ticket.cluster, issuer->cluster, sizeof(ticket.cluster));
	volume_wire_name(volume->namespace, volume->id, ticket.volume);
	if (str_copy(ticket.node, sizeof(ticket.node), claim->node_id) < 0 ||
	    !id_uuid_bytes(claim->boot_id, ticket.boot_id) ||
	    !id_uuid_bytes(claim->allocation_id, ticket.alloc) ||
	    str_copy(ticket.profile, sizeof(ticket.profile), is_csi ? volume->plugin_id : volume->profile) <
		    0)
		return error_set(err, STATUS_INTERNAL, 0, "claim %s does not fit a ticket", claim->id);
	*ret = ticket;
	return STATUS_OK;
}

enum status ticket_issue(const struct ticket_issuer *issuer, const struct claim *claim,
			 const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			 struct error *err)
{
	TRY(ticket_make(issuer, claim, volume, not_after_ms, ret, err));
	ticket_sign(issuer, ret);
	return STATUS_OK;
}

/* The signer is woken for a full batch. A smaller batch is signed when the first of its tickets is needed. */
enum { WAKE_AT = TICKET_BATCH_MAX };

enum progress { PROGRESS_WAITING, PROGRESS_UNDER_WAY, PROGRESS_DONE };

struct ticket_ahead {
	STAILQ_ENTRY(ticket_ahead) next; /* while it waits */
	struct ticket_signer *signer;
	/* Changes under the signer's lock. PROGRESS_DONE is final, and its reader has the ticket. */
	_Atomic enum progress progress;
	struct ticket ticket; /* of the thread that signs it while it is in flight */
};

struct batch {
	struct ticket_ahead *ahead[TICKET_BATCH_MAX];
	size_t n;
};

STAILQ_HEAD(ahead_queue, ticket_ahead);

struct ticket_signer {
	const struct ticket_issuer *issuer; /* borrowed */
	pthread_t thread;

	pthread_mutex_t lock; /* for everything below */
	pthread_cond_t work;
	pthread_cond_t done;
	struct ahead_queue waiting;
	size_t n_waiting;
	bool is_stopping;
	bool is_awaited; /* a thread waits for done */
};

/* The first ones that wait, in flight now. The lock is held. */
static struct batch take_batch(struct ticket_signer *signer)
{
	struct batch batch = {.n = 0};

	while (batch.n < TICKET_BATCH_MAX && !STAILQ_EMPTY(&signer->waiting)) {
		struct ticket_ahead *ahead = STAILQ_FIRST(&signer->waiting);

		STAILQ_REMOVE_HEAD(&signer->waiting, next);
		signer->n_waiting--;
		ahead->progress = PROGRESS_UNDER_WAY;
		batch.ahead[batch.n++] = ahead;
	}
	return batch;
}

/* The lock is held, and released meanwhile. */
static void sign_batch(struct ticket_signer *signer, const struct batch *batch)
{
	struct ticket *tickets[TICKET_BATCH_MAX];

	(void)pthread_mutex_unlock(&signer->lock);
	for (size_t i = 0; i < batch->n; i++)
		tickets[i] = &batch->ahead[i]->ticket;
	ticket_sign_all(signer->issuer, tickets, batch->n);
	(void)pthread_mutex_lock(&signer->lock);
	for (size_t i = 0; i < batch->n; i++)
		batch->ahead[i]->progress = PROGRESS_DONE;
}

static void *signer_main(void *userdata)
{
	struct ticket_signer *signer = userdata;
	struct batch batch;

	(void)pthread_mutex_lock(&signer->lock);
	while (!signer->is_stopping) {
		if (signer->n_waiting < WAKE_AT) {
			(void)pthread_cond_wait(&signer->work, &signer->lock);
			continue;
		}
		batch = take_batch(signer);
		sign_batch(signer, &batch);
		if (signer->is_awaited)
			(void)pthread_cond_signal(&signer->done);
	}
	(void)pthread_mutex_unlock(&signer->lock);
	return NULL;
}

/* Signals belong to the event loop, so the thread starts with all of them blocked. */
static int start_thread(struct ticket_signer *signer)
{
	sigset_t all;
	sigset_t before;
	int r;

	(void)sigfillset(&all);
	(void)pthread_sigmask(SIG_SETMASK, &all, &before);
	r = pthread_create(&signer->thread, NULL, signer_main, signer);
	(void)pthread_sigmask(SIG_SETMASK, &before, NULL);
	return -r;
}

static void free_stopped(struct ticket_signer *signer)
{
	(void)pthread_cond_destroy(&signer->done);
	(void)pthread_cond_destroy(&signer->work);
	(void)pthread_mutex_destroy(&signer->lock);
	free(signer);
}

enum status ticket_signer_new(const struct ticket_issuer *issuer, struct ticket_signer **ret,
			      struct error *err)
{
	struct ticket_signer *signer = malloc(sizeof(*signer));
	int r;

	if (!signer)
		return error_no_memory(err, "a ticket");
	*signer = (struct ticket_signer){
		.issuer = issuer,
		.lock = PTHREAD_MUTEX_INITIALIZER,
		.work = PTHREAD_COND_INITIALIZER,
		.done = PTHREAD_COND_INITIALIZER,
		.waiting = STAILQ_HEAD_INITIALIZER(signer->waiting),
	};
	r = start_thread(signer);
	if (r < 0) {
		free_stopped(signer);
		return error_set(err, status_from_errno(r), r, "start the thread that signs tickets");
	}
	*ret = signer;
	return STATUS_OK;
}

void ticket_signer_free(struct ticket_signer *signer)
{
	if (!signer)
		return;
	(void)pthread_mutex_lock(&signer->lock);
	signer->is_stopping = true;
	(void)pthread_cond_signal(&signer->work);
	(void)pthread_mutex_unlock(&signer->lock);
	(void)pthread_join(signer->thread, NULL);
	free_stopped(signer);
}

struct ticket_ahead *ticket_ahead_new(struct ticket_signer *signer, const struct ticket *ticket)
{
	struct ticket_ahead *ahead = malloc(sizeof(*ahead));
	bool is_enough;

	if (!ahead)
		return NULL;
	*ahead = (struct ticket_ahead){.signer = signer, .progress = PROGRESS_WAITING, .ticket = *ticket};
	(void)pthread_mutex_lock(&signer->lock);
	STAILQ_INSERT_TAIL(&signer->waiting, ahead, next);
	is_enough = ++signer->n_waiting == WAKE_AT;
	(void)pthread_mutex_unlock(&signer->lock);
	if (is_enough)
		(void)pthread_cond_signal(&signer->work);
	return ahead;
}

/* Until the signer is done with it; at most one signature is waited for. The lock is held. */
static void wait_until_done(struct ticket_ahead *ahead)
{
	struct ticket_signer *signer = ahead->signer;

	signer->is_awaited = true;
	while (ahead->progress == PROGRESS_UNDER_WAY)
		(void)pthread_cond_wait(&signer->done, &signer->lock);
	signer->is_awaited = false;
}

void ticket_ahead_free(struct ticket_ahead *ahead)
{
	if (!ahead)
		return;
	if (ahead->progress != PROGRESS_DONE) {
		(void)pthread_mutex_lock(&ahead->signer->lock);
		if (ahead->progress == PROGRESS_WAITING) {
			STAILQ_REMOVE(&ahead->signer->waiting, ahead, ticket_ahead, next);
			ahead->signer->n_waiting--;
		} else {
			wait_until_done(ahead);
		}
		(void)pthread_mutex_unlock(&ahead->signer->lock);
	}
	free(ahead);
}

/* Signs the ticket here, with others that wait, unless the signer has begun with it. */
static void settle(struct ticket_ahead *ahead)
{
	struct ticket_signer *signer = ahead->signer;
	struct batch batch;

	(void)pthread_mutex_lock(&signer->lock);
	if (ahead->progress == PROGRESS_WAITING) {
		/* the first ones are asked for first: found at once */
		STAILQ_REMOVE(&signer->waiting, ahead, ticket_ahead, next);
		STAILQ_INSERT_HEAD(&signer->waiting, ahead, next);
		batch = take_batch(signer);
		sign_batch(signer, &batch);
	}
	wait_until_done(ahead);
	(void)pthread_mutex_unlock(&signer->lock);
}

bool ticket_ahead_take(struct ticket_ahead *ahead, uint64_t generation, struct ticket *ret)
{
	if (!ahead || ahead->ticket.generation != generation)
		return false;
	if (ahead->progress != PROGRESS_DONE)
		settle(ahead);
	*ret = ahead->ticket;
	return true;
}
