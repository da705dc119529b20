/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A kit: all that a fresh machine needs to become the server of a cluster, in one encrypted file.
 *
 * The file is a CMS AuthEnvelopedData (RFC 5083) in DER, AES-256-GCM, with one recipient: a passphrase (RFC
 * 3211, PBKDF2) or a certificate. Its content is a tar (POSIX ustar) of regular files with the names below.
 * So it opens without Holdfast: openssl cms -decrypt -inform DER -binary, then tar.
 *
 * All of it is in memory while it is read: the content counts only when its tag was right. */

#include "base/error.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KIT_STORE "holdfast.db"
#define KIT_SETTINGS "server.hcl"
#define KIT_DROPINS "server.d/" /* NAME.hcl, NAME.json */
#define KIT_TICKET_KEY "ticket.key"
#define KIT_CA "ca.pem"
#define KIT_CERT "server.pem"
#define KIT_RECIPIENT "kit.pem" /* the certificate of kit_certificate */
#define KIT_KEY "server.key"

enum {
	KIT_NAME_SIZE = 100, /* of ustar */
	KIT_FILES_MAX = 64,
	KIT_FILE_MAX = 1 << 20,	 /* of all but the store */
	KIT_SIZE_MAX = 1 << 30,	 /* libcrypto reads at most 1.6 GB at once */
	KIT_PASSPHRASE_MIN = 16, /* bytes */
	KIT_PASSPHRASE_SIZE = 1025,
};

struct kit_file {
	char name[KIT_NAME_SIZE];
	uint8_t *data; /* owned */
	size_t len;
};

struct kit {
	struct kit_file files[KIT_FILES_MAX];
	size_t n;
	int64_t made_at_ms; /* in whole seconds */
};

/* The key that opens it: exactly one is set. Borrowed. */
struct kit_key {
	const char *passphrase;
	const char *path; /* PEM; to write: a certificate; to read: its private key */
};

/** Reads the first line of the file at @path, which only its owner may be able to read. */
enum status kit_passphrase_read(const char *path, char ret[static KIT_PASSPHRASE_SIZE], struct error *err);

/** Takes the file at @path into @kit under @name. */
enum status kit_add(struct kit *kit, const char *name, const char *path, struct error *err);

/** NULL: it has no such file. */
const struct kit_file *kit_find(const struct kit *kit, const char *name);

/** Can a server start with its files? STATUS_FAILED_PRECONDITION: the CA, the certificate or its key is
 * missing or unreadable, or the key is another one's. */
enum status kit_check(const struct kit *kit, struct error *err);

/** Writes @kit and the copy at @store_path, which becomes its KIT_STORE, to the new file @path, mode 0600,
 * durably. Blocks for as long as that takes. Puts no further unencrypted data on a disk. Removes its
 * output on failure. STATUS_RESOURCE_EXHAUSTED when it is larger than KIT_SIZE_MAX. */
enum status kit_write(const struct kit *kit, const char *store_path, const struct kit_key *key,
		      const char *path, struct error *err);

/** Does the file begin as a kit does? Its offset stays. */
bool kit_is_one(int fd);

/** Reads the kit in @fd from its beginning. @path for messages. @ret the caller's, kit_release(); untouched
 * on failure. STATUS_INVALID_ARGUMENT: no kit, or another key. STATUS_DATA_LOSS: it is damaged. */
enum status kit_read(int fd, const char *path, const struct kit_key *key, struct kit *ret, struct error *err);

/** Overwrites what it held. */
void kit_release(struct kit *kit);

/* The tar in a kit: POSIX ustar, regular files with mode 0600 and unique names. */

enum { KIT_TAR_BLOCK = 512 };

/** The header of a file. STATUS_INVALID_ARGUMENT: @name is too long. */
enum status kit_tar_head(const char *name, uint64_t size, int64_t made_at_ms,
			 uint8_t ret[static KIT_TAR_BLOCK], struct error *err);

/** Zeroes that follow a file of @size bytes. */
static inline size_t kit_tar_padding(uint64_t size)
{
	return (size_t)(-size % KIT_TAR_BLOCK);
}

/** Takes all files out of @bytes. @ret holds the files taken, on failure too. STATUS_DATA_LOSS: they are no
 * such tar. */
enum status kit_tar_read(const uint8_t *bytes, size_t n, struct kit *ret, struct error *err);
