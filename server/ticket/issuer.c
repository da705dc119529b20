/* SPDX-License-Identifier: Apache-2.0 */
#include "ticket/issuer.h"

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"
#include "ticket/tree.h"

#include <errno.h>
#include <mounthelper_wire.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <sodium.h>
#include <string.h>
#include <sys/stat.h>

struct ticket_issuer {
	uint8_t public_key[TICKET_KEY_SIZE];
	uint8_t secret[crypto_sign_ed25519_SECRETKEYBYTES];
	uint8_t mac_key[crypto_generichash_KEYBYTES];
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
	*ret = PEM_read_PrivateKey(f, NULL, NULL, NULL);
	if (!*ret || EVP_PKEY_get_id(*ret) != EVP_PKEY_ED25519)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "%s is not an Ed25519 private key in PEM",
				 key_path);
	return STATUS_OK;
}

static const char mac_context[] = "holdfast: codes of the ticket key";

static void take_key(struct ticket_issuer *issuer, const EVP_PKEY *key)
{
	uint8_t seed[crypto_sign_ed25519_SEEDBYTES];
	size_t len = sizeof(seed);

	(void)EVP_PKEY_get_raw_private_key(key, seed, &len); /* of an Ed25519 key: cannot fail */
	(void)crypto_sign_ed25519_seed_keypair(issuer->public_key, issuer->secret, seed);
	/* of its own: no key is for two things */
	(void)crypto_generichash(issuer->mac_key, sizeof(issuer->mac_key), (const uint8_t *)mac_context,
				 sizeof(mac_context), seed, sizeof(seed));
	explicit_bzero(seed, sizeof(seed));
}

void ticket_issuer_mac(const struct ticket_issuer *issuer, const void *data, size_t len,
		       uint8_t ret[static TICKET_MAC_SIZE])
{
	(void)crypto_generichash(ret, TICKET_MAC_SIZE, data, len, issuer->mac_key, sizeof(issuer->mac_key));
}

DEFINE_CLEANUP(struct ticket_issuer, ticket_issuer_free)

enum status ticket_issuer_new(const char *key_path, const char *cluster, struct ticket_issuer **ret,
			      struct error *err)
{
	cleanup(free_pkey) EVP_PKEY *key = NULL;
	enum status st = load_key(key_path, &key, err);
	cleanup(ticket_issuer_freep) struct ticket_issuer *issuer = NULL;

	if (st != STATUS_OK)
		return st;
	issuer = calloc(1, sizeof(*issuer));
	if (!issuer)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	if (str_copy(issuer->cluster, sizeof(issuer->cluster), cluster) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0,
				 "the cluster's name is too long for a ticket");
	issuer->sha256 = EVP_MD_fetch(NULL, "SHA256", NULL);
	if (!issuer->sha256)
		return error_set(err, STATUS_INTERNAL, 0, "OpenSSL has no SHA-256");
	take_key(issuer, key);
	*ret = TAKE_PTR(issuer);
	return STATUS_OK;
}

void ticket_issuer_free(struct ticket_issuer *issuer)
{
	if (!issuer)
		return;
	EVP_MD_free(issuer->sha256);
	explicit_bzero(issuer->secret, sizeof(issuer->secret));
	explicit_bzero(issuer->mac_key, sizeof(issuer->mac_key));
	free(issuer);
}

void ticket_issuer_public_key(const struct ticket_issuer *issuer, uint8_t ret[static TICKET_KEY_SIZE])
{
	memcpy(ret, issuer->public_key, TICKET_KEY_SIZE);
}

/* libsodium's takes about half of the time that OpenSSL's does; the signature is the same. */
void ticket_sign_all(const struct ticket_issuer *issuer, struct ticket *const *tickets, size_t n)
{
	const struct ticket_root root = ticket_tree_make(issuer->sha256, tickets, n);

	/* cannot fail */
	(void)crypto_sign_ed25519_detached(tickets[0]->signature, NULL, (const unsigned char *)&root,
					   sizeof(root), issuer->secret);
	for (size_t i = 1; i < n; i++)
		memcpy(tickets[i]->signature, tickets[0]->signature, TICKET_SIGNATURE_SIZE);
}

void ticket_sign(const struct ticket_issuer *issuer, struct ticket *ticket)
{
	ticket_sign_all(issuer, &ticket, 1);
}

bool ticket_is_ours(const struct ticket_issuer *issuer, const struct ticket *ticket)
{
	struct ticket_root root;

	return ticket->magic == TICKET_MAGIC && ticket->version == TICKET_VERSION &&
	       memcmp(ticket->cluster, issuer->cluster, sizeof(ticket->cluster)) == 0 &&
	       ticket_tree_root(issuer->sha256, ticket, &root) &&
	       crypto_sign_ed25519_verify_detached(ticket->signature, (const unsigned char *)&root,
						   sizeof(root), issuer->public_key) == 0;
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
		/* not the claim's: beside a later writer of a shared volume the helper refuses that */
		.generation = volume->generation,
		.not_after_ms = (uint64_t)not_after_ms,
		.read_only = claim->mode == CLAIM_READ,
		.propagation = (uint8_t)claim->propagation,
		.stage_read_only = !is_staged_writable(claim, volume),
	};
	bool is_csi = volume->type == VOLUME_CSI;
	struct mh_source source = {.class = MH_CLASS_CSI}; /* its plugin mounts */
	enum status st = is_csi ? STATUS_OK : source_to_wire(&volume->source, &source, err);

	if (st != STATUS_OK)
		return st;
	memcpy(ticket.cluster, issuer->cluster, sizeof(ticket.cluster));
	volume_wire_name(volume->namespace, volume->id, ticket.volume);
	if (str_copy(ticket.node, sizeof(ticket.node), claim->node_id) < 0 ||
	    !id_uuid_bytes(claim->boot_id, ticket.boot_id) ||
	    !id_uuid_bytes(claim->allocation_id, ticket.alloc) ||
	    str_copy(ticket.profile, sizeof(ticket.profile), is_csi ? volume->plugin_id : volume->profile) <
		    0)
		return error_set(err, STATUS_INTERNAL, 0, "claim %s does not fit a ticket", claim->id);
	if (EVP_Digest(&source, sizeof(source), ticket.source_digest, NULL, issuer->sha256, NULL) != 1)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "out of memory");
	*ret = ticket;
	return STATUS_OK;
}

enum status ticket_issue(const struct ticket_issuer *issuer, const struct claim *claim,
			 const struct volume *volume, int64_t not_after_ms, struct ticket *ret,
			 struct error *err)
{
	enum status st = ticket_make(issuer, claim, volume, not_after_ms, ret, err);

	if (st == STATUS_OK)
		ticket_sign(issuer, ret);
	return st;
}
