#include "spec.h"

#include "base/cleanup.h"

#include <string.h>

/* clang-format off */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
/* clang-format on */

static struct conf *parse(const char *text)
{
	struct conf *conf = NULL;
	struct error err = {.msg = ""};

	if (conf_parse(text, "s.hcl", &conf, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	return conf;
}

static Holdfast__V1__Volume *volume(const char *text)
{
	struct conf *conf = parse(text);
	Holdfast__V1__Volume *volume = NULL;
	struct error err = {.msg = ""};

	if (spec_volume(conf, &volume, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	conf_free(conf);
	return volume;
}

static Holdfast__V1__Allocation *alloc(const char *text)
{
	struct conf *conf = parse(text);
	Holdfast__V1__Allocation *alloc = NULL;
	struct error err = {.msg = ""};

	if (spec_alloc(conf, &alloc, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	conf_free(conf);
	return alloc;
}

static void a_native_volume_fills_every_field(void **state)
{
	Holdfast__V1__Volume *v =
		volume("id = \"db\"\nnamespace = \"shop\"\nname = \"orders\"\nexternal_id = \"x1\"\n"
		       "type = \"native\"\nplugin_id = \"native\"\nprofile = \"disk\"\n"
		       "source {\n  class = \"tmpfs\"\n  size = \"1GiB\"\n  inodes = 1000\n}\n"
		       "capability {\n  access_mode = \"single-node-writer\"\n"
		       "  attachment_mode = \"file-system\"\n}\n");

	(void)state;
	assert_string_equal(v->id, "db");
	assert_string_equal(v->namespace_, "shop");
	assert_string_equal(v->name, "orders");
	assert_string_equal(v->external_id, "x1");
	assert_int_equal(v->type, HOLDFAST__V1__VOLUME_TYPE__NATIVE);
	assert_string_equal(v->plugin_id, "native");
	assert_string_equal(v->profile, "disk");
	assert_int_equal(v->source->class_, HOLDFAST__V1__SOURCE_CLASS__TMPFS);
	assert_int_equal(v->source->size_bytes, 1 << 30);
	assert_int_equal(v->source->inodes, 1000);
	assert_int_equal(v->n_requested_capabilities, 1);
	assert_int_equal(v->requested_capabilities[0]->attachment_mode,
			 HOLDFAST__V1__ATTACHMENT_MODE__FILE_SYSTEM);
	protobuf_c_message_free_unpacked(&v->base, NULL);
}

static void sources_of_every_class_are_read(void **state)
{
	Holdfast__V1__Volume *v = volume("id = \"a\"\ntype = \"native\"\nprofile = \"nfs\"\n"
					 "source {\n  class = \"nfs4\"\n  server = \"192.0.2.7\"\n"
					 "  export = \"/exports/a\"\n}\n");

	(void)state;
	assert_int_equal(v->source->class_, HOLDFAST__V1__SOURCE_CLASS__NFS4);
	assert_string_equal(v->source->server, "192.0.2.7");
	assert_string_equal(v->source->export, "/exports/a");
	holdfast__v1__volume__free_unpacked(v, NULL);
	v = volume("id = \"b\"\ntype = \"native\"\n"
		   "source {\n  class = \"bind\"\n  host_volume = \"data\"\n}\n");
	assert_int_equal(v->source->class_, HOLDFAST__V1__SOURCE_CLASS__BIND);
	assert_string_equal(v->source->host_volume, "data");
	holdfast__v1__volume__free_unpacked(v, NULL);
}

static void several_capabilities_keep_their_order_in_hcl_and_json(void **state)
{
	static const char *const texts[] = {
		"capability { access_mode = \"multi-node-reader-only\" }\ncapability { access_mode = "
		"\"multi-node-multi-writer\" }",
		"{\"capability\": [{\"access_mode\": \"multi-node-reader-only\"}, {\"access_mode\": "
		"\"multi-node-multi-writer\"}]}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		Holdfast__V1__Volume *v = volume(texts[i]);

		assert_int_equal(v->n_requested_capabilities, 2);
		assert_int_equal(v->requested_capabilities[0]->access_mode,
				 HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY);
		assert_int_equal(v->requested_capabilities[1]->access_mode,
				 HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_MULTI_WRITER);
		protobuf_c_message_free_unpacked(&v->base, NULL);
	}
}

static void an_allocation_takes_its_volumes_by_label(void **state)
{
	static const char *const texts[] = {
		"name = \"app\"\nnode = \"n1\"\ndriver = \"none\"\n"
		"volume \"data\" {\n  source = \"db\"\n  access_mode = \"single-node-writer\"\n"
		"  attachment_mode = \"file-system\"\n  read_only = false\n  propagation = \"private\"\n}\n"
		"volume \"logs\" {\n  source = \"log\"\n  read_only = true\n  exec = true\n"
		"  propagation = \"host-to-task\"\n}\n",
		"{\"name\": \"app\", \"node\": \"n1\", \"driver\": \"none\", \"volume\": {"
		"\"data\": {\"source\": \"db\", \"access_mode\": \"single-node-writer\"},"
		"\"logs\": {\"source\": \"log\", \"read_only\": true, \"exec\": true, "
		"\"propagation\": \"host-to-task\"}}}",
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		Holdfast__V1__Allocation *a = alloc(texts[i]);

		assert_string_equal(a->name, "app");
		assert_string_equal(a->node_id, "n1");
		assert_string_equal(a->driver, "none");
		assert_int_equal(a->n_volumes, 2);
		assert_string_equal(a->volumes[0]->name, "data");
		assert_string_equal(a->volumes[0]->source, "db");
		assert_int_equal(a->volumes[0]->access_mode, HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER);
		assert_string_equal(a->volumes[1]->name, "logs");
		assert_true(a->volumes[1]->read_only);
		assert_true(a->volumes[1]->exec);
		assert_int_equal(a->volumes[1]->propagation,
				 HOLDFAST__V1__PROPAGATION__PROPAGATION_HOST_TO_TASK);
		protobuf_c_message_free_unpacked(&a->base, NULL);
	}
}

static void mistakes_in_volumes_have_file_and_line(void **state)
{
	static const struct {
		const char *text;
		const char *error;
	} cases[] = {
		{"id = \"db\"\nplugin = \"x\"", "s.hcl:2: unknown key 'plugin'"},
		{"id = \"db\"\nplugin_idd = \"x\"",
		 "s.hcl:2: unknown key 'plugin_idd', did you mean 'plugin_id'?"},
		{"\ncapability {\n  acces_mode = \"x\"\n}",
		 "s.hcl:3: unknown key 'acces_mode', did you mean 'access_mode'?"},
		{"requested_capabilities = []", "s.hcl:1: unknown key 'requested_capabilities'"},
		{"generation = 5", "s.hcl:1: unknown key 'generation'"},
		{"source { size_bytes = 5 }", "s.hcl:1: unknown key 'size_bytes'"},
		{"id = 5", "s.hcl:1: id: wants a string, not a number"},
		{"\ntype = \"disk\"", "s.hcl:2: type: 'disk' is unknown, use one of: native, csi"},
		{"source {\n  class = \"block\"\n  size = \"5 apples\"\n}",
		 "s.hcl:3: size_bytes: '5 apples' is not a size as in \"10GiB\""},
		{"capability {}\ncapability {\n  attachment_mode = \"fs\"\n}",
		 "s.hcl:3: attachment_mode: 'fs' is unknown, use one of: file-system, block-device"},
		{"capability = \"x\"", "s.hcl:1: 'capability' must be a block: NAME { }"},
		{"capability = [1]", "s.hcl:1: 'capability' must be a block: NAME { }"},
		{"source = [{}]", "s.hcl:1: 'source' must be a block: NAME { }"},
		{"source {}\nsource {}", "s.hcl:1: 'source' must be a block: NAME { }"},
		{"id = \"x\"\nmount_options {}",
		 "s.hcl:2: 'mount_options' is not supported yet, leave it out"},
		{"secrets { a = \"b\" }", "s.hcl:1: 'secrets' is not supported yet, leave it out"},
		{"{\n\"id\": \"x\",\n\"capacity_min\": \"1GiB\"}",
		 "s.hcl:3: 'capacity_min' is not supported yet, leave it out"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct conf *conf = parse(cases[i].text);
		Holdfast__V1__Volume *v = NULL;
		struct error err = {.msg = ""};

		if (spec_volume(conf, &v, &err) != STATUS_INVALID_ARGUMENT)
			fail_msg("%s", cases[i].text);
		assert_string_equal(err.msg, cases[i].error);
		assert_null(v);
		conf_free(conf);
	}
}

static void mistakes_in_allocations_have_file_and_line(void **state)
{
	static const struct {
		const char *text;
		const char *error;
	} cases[] = {
		{"node_id = \"n1\"", "s.hcl:1: unknown key 'node_id'"},
		{"volume \"a\" {\n  name = \"b\"\n}", "s.hcl:2: unknown key 'name'"},
		{"volume { source = \"db\" }", "s.hcl:1: 'volume' must be a block: volume \"NAME\" { }"},
		{"volume {}\nvolume {}", "s.hcl:1: 'volume' must be a block: volume \"NAME\" { }"},
		{"volume \"a\" {\n  read_only = \"yes\"\n}",
		 "s.hcl:2: read_only: 'yes' is not true or false"},
		{"volume \"a\" {\n  propagation = \"shared\"\n}",
		 "s.hcl:2: propagation: 'shared' is unknown, use one of: private, host-to-task, "
		 "bidirectional"},
	};

	(void)state;
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct conf *conf = parse(cases[i].text);
		Holdfast__V1__Allocation *a = NULL;
		struct error err = {.msg = ""};

		if (spec_alloc(conf, &a, &err) != STATUS_INVALID_ARGUMENT)
			fail_msg("%s", cases[i].text);
		assert_string_equal(err.msg, cases[i].error);
		assert_null(a);
		conf_free(conf);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(a_native_volume_fills_every_field),
		cmocka_unit_test(sources_of_every_class_are_read),
		cmocka_unit_test(several_capabilities_keep_their_order_in_hcl_and_json),
		cmocka_unit_test(an_allocation_takes_its_volumes_by_label),
		cmocka_unit_test(mistakes_in_volumes_have_file_and_line),
		cmocka_unit_test(mistakes_in_allocations_have_file_and_line),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
