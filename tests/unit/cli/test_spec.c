/* SPDX-License-Identifier: Apache-2.0 */
/* Specifications and what is read from them: spec.cases has pairs.
 *
 *   volume TEXT, alloc TEXT, job TEXT   a file of that kind
 *   is JSON                             the message that is read from it
 *   bad WORDS                           or the whole error */

#include "examples.h"

#include "../cases.h"
#include "base/fd.h"
#include "call/spec.h"
#include "rpc/pbjson.h"

static struct conf *parse(const char *text)
{
	struct conf *conf = NULL;
	struct error err = {.msg = ""};

	assert_succeeds(conf_parse_whole(text, "s.hcl", CONF_REFERENCES, &conf, &err), err);
	return conf;
}

/* What the last text came to. */
static struct {
	enum status status;
	struct error err;
	ProtobufCMessage *message;
} now;

static void drop(void)
{
	protobuf_c_message_free_unpacked(TAKE_PTR(now.message), NULL);
	now.err.msg[0] = '\0';
}

/* @kind of volume, alloc and job. */
static void read_spec(const char *kind, const char *text)
{
	struct conf *conf = parse(text);
	Holdfast__V1__Volume *volume = NULL;
	Holdfast__V1__Allocation *alloc = NULL;
	Holdfast__V1__Job *job = NULL;

	drop();
	if (str_eq(kind, "volume")) {
		now.status = spec_volume(conf, "", NULL, &volume, &now.err);
		now.message = (ProtobufCMessage *)volume;
	} else if (str_eq(kind, "alloc")) {
		now.status = spec_alloc(conf, &alloc, &now.err);
		now.message = (ProtobufCMessage *)alloc;
	} else {
		assert_string_equal(kind, "job");
		now.status = spec_job(conf, &job, &now.err);
		now.message = (ProtobufCMessage *)job;
	}
	conf_free(conf);
}

/* With line breaks for "\n". */
static char *with_lines(const char *text)
{
	char *copy = strdup(text), *to = copy;

	assert_non_null(copy);
	for (; *text != '\0'; text++) {
		bool is_break = text[0] == '\\' && text[1] == 'n';

		*to = *text;
		if (is_break)
			*to = '\n';
		to++;
		text += is_break;
	}
	*to = '\0';
	return copy;
}

static size_t see_message(const struct case_step *step)
{
	json_t *wanted = json_loads(step->text, JSON_REJECT_DUPLICATES, NULL), *json = NULL;
	cleanup_free char *text = NULL;
	bool is_same;

	assert_msg(now.status == STATUS_OK, "line %d: %s", step->line, now.err.msg);
	assert_int_equal(pbjson_encode(now.message, PBJSON_PROTO_NAMES, &json, NULL), STATUS_OK);
	is_same = json_equal(wanted, json);
	text = json_dumps(json, JSON_COMPACT | JSON_SORT_KEYS);
	if (!is_same)
		print_message("line %d: is %s\n", step->line, text);
	json_decref(wanted);
	json_decref(json);
	return !is_same;
}

static size_t run_step(const struct case_step *step)
{
	cleanup_free char *text = NULL;

	if (str_eq(step->key, "is"))
		return see_message(step);
	if (str_eq(step->key, "bad")) {
		text = with_lines(step->text);
		if (now.status == STATUS_INVALID_ARGUMENT && str_eq(now.err.msg, text) && !now.message)
			return 0;
		print_message("line %d: %s: %s\n", step->line, status_name(now.status), now.err.msg);
		return 1;
	}
	text = with_lines(step->text);
	read_spec(step->key, text);
	return 0;
}

TEST_CASES(CASES, run_step)

static int release(void **state)
{
	drop();
	return 0;
}

TEST_GROUP(NULL, release)

TEST(secrets_come_from_a_file_beside_the_volume)
{
	char path[] = "/tmp/cli-secrets-XXXXXX";
	static const char good[] = "user = \"a\"\npassword = \"p\"\n";
	static const char bad[] = "user = \"a\"\n password = 1234567\n";
	static const char *const unquoted[] = {
		"password = s3cret",	   "password = 0s3cret",     "-s3cret",
		"password = \"x\" s3cret", "{\"password\": s3cret}", "password = s3cret\nother = s3cret"};
	char text[128];
	struct error err = {.msg = ""};
	struct conf *conf;
	Holdfast__V1__Volume *v = NULL;
	int fd = mkstemp(path);

	assert_true(fd >= 0);
	(void)close(fd);
	assert_int_equal(file_write_atomic(path, 0600, good, strlen(good)), 0);
	(void)snprintf(text, sizeof(text), "id = \"a\"\nsecrets_file = \"%s\"\n", path + strlen("/tmp/"));
	conf = parse(text);
	assert_int_equal(spec_volume(conf, "/tmp/", NULL, &v, &err), STATUS_OK);
	assert_int_equal(v->n_secrets, 2);
	assert_string_equal(v->secrets[1]->value, "p");
	protobuf_c_message_free_unpacked(&v->base, NULL);
	conf_free(conf);
	assert_int_equal(file_write_atomic(path, 0600, bad, strlen(bad)), 0);
	conf = parse(text);
	assert_error(spec_volume(conf, "/tmp/", NULL, &v, &err), STATUS_INVALID_ARGUMENT, err,
		     ":2: the value of 'password' must be a text in quotes");
	assert_null(strstr(err.msg, "1234567"));
	conf_free(conf);
	for (size_t i = 0; i < ARRAY_SIZE(unquoted); i++) {
		assert_int_equal(file_write_atomic(path, 0600, unquoted[i], strlen(unquoted[i])), 0);
		conf = parse(text);
		assert_error(spec_volume(conf, "/tmp/", NULL, &v, &err), STATUS_INVALID_ARGUMENT, err,
			     ":1: ");
		assert_null(strstr(err.msg, "s3cret"));
		conf_free(conf);
	}
	(void)unlink(path);
	conf = parse(text);
	assert_int_equal(spec_volume(conf, "/tmp/", NULL, &v, &err), STATUS_NOT_FOUND);
	conf_free(conf);
}

TEST(the_examples_are_specifications)
{
	const Holdfast__V1__Volume *v;

	read_spec("volume", example_csi);
	assert_int_equal(now.status, STATUS_OK);
	v = (const void *)now.message;
	assert_int_equal(v->type, HOLDFAST__V1__VOLUME_TYPE__CSI);
	assert_int_equal(v->capacity_min, UINT64_C(10) << 30);
	read_spec("volume", example_native);
	assert_int_equal(now.status, STATUS_OK);
	v = (const void *)now.message;
	assert_int_equal(v->type, HOLDFAST__V1__VOLUME_TYPE__NATIVE);
}
