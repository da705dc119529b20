/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit.h"

#include "base/cleanup.h"
#include "base/credential.h"
#include "base/fd.h"
#include "base/str.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <openssl/cms.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { OCTAL_SIZE = 12, SUM_SIZE = 8, MS_PER_S = 1000 };

/* POSIX.1-1988, ustar. */
struct head {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[OCTAL_SIZE];
	char mtime[OCTAL_SIZE];
	char sum[SUM_SIZE];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char rest[247];
};
_Static_assert(sizeof(struct head) == KIT_TAR_BLOCK, "a header is one block");

/* Sums all bytes of the header, with blanks in place of the sum. */
static unsigned int sum_of(const struct head *head)
{
	struct head blank = *head;
	unsigned int sum = 0;

	memset(blank.sum, ' ', sizeof(blank.sum));
	for (size_t i = 0; i < sizeof(blank); i++)
		sum += ((const uint8_t *)&blank)[i];
	return sum;
}

enum status kit_tar_head(const char *name, uint64_t size, int64_t made_at_ms,
			 uint8_t ret[static KIT_TAR_BLOCK], struct error *err)
{
	struct head head = {.type = '0', .magic = "ustar", .version = {'0', '0'}};

	assert(size <= KIT_SIZE_MAX && made_at_ms >= 0);
	if (str_copy(head.name, sizeof(head.name), name) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%s' is too long a name for a kit", name);
	(void)str_format(head.mode, sizeof(head.mode), "%07o", 0600U);
	(void)str_format(head.uid, sizeof(head.uid), "%07o", 0U);
	(void)str_format(head.gid, sizeof(head.gid), "%07o", 0U);
	(void)str_format(head.size, sizeof(head.size), "%011" PRIo64, size);
	(void)str_format(head.mtime, sizeof(head.mtime), "%011" PRIo64, (uint64_t)made_at_ms / MS_PER_S);
	(void)str_format(head.sum, sizeof(head.sum), "%06o", sum_of(&head));
	head.sum[SUM_SIZE - 1] = ' ';
	memcpy(ret, &head, sizeof(head));
	return STATUS_OK;
}

static bool read_octal(const char *text, size_t size, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < size && text[i] >= '0' && text[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(text[i] - '0');
	*ret = value;
	return i > 0 && (i == size || text[i] == '\0' || text[i] == ' ');
}

static bool is_end(const uint8_t *block)
{
	for (size_t i = 0; i < KIT_TAR_BLOCK; i++)
		if (block[i] != 0)
			return false;
	return true;
}

static enum status refuse(struct error *err, const char *what)
{
	return error_set(err, STATUS_DATA_LOSS, 0, "the kit's content is not of Holdfast's form: %s", what);
}

static enum status parse_file(const struct head *head, uint64_t size, const uint8_t *data, struct kit *ret,
			      struct error *err)
{
	struct kit_file *file = &ret->files[ret->n];

	if (ret->n == KIT_FILES_MAX)
		return refuse(err, "too many files");
	if (kit_find(ret, head->name))
		return refuse(err, "a file twice");
	if (size > (str_eq(head->name, KIT_STORE) ? (uint64_t)KIT_SIZE_MAX : (uint64_t)KIT_FILE_MAX))
		return refuse(err, "a file that is too large");
	*file = (struct kit_file){.data = malloc((size_t)size + 1), .len = (size_t)size};
	if (!file->data)
		return error_no_memory(err, "the kit");
	(void)str_copy(file->name, sizeof(file->name), head->name);
	memcpy(file->data, data, (size_t)size);
	file->data[size] = '\0';
	ret->n++;
	return STATUS_OK;
}

enum status kit_tar_read(const uint8_t *bytes, size_t n, struct kit *ret, struct error *err)
{
	enum status status = STATUS_OK;
	size_t at = 0;

	while (status == STATUS_OK && n - at >= KIT_TAR_BLOCK && !is_end(bytes + at)) {
		struct head head;
		uint64_t size, sum, mtime;

		memcpy(&head, bytes + at, sizeof(head));
		at += KIT_TAR_BLOCK;
		if (!read_octal(head.sum, sizeof(head.sum), &sum) || sum != sum_of(&head) ||
		    !read_octal(head.size, sizeof(head.size), &size) ||
		    !read_octal(head.mtime, sizeof(head.mtime), &mtime) || head.type != '0' ||
		    !memchr(head.name, '\0', sizeof(head.name)))
			return refuse(err, "a header of another kind");
		if (size > n - at || size + kit_tar_padding(size) > n - at)
			return refuse(err, "it ends in the middle of a file");
		status = parse_file(&head, size, bytes + at, ret, err);
		ret->made_at_ms = (int64_t)(mtime * MS_PER_S);
		at += (size_t)size + kit_tar_padding(size);
	}
	if (status == STATUS_OK && n - at < KIT_TAR_BLOCK)
		return refuse(err, "it has no end");
	return status;
}

enum {
	CHUNK = 1 << 16,
	PASSPHRASE_FILE_MAX = 2 * KIT_PASSPHRASE_SIZE,
	DER_SEQUENCE = 0x30,
	/* of PBKDF2 with HMAC-SHA-1, which libcrypto writes: half a second for a file that is kept for
	 * years; a random passphrase does not need it */
	ITERATIONS = 1500000,
};

static void free_cms(CMS_ContentInfo **cms)
{
	CMS_ContentInfo_free(*cms);
}

static void free_bio(BIO **bio)
{
	BIO_free_all(*bio);
}

static void free_pkey(EVP_PKEY **key)
{
	EVP_PKEY_free(*key);
}

static void free_x509(X509 **certificate)
{
	X509_free(*certificate);
}

static void free_stack(STACK_OF(X509) * *stack)
{
	sk_X509_free(*stack); /* its elements are borrowed */
}

/* Adds libcrypto's own reason to @err, which it keeps for the thread. */
static enum status crypto_error(struct error *err, enum status status, const char *path, const char *what)
{
	const char *reason = ERR_reason_error_string(ERR_peek_last_error());

	ERR_clear_error();
	return error_set(err, status, 0, "%s: %s%s%s", path, what, reason ? ": " : "", reason ? reason : "");
}

static bool is_passphrase(const char *line, size_t n)
{
	return n >= KIT_PASSPHRASE_MIN && n < KIT_PASSPHRASE_SIZE && !memchr(line, '\0', n);
}

enum status kit_passphrase_read(const char *path, char ret[static KIT_PASSPHRASE_SIZE], struct error *err)
{
	cleanup_free char *text = NULL;
	struct stat st;
	size_t n;
	int r;

	if (stat(path, &st) < 0)
		return error_set(err, status_from_errno(errno), errno, "read the passphrase file %s", path);
	if (!credential_is_private(path, &st))
		return error_set(
			err, STATUS_FAILED_PRECONDITION, 0,
			"the passphrase file %s can be read by others than its owner; run: chmod 600 %s",
			path, path);
	r = file_read(path, PASSPHRASE_FILE_MAX, &text, NULL);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read the passphrase file %s", path);
	n = strcspn(text, "\r\n");
	if (!is_passphrase(text, n))
		return error_set(
			err, STATUS_INVALID_ARGUMENT, 0,
			"%s: its first line is the passphrase, %d to %d bytes; to make one: (umask 077; "
			"openssl rand -base64 32 >FILE)",
			path, KIT_PASSPHRASE_MIN, KIT_PASSPHRASE_SIZE - 1);
	memcpy(ret, text, n);
	ret[n] = '\0';
	explicit_bzero(text, strlen(text));
	return STATUS_OK;
}

const struct kit_file *kit_find(const struct kit *kit, const char *name)
{
	for (size_t i = 0; i < kit->n; i++)
		if (str_eq(kit->files[i].name, name))
			return &kit->files[i];
	return NULL;
}

enum status kit_add(struct kit *kit, const char *name, const char *path, struct error *err)
{
	struct kit_file *file = &kit->files[kit->n];
	char *data = NULL;
	int r;

	if (kit->n == KIT_FILES_MAX || str_copy(file->name, sizeof(file->name), name) < 0)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0, "%s: no room for it in a kit", path);
	r = file_read(path, KIT_FILE_MAX, &data, &file->len);
	if (r < 0)
		return error_set(err, status_from_errno(r), r, "read %s for the kit", path);
	file->data = (uint8_t *)data;
	kit->n++;
	return STATUS_OK;
}

static char no_passphrase[] = ""; /* else OpenSSL asks on the terminal */

static BIO *open_file(const struct kit *kit, const char *name)
{
	const struct kit_file *file = kit_find(kit, name);

	return file ? BIO_new_mem_buf(file->data, (int)file->len) : NULL;
}

enum status kit_check(const struct kit *kit, struct error *err)
{
	cleanup(free_bio) BIO *ca_file = open_file(kit, KIT_CA);
	cleanup(free_bio) BIO *cert_file = open_file(kit, KIT_CERT);
	cleanup(free_bio) BIO *key_file = open_file(kit, KIT_KEY);
	cleanup(free_x509) X509 *ca = ca_file ? PEM_read_bio_X509(ca_file, NULL, NULL, no_passphrase) : NULL;
	cleanup(free_x509) X509 *cert =
		cert_file ? PEM_read_bio_X509(cert_file, NULL, NULL, no_passphrase) : NULL;
	cleanup(free_pkey) EVP_PKEY *key =
		key_file ? PEM_read_bio_PrivateKey(key_file, NULL, NULL, no_passphrase) : NULL;

	if (ca && cert && key && X509_check_private_key(cert, key) == 1)
		return STATUS_OK;
	return crypto_error(err, STATUS_FAILED_PRECONDITION, KIT_CA ", " KIT_CERT ", " KIT_KEY,
			    "no server starts with these: they are not the CA, a certificate and its key");
}

void kit_release(struct kit *kit)
{
	for (size_t i = 0; i < kit->n; i++) {
		explicit_bzero(kit->files[i].data, kit->files[i].len);
		free(kit->files[i].data);
	}
	kit->n = 0;
}

/* --- writing --- */

static enum status add_recipient(CMS_ContentInfo *cms, const char *passphrase, const char *path,
				 struct error *err)
{
	unsigned char *copy = (unsigned char *)OPENSSL_strdup(passphrase); /* of @cms from here on */

	if (copy && CMS_add0_recipient_password(cms, ITERATIONS, NID_id_alg_PWRI_KEK, NID_undef, copy,
						(ossl_ssize_t)strlen(passphrase), EVP_aes_256_cbc()))
		return STATUS_OK;
	OPENSSL_free(copy);
	return crypto_error(err, STATUS_INTERNAL, path, "cannot be encrypted to a passphrase");
}

static enum status read_certificate(const char *path, X509 **ret, struct error *err)
{
	cleanup_fclose FILE *f = fopen(path, "re");

	if (!f)
		return error_set(err, status_from_errno(errno), errno, "read the certificate %s", path);
	*ret = PEM_read_X509(f, NULL, NULL, no_passphrase);
	return *ret ? STATUS_OK
		    : crypto_error(err, STATUS_INVALID_ARGUMENT, path, "is no certificate in PEM");
}

static enum status new_envelope(const struct kit_key *key, const char *path, CMS_ContentInfo **ret,
				struct error *err)
{
	assert(!key->passphrase != !key->path);

	cleanup(free_stack) STACK_OF(X509) *to = sk_X509_new_null();
	cleanup(free_cms) CMS_ContentInfo *cms = NULL;
	cleanup(free_x509) X509 *certificate = NULL;
	enum status status = STATUS_OK;

	if (key->path)
		status = read_certificate(key->path, &certificate, err);
	if (status != STATUS_OK)
		return status;
	if (to && (!certificate || sk_X509_push(to, certificate) > 0))
		cms = CMS_encrypt(to, NULL, EVP_aes_256_gcm(), CMS_BINARY | CMS_PARTIAL | CMS_STREAM);
	if (!cms)
		return crypto_error(err, STATUS_INVALID_ARGUMENT, key->path ? key->path : path,
				    "a kit cannot be encrypted to it");
	if (key->passphrase)
		status = add_recipient(cms, key->passphrase, path, err);
	if (status == STATUS_OK)
		*ret = TAKE_PTR(cms);
	return status;
}

struct sink {
	BIO *bio;
	const char *path;
	int64_t made_at_ms;
	uint64_t written;
};

static enum status put(struct sink *sink, const void *bytes, size_t n, struct error *err)
{
	size_t done = 0;

	sink->written += n;
	if (sink->written > KIT_SIZE_MAX)
		return error_set(
			err, STATUS_RESOURCE_EXHAUSTED, 0,
			"a kit is at most %d MiB large, and the store is larger: take a backup without "
			"--kit, and keep keys and settings with it by hand",
			KIT_SIZE_MAX >> 20);
	if (n == 0 || (BIO_write_ex(sink->bio, bytes, n, &done) == 1 && done == n))
		return STATUS_OK;
	return crypto_error(err, errno == ENOSPC ? STATUS_RESOURCE_EXHAUSTED : STATUS_INTERNAL, sink->path,
			    "cannot be written");
}

static enum status put_head(struct sink *sink, const char *name, uint64_t size, struct error *err)
{
	uint8_t head[KIT_TAR_BLOCK];

	if (size > KIT_SIZE_MAX)
		size = KIT_SIZE_MAX; /* what follows is refused before it is complete */
	TRY(kit_tar_head(name, size, sink->made_at_ms, head, err));
	return put(sink, head, sizeof(head), err);
}

static enum status put_padding(struct sink *sink, uint64_t size, struct error *err)
{
	static const uint8_t zeroes[KIT_TAR_BLOCK];

	return put(sink, zeroes, kit_tar_padding(size), err);
}

static enum status put_file(struct sink *sink, const struct kit_file *file, struct error *err)
{
	TRY(put_head(sink, file->name, file->len, err));
	TRY(put(sink, file->data, file->len, err));
	return put_padding(sink, file->len, err);
}

static enum status put_store(struct sink *sink, const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW);
	cleanup_free uint8_t *chunk = malloc(CHUNK);
	enum status status;
	struct stat stat;
	ssize_t n = 0;

	if (fd < 0 || fstat(fd, &stat) < 0)
		return error_set(err, status_from_errno(errno), errno, "open %s", path);
	if (!chunk)
		return error_no_memory(err, "the kit");
	status = put_head(sink, KIT_STORE, (uint64_t)stat.st_size, err);
	while (status == STATUS_OK && (n = read(fd, chunk, CHUNK)) > 0)
		status = put(sink, chunk, (size_t)n, err);
	if (n < 0)
		return error_set(err, status_from_errno(errno), errno, "read %s", path);
	return status == STATUS_OK ? put_padding(sink, (uint64_t)stat.st_size, err) : status;
}

static enum status put_all(struct sink *sink, const struct kit *kit, const char *store_path,
			   struct error *err)
{
	static const uint8_t end[2 * KIT_TAR_BLOCK];
	enum status status = STATUS_OK;

	for (size_t i = 0; i < kit->n && status == STATUS_OK; i++)
		status = put_file(sink, &kit->files[i], err);
	if (status == STATUS_OK)
		status = put_store(sink, store_path, err);
	if (status == STATUS_OK)
		status = put(sink, end, sizeof(end), err);
	if (status == STATUS_OK && BIO_flush(sink->bio) <= 0)
		status = crypto_error(err, STATUS_INTERNAL, sink->path, "cannot be written to its end");
	return status;
}

static enum status write_to(int fd, const struct kit *kit, const char *store_path, const struct kit_key *key,
			    const char *path, struct error *err)
{
	cleanup(free_cms) CMS_ContentInfo *cms = NULL;
	BIO *out = NULL;
	struct sink sink = {.path = path, .made_at_ms = kit->made_at_ms};

	TRY(new_envelope(key, path, &cms, err));
	out = BIO_new_fd(fd, BIO_NOCLOSE);
	sink.bio = out ? BIO_new_CMS(out, cms) : NULL;
	if (!sink.bio) {
		BIO_free_all(out);
		return crypto_error(err, STATUS_INTERNAL, path, "cannot be encrypted");
	}
	enum status status = put_all(&sink, kit, store_path, err);
	if (status == STATUS_OK && fsync(fd) < 0)
		status = error_set(err, status_from_errno(errno), errno, "write %s", path);
	BIO_free_all(sink.bio); /* with what it is pushed on */
	return status;
}

enum status kit_write(const struct kit *kit, const char *store_path, const struct kit_key *key,
		      const char *path, struct error *err)
{
	cleanup_close int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
	enum status status;

	if (fd < 0)
		return error_set(err, status_from_errno(errno), errno, "create %s", path);
	status = write_to(fd, kit, store_path, key, path, err);
	if (status != STATUS_OK)
		(void)unlink(path);
	return status;
}

/* --- reading --- */

bool kit_is_one(int fd)
{
	uint8_t first = 0;

	return pread(fd, &first, 1, 0) == 1 && first == DER_SEQUENCE;
}

static enum status read_envelope(int fd, const char *path, CMS_ContentInfo **ret, struct error *err)
{
	cleanup(free_cms) CMS_ContentInfo *cms = NULL;
	cleanup(free_bio) BIO *in = BIO_new_fd(fd, BIO_NOCLOSE);

	if (lseek(fd, 0, SEEK_SET) < 0)
		return error_set(err, status_from_errno(errno), errno, "read %s", path);
	if (in)
		cms = d2i_CMS_bio(in, NULL);
	/* other kinds of CMS do not show that they were changed */
	if (!cms || OBJ_obj2nid(CMS_get0_type(cms)) != NID_id_smime_ct_authEnvelopedData)
		return crypto_error(err, STATUS_INVALID_ARGUMENT, path, "is no kit, or was cut off");
	*ret = TAKE_PTR(cms);
	return STATUS_OK;
}

static enum status read_private_key(const char *path, EVP_PKEY **ret, struct error *err)
{
	cleanup_fclose FILE *f = fopen(path, "re");

	if (!f)
		return error_set(err, status_from_errno(errno), errno, "read the key %s", path);
	*ret = PEM_read_PrivateKey(f, NULL, NULL, NULL); /* a person restores, and may be asked */
	return *ret ? STATUS_OK
		    : crypto_error(err, STATUS_INVALID_ARGUMENT, path, "is no private key in PEM");
}

static enum status unlock(CMS_ContentInfo *cms, const char *path, const struct kit_key *key,
			  struct error *err)
{
	cleanup(free_pkey) EVP_PKEY *pkey = NULL;
	enum status status = STATUS_OK;
	int r;

	assert(!key->passphrase != !key->path);
	if (key->path)
		status = read_private_key(key->path, &pkey, err);
	if (status != STATUS_OK)
		return status;
	if (pkey)
		r = CMS_decrypt_set1_pkey(cms, pkey, NULL);
	else
		r = CMS_decrypt_set1_password(cms, (unsigned char *)(uintptr_t)key->passphrase,
					      (ossl_ssize_t)strlen(key->passphrase));
	if (r == 1)
		return STATUS_OK;
	return crypto_error(err, STATUS_INVALID_ARGUMENT, path,
			    pkey ? "this key does not open it (--passphrase-file or --key-file?)"
				 : "this passphrase does not open it (--passphrase-file or --key-file?)");
}

static enum status read_content(CMS_ContentInfo *cms, const char *path, struct kit *ret, struct error *err)
{
	cleanup(free_bio) BIO *content = BIO_new(BIO_s_secmem());
	char *bytes = NULL;
	enum status status;
	long n;

	if (!content)
		return error_no_memory(err, "the kit");
	if (CMS_decrypt(cms, NULL, NULL, NULL, content, CMS_BINARY) != 1)
		return crypto_error(err, STATUS_DATA_LOSS, path,
				    "it is damaged, or this is not its key; take another copy of it");
	n = BIO_get_mem_data(content, &bytes);
	status = kit_tar_read((const uint8_t *)bytes, (size_t)n, ret, err);
	return status == STATUS_OK ? status : err ? error_prefix(err, "%s", path) : status;
}

enum status kit_read(int fd, const char *path, const struct kit_key *key, struct kit *ret, struct error *err)
{
	cleanup(free_cms) CMS_ContentInfo *cms = NULL;
	struct kit kit = {.n = 0};
	enum status status = read_envelope(fd, path, &cms, err);

	if (status == STATUS_OK)
		status = unlock(cms, path, key, err);
	if (status == STATUS_OK)
		status = read_content(cms, path, &kit, err);
	if (status == STATUS_OK && !kit_find(&kit, KIT_STORE))
		status = error_set(err, STATUS_DATA_LOSS, 0, "%s: there is no store in it", path);
	if (status == STATUS_OK)
		*ret = kit;
	else
		kit_release(&kit);
	return status;
}
