/* SPDX-License-Identifier: Apache-2.0 */
/* Kits: what goes in comes out, for who has the key alone, and nothing that was changed does. */

#include "folder.h"
#include "unit.h"

#include "base/fd.h"
#include "kit/kit.h"

#include <fcntl.h>
#include <limits.h>
#include <openssl/cms.h>
#include <openssl/pem.h>
#include <sys/stat.h>

enum { STORE_SIZE = 200001, FLIPS = 150, SUM_END = 155 };

#define PASSPHRASE "a passphrase of some length"

struct world {
	char dir[FOLDER_SIZE];
	char store[PATH_MAX], kit[PATH_MAX], secret[PATH_MAX], cert[PATH_MAX], key[PATH_MAX], other[PATH_MAX];
	uint8_t bytes[STORE_SIZE];
	struct kit files;
};

static void put_path(char ret[static PATH_MAX], const struct world *w, const char *name)
{
	assert_int_equal(str_format(ret, PATH_MAX, "%s/%s", w->dir, name) > 0, true);
}

static void make_key(const char *path, const char *cert_path)
{
	EVP_PKEY *pkey = EVP_EC_gen("P-256");
	X509 *certificate = X509_new();
	FILE *f = NON_NULL(fopen(path, "w"));

	assert_int_equal(PEM_write_PrivateKey(f, pkey, NULL, NULL, 0, NULL, NULL), 1);
	(void)fclose(f);
	(void)X509_set_version(certificate, X509_VERSION_3);
	(void)ASN1_INTEGER_set(X509_get_serialNumber(certificate), 1);
	(void)X509_gmtime_adj(X509_getm_notBefore(certificate), 0);
	(void)X509_gmtime_adj(X509_getm_notAfter(certificate), 3600);
	(void)X509_set_pubkey(certificate, pkey);
	(void)X509_NAME_add_entry_by_txt(X509_get_subject_name(certificate), "CN", MBSTRING_ASC,
					 (const unsigned char *)"kit", -1, -1, 0);
	(void)X509_set_issuer_name(certificate, X509_get_subject_name(certificate));
	assert_true(X509_sign(certificate, pkey, EVP_sha256()) > 0);
	f = NON_NULL(fopen(cert_path, "w"));
	assert_int_equal(PEM_write_X509(f, certificate), 1);
	(void)fclose(f);
	X509_free(certificate);
	EVP_PKEY_free(pkey);
}

static int setup(void **state)
{
	struct world *w = calloc(1, sizeof(*w));

	folder_make(w->dir);
	put_path(w->store, w, "store");
	put_path(w->kit, w, "kit");
	put_path(w->secret, w, "secret");
	put_path(w->cert, w, "cert.pem");
	put_path(w->key, w, "cert.key");
	put_path(w->other, w, "other.key");
	make_key(w->other, w->cert);
	make_key(w->key, w->cert);
	for (size_t i = 0; i < STORE_SIZE; i++)
		w->bytes[i] = (uint8_t)(i * 7 + i / 251);
	assert_int_equal(file_write_atomic(w->store, 0600, w->bytes, STORE_SIZE), 0);
	assert_int_equal(file_write_atomic(w->secret, 0600, "very secret\n", 12), 0);
	assert_int_equal(kit_add(&w->files, KIT_TICKET_KEY, w->secret, NULL), STATUS_OK);
	assert_int_equal(kit_add(&w->files, KIT_DROPINS "10-a.hcl", w->cert, NULL), STATUS_OK);
	w->files.made_at_ms = 1700000000000;
	*state = w;
	return 0;
}

UNIT_TEARDOWN(teardown, struct world, w)
{
	const char *const paths[] = {w->store, w->kit, w->secret, w->cert, w->key, w->other};

	kit_release(&w->files);
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		(void)unlink(paths[i]);
	(void)rmdir(w->dir);
}

static enum status read_it(const struct world *w, const struct kit_key *key, struct kit *ret,
			   struct error *err)
{
	cleanup_close int fd = open(w->kit, O_RDONLY);

	assert_true(fd >= 0);
	return kit_read(fd, w->kit, key, ret, err);
}

static void expect_content(const struct world *w, const struct kit_key *key)
{
	cleanup(kit_release) struct kit kit = {.n = 0};
	const struct kit_file *file;

	assert_int_equal(read_it(w, key, &kit, NULL), STATUS_OK);
	assert_int_equal(kit.n, 3);
	assert_int_equal(kit.made_at_ms, 1700000000000);
	file = NON_NULL(kit_find(&kit, KIT_STORE));
	assert_int_equal(file->len, STORE_SIZE);
	assert_memory_equal(file->data, w->bytes, STORE_SIZE);
	file = NON_NULL(kit_find(&kit, KIT_TICKET_KEY));
	assert_int_equal(file->len, 12);
	assert_memory_equal(file->data, "very secret\n", 12);
	assert_non_null(kit_find(&kit, KIT_DROPINS "10-a.hcl"));
}

#define CASE(name) TEST_ON(name, struct world, w, setup, teardown)

CASE(a_kit_opens_only_with_its_passphrase_and_hides_its_content)
{
	const struct kit_key right = {.passphrase = PASSPHRASE};
	const struct kit_key wrong = {.passphrase = PASSPHRASE "!"};
	const struct kit_key key = {.path = w->key};
	cleanup_free char *bytes = NULL;
	struct kit kit = {.n = 0};
	struct stat st;
	size_t n;

	assert_int_equal(kit_write(&w->files, w->store, &right, w->kit, NULL), STATUS_OK);
	assert_int_equal(stat(w->kit, &st), 0);
	assert_int_equal(st.st_mode & 07777, 0600);
	expect_content(w, &right);
	assert_int_equal(read_it(w, &wrong, &kit, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(read_it(w, &key, &kit, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(file_read(w->kit, 1 << 20, &bytes, &n), 0);
	assert_null(memmem(bytes, n, "secret", 6));
	assert_null(memmem(bytes, n, KIT_TICKET_KEY, strlen(KIT_TICKET_KEY)));
	assert_null(memmem(bytes, n, w->bytes, 16));
	assert_int_equal(kit_write(&w->files, w->store, &right, w->kit, NULL), STATUS_ALREADY_EXISTS);
}

CASE(a_kit_to_a_certificate_opens_for_its_key_alone)
{
	const struct kit_key to = {.path = w->cert};
	const struct kit_key right = {.path = w->key};
	const struct kit_key wrong = {.path = w->other};
	const struct kit_key passphrase = {.passphrase = PASSPHRASE};
	struct kit kit = {.n = 0};

	assert_int_equal(kit_write(&w->files, w->store, &to, w->kit, NULL), STATUS_OK);
	expect_content(w, &right);
	assert_int_not_equal(read_it(w, &wrong, &kit, NULL), STATUS_OK);
	assert_int_not_equal(read_it(w, &passphrase, &kit, NULL), STATUS_OK);
	assert_int_equal(read_it(w, &to, &kit, NULL), STATUS_INVALID_ARGUMENT); /* is no key */
	assert_int_equal(kit.n, 0);
}

/* Whatever was changed, cut or put behind it. */
CASE(a_modified_kit_never_opens)
{
	const struct kit_key to = {.path = w->cert};
	const struct kit_key key = {.path = w->key};
	cleanup_free char *bytes = NULL;
	struct kit kit = {.n = 0};
	size_t n;

	assert_int_equal(kit_write(&w->files, w->store, &to, w->kit, NULL), STATUS_OK);
	assert_int_equal(file_read(w->kit, 1 << 20, &bytes, &n), 0);
	for (size_t i = 0; i < FLIPS; i++) {
		size_t at = i < FLIPS / 2 ? n - 1 - i : (i * 7919) % n;
		char before = bytes[at];

		bytes[at] = (char)(bytes[at] ^ (1 << i % 8));
		assert_int_equal(file_write_atomic(w->kit, 0600, bytes, n), 0);
		if (read_it(w, &key, &kit, NULL) ==
		    STATUS_OK) { /* a byte that says nothing: all is as it was */
			kit_release(&kit);
			expect_content(w, &key);
		}
		bytes[at] = before;
	}
	for (size_t cut = 1; cut < n; cut = cut * 3 + 1) {
		assert_int_equal(file_write_atomic(w->kit, 0600, bytes, n - cut), 0);
		assert_int_not_equal(read_it(w, &key, &kit, NULL), STATUS_OK);
	}
	assert_int_equal(kit.n, 0);
}

/* What has no tag could have been changed by anybody. */
CASE(an_envelope_without_a_tag_is_no_kit)
{
	const struct kit_key key = {.passphrase = PASSPHRASE};
	BIO *in = BIO_new_file(w->store, "r");
	BIO *out = BIO_new_file(w->kit, "w");
	CMS_ContentInfo *cms = CMS_encrypt(NULL, NULL, EVP_aes_256_cbc(), CMS_BINARY | CMS_PARTIAL);
	struct kit kit = {.n = 0};

	assert_non_null(CMS_add0_recipient_password(cms, 1000, NID_id_alg_PWRI_KEK, NID_undef,
						    (unsigned char *)OPENSSL_strdup(PASSPHRASE),
						    (ossl_ssize_t)strlen(PASSPHRASE), NULL));
	assert_int_equal(CMS_final(cms, in, NULL, CMS_BINARY), 1);
	assert_int_equal(i2d_CMS_bio(out, cms), 1);
	BIO_free(in);
	BIO_free(out);
	CMS_ContentInfo_free(cms);
	assert_int_equal(read_it(w, &key, &kit, NULL), STATUS_INVALID_ARGUMENT);
}

CASE(another_file_is_not_taken_for_a_kit)
{
	const struct kit_key key = {.passphrase = PASSPHRASE};
	struct kit kit = {.n = 0};
	cleanup_close int fd = -EBADF;

	assert_int_equal(file_write_atomic(w->kit, 0600, "SQLite format 3", 16), 0);
	fd = open(w->kit, O_RDONLY);
	assert_false(kit_is_one(fd));
	assert_int_equal(read_it(w, &key, &kit, NULL), STATUS_INVALID_ARGUMENT);
}

CASE(a_passphrase_is_one_line_of_a_private_file)
{
	char read[KIT_PASSPHRASE_SIZE];
	static const struct {
		const char *text;
		enum status expected;
	} cases[] = {
		{"0123456789abcdef", STATUS_OK},
		{"0123456789abcdef\nmore\n", STATUS_OK},
		{"0123456789abcdef\r\n", STATUS_OK},
		{"0123456789abcde\n", STATUS_INVALID_ARGUMENT},
		{"\n0123456789abcdef", STATUS_INVALID_ARGUMENT},
		{"", STATUS_INVALID_ARGUMENT},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		assert_int_equal(file_write_atomic(w->secret, 0600, cases[i].text, strlen(cases[i].text)), 0);
		assert_int_equal(kit_passphrase_read(w->secret, read, NULL), cases[i].expected);
		if (cases[i].expected == STATUS_OK)
			assert_string_equal(read, "0123456789abcdef");
	}
	assert_int_equal(file_write_atomic(w->secret, 0640, "0123456789abcdef", 16), 0);
	assert_int_equal(kit_passphrase_read(w->secret, read, NULL), STATUS_FAILED_PRECONDITION);
}

struct tar {
	uint8_t bytes[8 * KIT_TAR_BLOCK];
	size_t n;
};

static void add(struct tar *tar, const char *name, const char *data)
{
	size_t n = strlen(data);

	assert_int_equal(kit_tar_head(name, n, 1000, tar->bytes + tar->n, NULL), STATUS_OK);
	memcpy(tar->bytes + tar->n + KIT_TAR_BLOCK, data, n);
	tar->n += KIT_TAR_BLOCK + n + kit_tar_padding(n);
}

TEST(a_tar_of_another_kind_is_refused)
{
	struct tar good = {.n = 0};
	cleanup(kit_release) struct kit kit = {.n = 0};

	add(&good, "a", "1");
	add(&good, "b", "22");
	assert_int_equal(kit_tar_read(good.bytes, good.n + KIT_TAR_BLOCK, &kit, NULL), STATUS_OK);
	assert_int_equal(kit.n, 2);
	kit_release(&kit);
	for (size_t n = 0; n < good.n + KIT_TAR_BLOCK; n++) { /* cut anywhere */
		assert_int_equal(kit_tar_read(good.bytes, n, &kit, NULL), STATUS_DATA_LOSS);
		kit_release(&kit);
	}
	for (size_t at = 0; at < KIT_TAR_BLOCK; at++) { /* no byte of a header counts for nothing */
		if (at == SUM_END)			/* but the one behind its sum */
			continue;
		good.bytes[at] ^= 1;
		assert_int_equal(kit_tar_read(good.bytes, good.n + KIT_TAR_BLOCK, &kit, NULL),
				 STATUS_DATA_LOSS);
		kit_release(&kit);
		good.bytes[at] ^= 1;
	}
	add(&good, "a", "twice");
	assert_int_equal(kit_tar_read(good.bytes, good.n + KIT_TAR_BLOCK, &kit, NULL), STATUS_DATA_LOSS);
}

CASE(a_kit_is_good_for_a_start_only_with_the_certificate_of_its_key)
{
	const struct {
		const char *ca, *cert, *key;
		bool is_good;
	} rows[] = {{w->cert, w->cert, w->key, true},
		    {w->secret, w->cert, w->key, false},
		    {w->cert, w->secret, w->key, false},
		    {w->cert, w->cert, w->secret, false},
		    {w->cert, w->cert, w->other, false}};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup(kit_release) struct kit kit = {.n = 0};

		assert_int_equal(kit_check(&kit, NULL), STATUS_FAILED_PRECONDITION);
		assert_int_equal(kit_add(&kit, KIT_CA, rows[i].ca, NULL), STATUS_OK);
		assert_int_equal(kit_add(&kit, KIT_CERT, rows[i].cert, NULL), STATUS_OK);
		assert_int_equal(kit_add(&kit, KIT_KEY, rows[i].key, NULL), STATUS_OK);
		assert_int_equal(kit_check(&kit, NULL),
				 rows[i].is_good ? STATUS_OK : STATUS_FAILED_PRECONDITION);
	}
}
