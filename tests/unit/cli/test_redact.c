/* SPDX-License-Identifier: Apache-2.0 */
/* Planted secrets of every kind: none is left, and what is no secret stays. */

#include "unit.h"

#include "operator/redact.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Each contains PLANTED or is a form of its own. */
static const struct {
	const char *text, *redacted;
} cases[] = {
	{"{\"secrets\": {\"userID\": \"admin\", \"userKey\": \"PLANTED\"}, \"id\": \"db\"}",
	 "{\"secrets\": [redacted], \"id\": \"db\"}"},
	{"secrets {\n  any = \"PLANTED\"\n}\nid = \"db\"\n", "secrets [redacted]\nid = \"db\"\n"},
	{"token = \"hf_0123456789abcdef.PLANTED\"", "token = \"[redacted]\""},
	{"log: token hf_0123456789abcdefPLANTED refused", "log: token [redacted] refused"},
	{"Authorization: Bearer PLANTED", "Authorization: [redacted]"},
	{"mount -o vers=3.0,username=ann,password=PLANTED,ro",
	 "mount -o vers=3.0,username=ann,password=[redacted]"},
	{"\"mount_flags\": [\"credentials=PLANTED\", \"ro\"], \"x\": 1",
	 "\"mount_flags\": [redacted], \"x\": 1"},
	{"-----BEGIN PRIVATE KEY-----\nPLANTED\n-----END PRIVATE KEY-----\nend", "[redacted]\nend"},
	{"-----BEGIN CERTIFICATE-----\nabc\n", "-----BEGIN CERTIFICATE-----\nabc\n"},
	{"\"env\": {\"PGUSER\": \"PLANTED\"}", "\"env\": [redacted]"},
	{"environment = \"x\"", "environment = \"x\""},
	{"\"secret\": \"a\\\"PLANTED\", \"b\": 2", "\"secret\": \"[redacted]\", \"b\": 2"},
	{"DB_PASSWORD='PLANTED with blanks' next", "DB_PASSWORD=[redacted] next"},
	{"token_file = \"/etc/holdfast/token\"", "token_file = \"/etc/holdfast/token\""},
	{"the token of ann expired", "the token of ann expired"},
	{"missing field \"token\", see below\nnext", "missing field \"token\",[redacted]\nnext"},
	{"{\n \"name\": \"pwd\",\n \"value\": \"PLANTED\"\n}, 1", "{\n \"name\": \"pwd\",[redacted], 1"},
	{"nfs://u:PLANTED@h/x and nfs://h/x", "nfs://[redacted]@h/x and nfs://h/x"},
	{"holdfast-enroll/1/c/n/PLANTED/aa/h:1 end", "holdfast-enroll[redacted] end"},
	{"{\"id\": \"auth\", \"name\": \"db-keys\", \"dbPass\": \"PLANTED\", \"state\": \"ready\"}",
	 "{\"id\": \"auth\", \"name\": \"db-keys\", \"dbPass\": \"[redacted]\", \"state\": \"ready\"}"},
	{"{\"key\": \"image\", \"text\": \"web:1@sha256:ab\"}, {\"key\": \"args\", \"list\": "
	 "[\"PLANTED\"]}\nend",
	 "{\"key\": \"image\", \"text\": \"web:1@sha256:ab\"}, {\"key\": \"args\",[redacted]\nend"},
	{"\"argv\": [\"sh\", \"-c\", \"PLANTED\"], \"path\": \"/srv\"",
	 "\"argv\": [redacted], \"path\": \"/srv\""},
	{"\"context\": {\"a\": \"PLANTED\"}, \"next_command\": \"x\"",
	 "\"context\": [redacted], \"next_command\": \"x\""},
	{"//nas/s rw,context=\"system_u:object_r:nfs_t:s0\" //u:PLANTED@nas/s",
	 "//nas/s rw,context=\"system_u:object_r:nfs_t:s0\" //[redacted]@nas/s"},
	{"volume \"keys\" {\n pw = \"PLANTED\"\n}", "volume \"keys\" {\n pw = \"[redacted]\"\n}"},
	{"\"ticket_keys\": \"ab\", \"key_id\": \"c\", \"auth_type\": \"d\", \"keyboard\": \"e\"",
	 "\"ticket_keys\": \"ab\", \"key_id\": \"c\", \"auth_type\": \"d\", \"keyboard\": \"e\""},
	{"\"name\": \"db\",\n\"public_key\": \"x\"", "\"name\": \"db\",\n\"public_key\": \"x\""},
};

TEST(planted_secrets_of_every_kind_are_removed_and_the_rest_stays)
{
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cleanup_free char *text = NON_NULL(redact(cases[i].text, strlen(cases[i].text)));

		assert_string_equal(text, cases[i].redacted);
		if (!strstr(cases[i].redacted, "PLANTED"))
			assert_null(strstr(text, "PLANTED"));
	}
}

/* Each contains PLANTED; how much of the rest goes does not matter. */
static const char *const leaks[] = {
	"{\"key\": \"-----BEGIN PRIVATE KEY-----\\nPLANTED\\n-----END PRIVATE KEY-----\\n\"}",
	"{\"log\": \"\\n-----BEGIN PRIVATE KEY-----\\nPLANTED\\n-----END PRIVATE KEY-----\\n\"}",
	"-----BEGIN OPENSSH PRIVATE KEY-----\r\nPLANTED\r\n-----END OPENSSH PRIVATE KEY-----",
	/* Authorization */
	"Authorization: Basic PLANTED",
	"\"authorization\": \"Basic PLANTED\"",
	"Authorization: AWS4-HMAC-SHA256 Credential=AK/x, SignedHeaders=h, Signature=PLANTED",
	"Bearer\tPLANTED",
	"Bearer  PLANTED",
	"bearer:PLANTED",
	"\\nbearer PLANTED",
	"Cookie: session=PLANTED",
	"X-Vault-Token: PLANTED",
	"eyJhbGciOiJIUzI1NiJ9.PLANTED.sig",
	/* URLs */
	"nfs://user:PLANTED@host/share",
	"postgres://u:PLANTED@db:5432/x?sslmode=off",
	"a://u:x@PLANTED@h",
	/* JSON in a string */
	"msg=\"{\\\"password\\\": \\\"PLANTED\\\"}\"",
	"{\"log\": \"{\\\"token\\\":\\\"PLANTED\\\"}\"}",
	"{\"log\": \"{\\\"token\\\":\\\"a\\\\\\\"PLANTED\\\"}\"}",
	"\"pass\\u0077ord\": \"PLANTED\"",
	"password%3DPLANTED",
	/* arguments and pairs */
	"cmd --password PLANTED",
	"cmd --password=PLANTED",
	"args = [\"--secret\", \"PLANTED\"]",
	"{\"name\": \"password\", \"value\": \"PLANTED\"}",
	"{\"name\": \"password\",\n \"value\": \"PLANTED\"}",
	"{\"key\": \"password\", \"value\": \"PLANTED\"}",
	"{\\\"name\\\":\\\"password\\\",\\\"value\\\":\\\"PLANTED\\\"}",
	/* values of several lines and with blanks */
	"password = <<EOF\nPLANTED\nEOF\n",
	"password = <<-EOF\n  a\n  PLANTED\n  EOF\n",
	"password: |\n  PLANTED\n",
	"password: >-\n  a\n  PLANTED\n",
	"password:\n- a\n- PLANTED\n",
	"password: one two PLANTED",
	"password =\n  \"PLANTED\"",
	"\"password\":\n\t\"PLANTED\"",
	"PASSWORD=\"a\nPLANTED\"",
	"password=a\\ PLANTED",
	"password=a,PLANTED,ro",
	"token=a;PLANTED",
	"password=\"${x == \"y\" ? 1 : 2}PLANTED\"",
	/* other assignments */
	"password /* c */ = \"PLANTED\"",
	"password => PLANTED",
	"password == PLANTED",
	"password:= PLANTED",
	"passwd -> PLANTED",
	/* blocks */
	"secrets\n{\n a = \"PLANTED\"\n}",
	"secrets \"x\" {\n a = \"PLANTED\"\n}",
	"\"secrets\": [\n\"PLANTED\"]",
	"secrets { # }\n a = \"PLANTED\"\n}",
	"secrets { // }\n a = \"PLANTED\"\n}",
	"secrets { /* } */ a = \"PLANTED\"\n}",
	"secrets {\n a = <<E\n} \"\nPLANTED\nE\n}",
	"secrets {\n # it's } here\n a = \"PLANTED\" }",
	"# don't\nsecrets {\n # \" }\n a = \"PLANTED\" }",
	/* names */
	"key = \"AQDPLANTEDbase64==\"  # ceph",
	"\\nkey = PLANTED",
	"fsid=1,secret=PLANTED",
	"username=a,pass=PLANTED",
	"psk=PLANTED",
	"chap=PLANTED",
	"node.session.auth.password = PLANTED",
	"pin = PLANTED",
	"\"luks_key\": \"PLANTED\"",
	"encryption_key = \"PLANTED\"",
	"shared_key=PLANTED",
	"sas=sv=1&sig=PLANTED",
	"encryption-key: PLANTED",
	"\\npass=PLANTED",
	/* words of secrets within names, which ids may have too */
	"\"list\":[\"--db-pass\",\"PLANTED\"]",
	"\"list\":[\"--auth=PLANTED\"]",
	"[\"-e\",\"SMTP_PASS=PLANTED\"]",
	"MYSQL_PWD=PLANTED",
	"\\npw=PLANTED",
	"DB_PASS_2: PLANTED",
	"\"auth\": \"PLANTED\"",
	"\"proxyAuth\": \"PLANTED\"",
	"\"auth_b64\": \"PLANTED\"",
	"X-Auth: PLANTED",
	"\"luks_key_b64\": \"PLANTED\"",
	"\"master_key_hex\": \"PLANTED\"",
	"\"unlockKeyB64\": \"PLANTED\"",
	"\"unlock_keys\": [\"PLANTED\"]",
	"ssh_keys = [\n \"PLANTED\"\n]",
	"\"kek\": \"PLANTED\"",
	"OTP=PLANTED",
	"{\"name\":\"dbPass\",\"value\":\"PLANTED\"}",
	"{\\\"key\\\":\\\"auth\\\",\\\"text\\\":\\\"PLANTED\\\"}",
	"\"command\": \"mysql -pPLANTED\"",
	"\"publishContext\": {\"a\": \"PLANTED\"}",
	"parameters {\n a = \"PLANTED\"\n}",
	"args = [\"-p\", \"PLANTED\"]",
	"user:PLANTED@tcp(h:1)/d",
	/* our own tokens and lines */
	"\\nhf_0123456789abcdefPLANTED",
	"xhf_0123456789abcdefPLANTED",
	"holdfast-enroll/1/prod/n9/0123456789abcdefPLANTED/aa/h:1",
	"\\nholdfast-enroll/1/prod/n9/0123456789abcdefPLANTED/aa/h:1",
	"\"holdfast-enroll\\/1\\/prod\\/n9\\/0123456789abcdefPLANTED\\/aa\\/h:1",
};

TEST(forms_of_secrets_that_hide_are_removed)
{
	for (size_t i = 0; i < sizeof(leaks) / sizeof(leaks[0]); i++) {
		cleanup_free char *text = NON_NULL(redact(leaks[i], strlen(leaks[i])));

		if (strstr(text, "PLANTED"))
			print_error("leak %zu: %s becomes %s\n", i, leaks[i], text);
		assert_null(strstr(text, "PLANTED"));
	}
}

TEST(a_long_name_counts_as_secret)
{
	char text[512], *redacted;

	memset(text, 'a', sizeof(text));
	(void)snprintf(text + 300, sizeof(text) - 300, "password=PLANTED");
	redacted = redact(text, strlen(text));
	assert_null(strstr(redacted, "PLANTED"));
	free(redacted);
}

TEST(a_zero_byte_ends_no_text)
{
	static const char text[] = "a\0b token=PLANTED\nend";
	cleanup_free char *redacted = redact(text, sizeof(text) - 1);

	assert_string_equal(redacted, "a?b token=[redacted]\nend");
}

TEST(text_that_is_cut_anywhere_is_read_to_its_end)
{
	static const char text[] =
		"\"secrets\": {\"a\": \"b\\\"c\", \"d\": [1, {\"e\": '\x80'}]} -----BEGIN PRIVATE KEY-----";

	for (size_t n = 0; n < sizeof(text); n++)
		free(redact(text, n));
}
