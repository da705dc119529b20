/* SPDX-License-Identifier: Apache-2.0 */
#include "temp_dir.h"

#include "../prompt.h"
#include "../unit.h"
#include "../unit_clock.h"
#include "base/clock.h"
#include "base/fd.h"
#include "rpc/pem.h"
#include "rpc/pki.h"
#include "rpc/tls_session.h"

#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <sys/stat.h>

#define NODE_URI "holdfast://lab/node/n1"

struct folder {
	char dir[TEMP_DIR_SIZE], paths[8][TEMP_PATH_SIZE];
	size_t next;
};

UNIT_SETUP(setup, struct folder, folder)
{
	temp_dir_make(folder->dir);
}

UNIT_TEARDOWN(teardown, struct folder, folder)
{
	temp_dir_remove(folder->dir);
}

static const char *path(struct folder *folder, const char *name)
{
	return temp_dir_path(folder->paths[folder->next++ % ARRAY_SIZE(folder->paths)], folder->dir, name);
}

static enum status issue(struct folder *folder, const struct pki_cert_request *request, struct error *err)
{
	return pki_issue(path(folder, "ca.key"), path(folder, "ca.crt"), request, path(folder, "n.key"),
			 path(folder, "n.crt"), err);
}

static const struct pki_cert_request node_request = {
	.uri = NODE_URI,
	.common_name = "n1",
	.dns_names = (const char *const[]){"n1.lab", "localhost"},
	.n_dns_names = 2,
	.ip_addresses = (const char *const[]){"192.0.2.7", "2001:db8::7"},
	.n_ip_addresses = 2,
	.days = 90,
};

static void make_pair(struct folder *folder)
{
	struct error err;

	assert_msg(pki_make_ca(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", &err) == STATUS_OK &&
			   issue(folder, &node_request, &err) == STATUS_OK,
		   "%s", err.msg);
}

static X509 *load(struct folder *folder, const char *name)
{
	STACK_OF(X509) *certs = NULL;
	struct error err;
	X509 *cert;

	assert_int_equal(pem_read_certs(path(folder, name), &certs, &err), STATUS_OK);
	assert_int_equal(sk_X509_num(certs), 1);
	cert = sk_X509_pop(certs);
	sk_X509_free(certs);
	return cert;
}

static unsigned int mode_of(const char *p)
{
	struct stat st;

	assert_int_equal(stat(p, &st), 0);
	return st.st_mode & 07777U;
}

#define CASE(name) TEST_ON(name, struct folder, folder, setup, teardown)

CASE(keys_are_for_their_owner_and_certificates_for_everybody)
{
	mode_t before = umask(0);

	make_pair(folder);
	(void)umask(before);
	assert_int_equal(mode_of(path(folder, "ca.key")), 0600);
	assert_int_equal(mode_of(path(folder, "n.key")), 0600);
	assert_int_equal(mode_of(path(folder, "ca.crt")), 0644);
	assert_int_equal(mode_of(path(folder, "n.crt")), 0644);
}

CASE(an_issued_certificate_chains_to_its_ca_for_its_purpose)
{
	static const struct {
		int purpose, verdict;
	} purposes[] = {{X509_PURPOSE_SSL_SERVER, 0}, {X509_PURPOSE_SSL_CLIENT, 1}}; /* of a node */
	X509 *ca, *cert;

	make_pair(folder);
	ca = load(folder, "ca.crt");
	cert = load(folder, "n.crt");
	for (size_t i = 0; i < ARRAY_SIZE(purposes); i++) {
		X509_STORE *store = X509_STORE_new();
		X509_STORE_CTX *ctx = X509_STORE_CTX_new();

		assert_int_equal(X509_STORE_add_cert(store, ca), 1);
		assert_int_equal(X509_STORE_CTX_init(ctx, store, cert, NULL), 1);
		assert_int_equal(X509_STORE_CTX_set_purpose(ctx, purposes[i].purpose), 1);
		X509_STORE_CTX_set_flags(ctx, X509_V_FLAG_X509_STRICT);
		assert_int_equal(X509_verify_cert(ctx), purposes[i].verdict);
		X509_STORE_CTX_free(ctx);
		X509_STORE_free(store);
	}
	assert_int_equal(X509_check_ca(ca), 1);
	assert_int_equal(X509_check_ca(cert), 0);
	X509_free(ca);
	X509_free(cert);
}

static void critical(const X509 *cert, int nid, bool expected)
{
	int is_critical = -1;
	void *extension = NON_NULL(X509_get_ext_d2i(cert, nid, &is_critical, NULL));

	assert_int_equal(is_critical, expected);
	if (nid == NID_basic_constraints)
		BASIC_CONSTRAINTS_free(extension);
	else
		ASN1_BIT_STRING_free(extension);
}

CASE(certificates_state_their_usage)
{
	X509 *ca, *cert;

	make_pair(folder);
	ca = load(folder, "ca.crt");
	cert = load(folder, "n.crt");
	critical(ca, NID_basic_constraints, true);
	critical(ca, NID_key_usage, true);
	critical(cert, NID_basic_constraints, true);
	critical(cert, NID_key_usage, true);
	assert_int_equal(X509_get_key_usage(ca), KU_KEY_CERT_SIGN | KU_CRL_SIGN);
	assert_int_equal(X509_get_key_usage(cert), KU_DIGITAL_SIGNATURE);
	assert_int_equal(X509_get_extended_key_usage(cert), XKU_SSL_CLIENT);
	assert_int_equal(X509_get_pathlen(ca), 0);
	assert_int_equal(X509_get_version(cert), X509_VERSION_3);
	X509_free(ca);
	X509_free(cert);
}

CASE(an_issued_certificate_carries_all_its_names)
{
	char uri[RPC_URI_SIZE];
	X509 *cert;

	make_pair(folder);
	cert = load(folder, "n.crt");
	assert_true(tls_cert_uri(cert, uri));
	assert_string_equal(uri, NODE_URI);
	assert_int_equal(X509_check_host(cert, "n1.lab", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(cert, "localhost", 0, 0, NULL), 1);
	assert_int_equal(X509_check_host(cert, "n2.lab", 0, 0, NULL), 0);
	assert_int_equal(X509_check_ip_asc(cert, "192.0.2.7", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "2001:db8::7", 0), 1);
	assert_int_equal(X509_check_ip_asc(cert, "192.0.2.8", 0), 0);
	X509_free(cert);
}

CASE(the_facts_of_a_certificate_name_the_first_machine_in_it)
{
	const char *const address[] = {"2001:db8::7"};
	struct pki_cert_request request = node_request;
	struct pki_facts facts;

	make_pair(folder);
	assert_int_equal(pki_read_facts(path(folder, "n.crt"), &facts, NULL), STATUS_OK);
	assert_string_equal(facts.host, "n1.lab");
	request.n_dns_names = 0;
	request.ip_addresses = address;
	request.n_ip_addresses = 1;
	for (int i = 0; i < 2; i++) {
		(void)unlink(path(folder, "n.crt"));
		(void)unlink(path(folder, "n.key"));
		assert_int_equal(issue(folder, &request, NULL), STATUS_OK);
		assert_int_equal(pki_read_facts(path(folder, "n.crt"), &facts, NULL), STATUS_OK);
		assert_string_equal(facts.host, i == 0 ? "2001:db8::7" : "");
		request.n_ip_addresses = 0; /* the URI names no machine */
	}
}

CASE(certificates_are_valid_from_a_little_before_now_for_the_days_asked_for)
{
	X509 *cert;
	int days = 0, seconds = 0;

	make_pair(folder);
	cert = load(folder, "n.crt");
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, X509_get0_notBefore(cert), NULL), 1);
	assert_int_equal(days, 0);
	assert_in_range(seconds, 300, 400);
	assert_int_equal(ASN1_TIME_diff(&days, &seconds, NULL, X509_get0_notAfter(cert)), 1);
	assert_in_range(days * 86400 + seconds, 90 * 86400 - 100, 90 * 86400);
	X509_free(cert);
}

CASE(serial_numbers_are_long_and_differ)
{
	X509 *first, *second;

	make_pair(folder);
	first = load(folder, "n.crt");
	assert_int_equal(unlink(path(folder, "n.crt")), 0);
	assert_int_equal(unlink(path(folder, "n.key")), 0);
	assert_int_equal(issue(folder, &node_request, NULL), STATUS_OK);
	second = load(folder, "n.crt");
	assert_int_not_equal(ASN1_INTEGER_cmp(X509_get0_serialNumber(first), X509_get0_serialNumber(second)),
			     0);
	assert_in_range(ASN1_STRING_length(X509_get0_serialNumber(first)), 12, 16);
	assert_in_range(ASN1_STRING_length(X509_get0_serialNumber(second)), 12, 16);
	X509_free(first);
	X509_free(second);
}

CASE(existing_files_are_kept)
{
	cleanup_free char *before = NULL;
	cleanup_free char *after = NULL;
	struct error err;

	make_pair(folder);
	assert_int_equal(file_read(path(folder, "ca.key"), 10000, &before, NULL), 0);
	assert_int_equal(pki_make_ca(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", &err),
			 STATUS_ALREADY_EXISTS);
	assert_int_equal(issue(folder, &node_request, &err), STATUS_ALREADY_EXISTS);
	assert_int_equal(file_read(path(folder, "ca.key"), 10000, &after, NULL), 0);
	assert_string_equal(before, after);
}

CASE(half_a_pair_is_explained_and_not_completed)
{
	static const char *const halves[] = {"n.key", "n.crt"};

	make_pair(folder);
	for (size_t i = 0; i < ARRAY_SIZE(halves); i++) {
		const char *missing = halves[i], *there = halves[1 - i];
		struct error err;

		assert_int_equal(unlink(path(folder, missing)), 0);
		assert_error(issue(folder, &node_request, &err), STATUS_ALREADY_EXISTS, err, missing);
		assert_non_null(strstr(err.msg, there));
		assert_non_null(strstr(err.msg, "missing half"));
		assert_int_not_equal(access(path(folder, missing), F_OK), 0);
		assert_int_equal(unlink(path(folder, there)), 0);
		assert_int_equal(issue(folder, &node_request, &err), STATUS_OK);
	}
}

CASE(requests_that_make_no_sense_are_refused)
{
	static char long_uri[RPC_URI_SIZE + 1], long_name[66];
	struct pki_cert_request bad[9];
	struct error err;
	size_t n = 0;

	make_pair(folder);
	assert_int_equal(unlink(path(folder, "n.key")), 0);
	assert_int_equal(unlink(path(folder, "n.crt")), 0);
	memset(long_name, 'n', 65);
	(void)str_copy(long_uri, sizeof(long_uri), "holdfast://");
	memset(long_uri + 11, 'u', RPC_URI_SIZE - 11);
	for (size_t i = 0; i < ARRAY_SIZE(bad); i++)
		bad[i] = node_request;
	bad[n++].uri = NULL;
	bad[n++].uri = "";
	bad[n++].uri = "no uri";
	bad[n++].uri = "holdfast://lab/node/with space";
	bad[n++].uri = long_uri;
	bad[n++].common_name = "";
	bad[n++].common_name = long_name;
	bad[n++].days = 0;
	bad[n++].days = 36501;
	assert_int_equal(n, ARRAY_SIZE(bad));
	for (size_t i = 0; i < n; i++) {
		assert_int_equal(issue(folder, &bad[i], &err), STATUS_INVALID_ARGUMENT);
		assert_int_not_equal(access(path(folder, "n.key"), F_OK), 0);
	}
	long_uri[RPC_URI_SIZE - 1] = '\0';
	long_name[64] = '\0';
	bad[0] = node_request;
	bad[0].uri = long_uri;
	bad[0].common_name = long_name;
	assert_int_equal(issue(folder, &bad[0], &err), STATUS_OK);
}

CASE(the_end_of_a_certificate_is_told_in_its_last_quarter_and_30_days_before_at_most)
{
	const int64_t day_ms = 86400000;
	struct pki_facts facts = {.issued_ms = 100 * day_ms, .expires_ms = 0};

	assert_int_equal(pki_warns_at_ms(&facts), 0);
	facts.expires_ms = 108 * day_ms;
	assert_int_equal(pki_warns_at_ms(&facts), 106 * day_ms);
	facts.expires_ms = 220 * day_ms;
	assert_int_equal(pki_warns_at_ms(&facts), 190 * day_ms);
	facts.expires_ms = 1100 * day_ms;
	assert_int_equal(pki_warns_at_ms(&facts), 1070 * day_ms);
}

CASE(a_certificate_ends_before_its_ca)
{
	struct pki_cert_request request = node_request;
	char cluster[PKI_CLUSTER_SIZE];
	int64_t expiry_ms = 0, left_ms;
	struct error err;

	assert_int_equal(pki_make_ca_for(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", 0, NULL),
			 STATUS_INVALID_ARGUMENT);
	assert_int_equal(pki_make_ca_for(path(folder, "ca.key"), path(folder, "ca.crt"), "lab",
					 PKI_DAYS_MAX + 1, NULL),
			 STATUS_INVALID_ARGUMENT);
	assert_ok(pki_make_ca_for(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", PKI_DAYS_MAX, NULL));
	request.days = PKI_DAYS_MAX - 1;
	assert_int_equal(issue(folder, &request, NULL), STATUS_OK);
	assert_int_equal(pki_expiry(path(folder, "n.crt"), &expiry_ms, NULL), STATUS_OK);
	left_ms = expiry_ms - clock_realtime_ms();
	assert_in_range(left_ms / 1000, (PKI_DAYS_MAX - 1) * 86400LL - 600, (PKI_DAYS_MAX - 1) * 86400LL);
	assert_int_equal(unlink(path(folder, "n.key")), 0);
	assert_int_equal(unlink(path(folder, "n.crt")), 0);
	assert_int_equal(unlink(path(folder, "ca.key")), 0);
	assert_int_equal(unlink(path(folder, "ca.crt")), 0);
	assert_ok(pki_make_ca_for(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", 10, NULL));
	request.days = 11;
	assert_error(issue(folder, &request, &err), STATUS_INVALID_ARGUMENT, err, "fewer days");
	assert_int_not_equal(access(path(folder, "n.key"), F_OK), 0);
	request.days = 9;
	assert_int_equal(issue(folder, &request, NULL), STATUS_OK);
	assert_int_equal(pki_ca_cluster(path(folder, "ca.crt"), cluster, NULL), STATUS_OK);
	assert_string_equal(cluster, "lab");
	assert_int_equal(pki_ca_cluster(path(folder, "n.crt"), cluster, NULL), STATUS_INVALID_ARGUMENT);
	assert_int_equal(pki_expiry(path(folder, "n.key"), &expiry_ms, NULL), STATUS_INVALID_ARGUMENT);
}

CASE(names_that_cannot_be_written_leave_nothing_behind)
{
	static const char *const no_address[] = {"not-an-address"};
	static const char *const no_name[] = {"two words"};
	struct pki_cert_request request = node_request;
	struct error err;

	assert_int_equal(pki_make_ca(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", &err), STATUS_OK);
	request.ip_addresses = no_address;
	request.n_ip_addresses = 1;
	assert_error(issue(folder, &request, &err), STATUS_INVALID_ARGUMENT, err, "not-an-address");
	request = node_request;
	request.dns_names = no_name;
	request.n_dns_names = 1;
	assert_error(issue(folder, &request, &err), STATUS_INVALID_ARGUMENT, err, "two words");
	request.dns_names = (const char *const[]){"n1\x7f"};
	assert_int_equal(issue(folder, &request, &err), STATUS_INVALID_ARGUMENT);
	assert_int_not_equal(access(path(folder, "n.key"), F_OK), 0);
	/* a key whose certificate cannot be written is taken back */
	assert_error(
		pki_make_ca(path(folder, "new.key"), path(folder, "no/such/folder/new.crt"), "lab", &err),
		STATUS_NOT_FOUND, err, "no/such/folder/new.crt");
	assert_int_not_equal(access(path(folder, "new.key"), F_OK), 0);
}

CASE(a_ca_whose_halves_do_not_match_issues_nothing)
{
	struct error err;

	assert_int_equal(pki_make_ca(path(folder, "ca.key"), path(folder, "ca.crt"), "lab", &err), STATUS_OK);
	assert_int_equal(pki_make_ca(path(folder, "cb.key"), path(folder, "cb.crt"), "lab", &err), STATUS_OK);
	assert_error(pki_issue(path(folder, "ca.key"), path(folder, "cb.crt"), &node_request,
			       path(folder, "n.key"), path(folder, "n.crt"), &err),
		     STATUS_INVALID_ARGUMENT, err, "ca.key");
	assert_non_null(strstr(err.msg, "cb.crt"));
	assert_int_equal(ERR_peek_error(), 0); /* it would be the next connection's */
	assert_int_equal(pki_issue(path(folder, "gone.key"), path(folder, "ca.crt"), &node_request,
				   path(folder, "n.key"), path(folder, "n.crt"), &err),
			 STATUS_NOT_FOUND);
}

/* --- for others --- */

static enum status sign(struct folder *folder, const char *uri, const char *csr, char **ret)
{
	const struct pki_cert_request request = {.uri = uri, .common_name = "n1", .life_s = 3600};
	struct pki_ca *ca = NULL;
	struct pki_facts facts;
	enum status status;

	assert_int_equal(pki_ca_open(path(folder, "ca.key"), path(folder, "ca.crt"), &ca, NULL), STATUS_OK);
	status = pki_ca_sign(ca, &request, csr, ret, &facts, NULL);
	pki_ca_free(ca);
	return status;
}

/* Owned by the caller. */
static char *text_of(struct folder *folder, const char *name)
{
	char *text = NULL;

	assert_int_equal(file_read(path(folder, name), PKI_PEM_MAX, &text, NULL), 0);
	return text;
}

CASE(a_signed_certificate_fits_its_key_its_identity_and_its_ca)
{
	static const char uri[] = "holdfast://lab/node/n1";
	char *key = NULL, *csr = NULL, *other = NULL, *other_csr = NULL, *cert = NULL;
	char *ca, *no_ca;
	struct error err;

	make_pair(folder);
	ca = text_of(folder, "ca.crt");
	no_ca = text_of(folder, "n.crt");
	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	assert_int_equal(pki_make_request(&other, &other_csr, NULL), STATUS_OK);
	assert_int_equal(sign(folder, uri, csr, &cert), STATUS_OK);
	assert_int_equal(pki_check_pair(cert, key, uri, ca, NULL), STATUS_OK);
	assert_int_equal(pki_check_issuer(cert, ca, NULL), STATUS_OK);
	assert_int_equal(pki_check_pair(cert, other, uri, ca, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(pki_check_pair(cert, key, "holdfast://lab/node/n2", ca, &err),
			 STATUS_FAILED_PRECONDITION);
	assert_int_equal(pki_check_pair(cert, key, uri, no_ca, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(pki_check_issuer(cert, no_ca, &err), STATUS_FAILED_PRECONDITION);
	assert_int_equal(pki_check_pair("", key, uri, ca, &err), STATUS_FAILED_PRECONDITION);
	ca[strlen(ca) / 2] = '\0'; /* half-written */
	assert_int_equal(pki_check_pair(cert, key, uri, ca, &err), STATUS_FAILED_PRECONDITION);
	assert_non_null(strstr(err.msg, "not readable PEM"));
	assert_int_equal(pki_check_issuer(cert, "", &err), STATUS_FAILED_PRECONDITION);
	free(ca);
	free(no_ca);
	pki_key_free(key);
	pki_key_free(other);
	free(csr);
	free(other_csr);
	free(cert);
}

/* The CA of the folder as another program makes it: with a subject of its own, and signed by this key. */
static void rename_ca(struct folder *folder, const char *signer)
{
	X509 *ca = load(folder, "ca.crt");
	X509_NAME *name = X509_NAME_new();
	BIO *bio = BIO_new_file(path(folder, "ca.crt"), "w");
	EVP_PKEY *key = NULL;

	assert_ok(pem_read_key(path(folder, signer), &key, NULL));
	assert_int_equal(X509_NAME_add_entry_by_txt(name, "O", MBSTRING_UTF8, (const unsigned char *)"Acme",
						    -1, -1, 0),
			 1);
	assert_int_equal(X509_set_subject_name(ca, name), 1);
	assert_int_equal(X509_set_issuer_name(ca, name), 1);
	assert_true(X509_sign(ca, key, EVP_sha256()) > 0);
	assert_int_equal(PEM_write_bio_X509(bio, ca), 1);
	BIO_free(bio);
	EVP_PKEY_free(key);
	X509_NAME_free(name);
	X509_free(ca);
}

/* When it counts as issued. */
static int64_t issue_after(struct folder *folder, int64_t after_ms)
{
	struct pki_cert_request request = node_request;
	struct pki_facts facts;

	request.after_ms = after_ms;
	(void)unlink(path(folder, "n.crt"));
	(void)unlink(path(folder, "n.key"));
	assert_ok(issue(folder, &request, NULL));
	assert_ok(pki_read_facts(path(folder, "n.crt"), &facts, NULL));
	return facts.issued_ms;
}

CASE(a_certificate_counts_as_issued_after_the_moment_that_is_given_also_of_a_ca_of_others)
{
	make_pair(folder);
	for (int i = 0; i < 2; i++) {
		int64_t after_ms = clock_realtime_ms() + 120000;

		assert_true(issue_after(folder, after_ms) > after_ms);
		assert_true(issue_after(folder, after_ms) <= after_ms + 1000);
		assert_true(issue_after(folder, 0) <= clock_realtime_ms());
		rename_ca(folder, "ca.key");
	}
}

/* Counts in a file of these certificates; "" is none. */
static size_t count_others(struct folder *folder, const char *first, const char *second)
{
	char *texts[2] = {NULL, NULL}, *all = NULL;
	struct pki_ca *ca = NULL;
	size_t n;

	assert_int_equal(file_read(path(folder, first), 65536, &texts[0], NULL), 0);
	if (second[0] != '\0')
		assert_int_equal(file_read(path(folder, second), 65536, &texts[1], NULL), 0);
	assert_true(asprintf(&all, "%s%s", texts[0], texts[1] ? texts[1] : "") > 0);
	assert_int_equal(file_write_atomic(path(folder, "all.crt"), 0644, all, strlen(all)), 0);
	assert_ok(pki_ca_open(path(folder, "ca.key"), path(folder, "ca.crt"), &ca, NULL));
	n = pki_ca_count_others(ca, path(folder, "all.crt"));
	pki_ca_free(ca);
	free(texts[0]);
	free(texts[1]);
	free(all);
	return n;
}

CASE(the_root_above_an_intermediate_is_no_other_ca)
{
	make_pair(folder);
	assert_ok(pki_make_ca(path(folder, "root.key"), path(folder, "root.crt"), "lab", NULL));
	assert_int_equal(count_others(folder, "ca.crt", ""), 0);
	/* of the same name, but the CA is not of its key */
	assert_int_equal(count_others(folder, "ca.crt", "root.crt"), 1);
	rename_ca(folder, "root.key");
	assert_int_equal(count_others(folder, "ca.crt", "root.crt"), 0);
	assert_int_equal(count_others(folder, "root.crt", ""), 0);
	assert_ok(pki_make_ca(path(folder, "old.key"), path(folder, "old.crt"), "lab", NULL));
	assert_int_equal(count_others(folder, "root.crt", "old.crt"), 1);
	assert_int_equal(ERR_peek_error(), 0);
}

/* In @life_s seconds from @at_ms on. */
static void expect_refused_by_clock(struct folder *folder, int64_t at_ms, uint64_t life_s, const char *says)
{
	static const char uri[] = "holdfast://lab/node/n1";
	const struct pki_cert_request request = {
		.uri = uri, .common_name = "n1", .life_s = life_s, .after_ms = at_ms};
	char *key = NULL, *csr = NULL, *cert = NULL, *trusted;
	struct error err = {.msg = ""};
	struct pki_facts facts;
	struct pki_ca *ca = NULL;
	enum status status;

	assert_int_equal(pki_ca_open(path(folder, "ca.key"), path(folder, "ca.crt"), &ca, NULL), STATUS_OK);
	assert_int_equal(pki_make_request(&key, &csr, NULL), STATUS_OK);
	assert_int_equal(pki_ca_sign(ca, &request, csr, &cert, &facts, NULL), STATUS_OK);
	if (!says)
		unit_clock_advance(3600 * USEC_PER_SEC); /* the clock of the node is that much ahead */
	trusted = text_of(folder, "ca.crt");
	assert_int_equal(pki_check_issuer(cert, trusted, NULL), STATUS_OK);
	status = pki_check_pair(cert, key, uri, trusted, &err);
	free(trusted);
	assert_int_equal(status, STATUS_FAILED_PRECONDITION);
	assert_msg(strstr(err.msg, says ? says : "and this clock: certificate has expired"), "%s", err.msg);
	pki_key_free(key);
	free(csr);
	free(cert);
	pki_ca_free(ca);
}

CASE(a_clock_that_is_an_hour_off_refuses_a_new_certificate_and_says_so)
{
	make_pair(folder);
	expect_refused_by_clock(folder, clock_realtime_ms() + 3600000, 60,
				"and this clock: certificate is not yet valid");
	expect_refused_by_clock(folder, 0, 60, NULL);
}

/* P-256 as openssl ecparam -param_enc explicit writes it. */
static const char explicit_csr[] = "-----BEGIN CERTIFICATE REQUEST-----\n"
				   "MIIBvDCCAWICAQAwDDEKMAgGA1UEAwwBeDCCAUswggEDBgcqhkjOPQIBMIH3AgEB\n"
				   "MCwGByqGSM49AQECIQD/////AAAAAQAAAAAAAAAAAAAAAP///////////////zBb\n"
				   "BCD/////AAAAAQAAAAAAAAAAAAAAAP///////////////AQgWsY12Ko6k+ez671V\n"
				   "dpiGvGUdBrDMU7D2O848PifSYEsDFQDEnTYIhucEk2pmeOETnSa3gZ9+kARBBGsX\n"
				   "0fLhLEJH+Lzm5WOkQPJ3A32BLeszoPShOUXYmMKWT+NC4v4af5uO5+tKfA+eFivO\n"
				   "M1drMV7Oy7ZAaDe/UfUCIQD/////AAAAAP//////////vOb6racXnoTzucrC/GMl\n"
				   "UQIBAQNCAAQRxx13VkKrgfBeo0xsXFAVTk0mjuaWKwwFc58LQkGcHTHOTQB9ONO9\n"
				   "R8upziszJn0XNyNEENmSwOpVFEdZWEQCoAAwCgYIKoZIzj0EAwIDSAAwRQIgfBco\n"
				   "2hhU1waVhWoVXluZcPDokfCN2l9orTq2L99N+04CIQDVdywYBliQ9UMVp+ikPOBX\n"
				   "p9DSzd0L817XiDwrOYuzIg==\n"
				   "-----END CERTIFICATE REQUEST-----\n";

CASE(a_key_with_parameters_of_its_own_is_not_signed)
{
	char *cert = NULL;

	make_pair(folder);
	assert_int_equal(sign(folder, "holdfast://lab/node/n1", explicit_csr, &cert),
			 STATUS_INVALID_ARGUMENT);
	assert_null(cert);
}

/* The body does not matter: OpenSSL asks for the pass phrase before it decrypts. */
static const char locked_csr[] = "-----BEGIN CERTIFICATE REQUEST-----\n"
				 "Proc-Type: 4,ENCRYPTED\n"
				 "DEK-Info: AES-128-CBC,00112233445566778899AABBCCDDEEFF\n"
				 "\n"
				 "MIIBvDCCAWICAQAwDDEKMAgGA1UEAwwBeDCCAUswggEDBgcqhkjOPQIBMIH3AgEB\n"
				 "-----END CERTIFICATE REQUEST-----\n";

static void read_request(const char *csr)
{
	uint8_t digest[PKI_KEY_DIGEST_SIZE];

	(void)pki_request_digest(csr, digest, NULL);
}

CASE(a_request_that_is_encrypted_makes_no_server_ask_for_a_pass_phrase)
{
	uint8_t digest[PKI_KEY_DIGEST_SIZE];

	assert_false(asks_for_a_pass_phrase(read_request, locked_csr));
	assert_int_equal(pki_request_digest(locked_csr, digest, NULL), STATUS_INVALID_ARGUMENT);
}
