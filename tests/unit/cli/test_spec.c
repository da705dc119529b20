/* SPDX-License-Identifier: Apache-2.0 */
#include "examples.h"
#include "unit.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "call/spec.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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

TEST(a_group_of_a_job_has_the_keys_of_an_allocation_and_its_own)
{
	struct conf *conf =
		parse("job \"web\" {\n  type = \"service\"\n  namespace = \"shop\"\n"
		      "  group \"app\" {\n    count = 2\n    mount_timeout = \"5s\"\n"
		      "    volume \"data\" {\n      source = \"db\"\n      per_alloc = true\n"
		      "      access_mode = \"single-node-writer\"\n    }\n"
		      "    update {\n      min_healthy_time = \"10s\"\n    }\n"
		      "    reschedule {\n      attempts = 3\n    }\n  }\n  group \"one\" {\n  }\n}\n");
	Holdfast__V1__Job *job = NULL;
	struct error err = {.msg = ""};

	if (spec_job(conf, &job, &err) != STATUS_OK)
		fail_msg("%s", err.msg);
	assert_string_equal(job->id, "web");
	assert_string_equal(job->namespace_, "shop");
	assert_int_equal(job->type, HOLDFAST__V1__JOB_TYPE__JOB_TYPE_SERVICE);
	assert_int_equal(job->n_groups, 2);
	assert_string_equal(job->groups[0]->name, "app");
	assert_int_equal(job->groups[0]->count, 2);
	assert_int_equal(job->groups[0]->allocation->mount_timeout_ms, 5000);
	assert_string_equal(job->groups[0]->allocation->volumes[0]->source, "db");
	assert_int_equal(job->groups[0]->n_per_alloc, 1);
	assert_string_equal(job->groups[0]->per_alloc[0], "data");
	assert_int_equal(job->groups[0]->update->min_healthy_ms, 10000);
	assert_int_equal(job->groups[0]->reschedule->attempts, 3);
	assert_int_equal(job->groups[1]->count, 1);
	holdfast__v1__job__free_unpacked(job, NULL);
	conf_free(conf);
}

TEST(a_plain_field_is_a_key_of_its_name)
{
	Holdfast__V1__Volume *v = volume("id = \"db\"\ndescription = \"orders\"\n");

	assert_string_equal(v->description, "orders");
	holdfast__v1__volume__free_unpacked(v, NULL);
}

TEST(a_native_volume_fills_every_field)
{
	Holdfast__V1__Volume *v =
		volume("id = \"db\"\nnamespace = \"shop\"\nname = \"orders\"\nexternal_id = \"x1\"\n"
		       "type = \"native\"\nplugin_id = \"native\"\nprofile = \"disk\"\n"
		       "source {\n  class = \"tmpfs\"\n  size = \"1GiB\"\n  inodes = 1000\n}\n"
		       "capability {\n  access_mode = \"single-node-writer\"\n"
		       "  attachment_mode = \"file-system\"\n}\n");

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

TEST(sources_of_every_class_are_read)
{
	Holdfast__V1__Volume *v = volume("id = \"a\"\ntype = \"native\"\nprofile = \"nfs\"\n"
					 "source {\n  class = \"nfs4\"\n  server = \"192.0.2.7\"\n"
					 "  export = \"/exports/a\"\n}\n");

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

TEST(several_capabilities_keep_their_order_in_hcl_and_json)
{
	static const char *const texts[] = {
		"capability { access_mode = \"multi-node-reader-only\" }\ncapability { access_mode = "
		"\"multi-node-multi-writer\" }",
		"{\"capability\": [{\"access_mode\": \"multi-node-reader-only\"}, {\"access_mode\": "
		"\"multi-node-multi-writer\"}]}",
	};

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

TEST(an_allocation_takes_its_volumes_by_label)
{
	static const char *const texts[] = {
		"name = \"app\"\nnode = \"n1\"\ndriver = \"none\"\n"
		"volume \"data\" {\n  source = \"db\"\n  access_mode = \"single-node-writer\"\n"
		"  attachment_mode = \"file-system\"\n  read_only = false\n  propagation = \"private\"\n}\n"
		"volume \"logs\" {\n  source = \"log\"\n  read_only = true\n  exec = true\n"
		"  propagation = \"host-to-task\"\n"
		"  mount_options {\n    fs_type = \"xfs\"\n    mount_flags = [\"noatime\"]\n  }\n}\n",
		"{\"name\": \"app\", \"node\": \"n1\", \"driver\": \"none\", \"volume\": {"
		"\"data\": {\"source\": \"db\", \"access_mode\": \"single-node-writer\"},"
		"\"logs\": {\"source\": \"log\", \"read_only\": true, \"exec\": true, "
		"\"propagation\": \"host-to-task\", "
		"\"mount_options\": {\"fs_type\": \"xfs\", \"mount_flags\": [\"noatime\"]}}}}",
	};

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
		assert_null(a->volumes[0]->mount_options);
		assert_string_equal(a->volumes[1]->mount_options->fs_type, "xfs");
		assert_string_equal(a->volumes[1]->mount_options->mount_flags[0], "noatime");
		protobuf_c_message_free_unpacked(&a->base, NULL);
	}
}

TEST(an_allocation_names_the_unit_it_starts)
{
	Holdfast__V1__Allocation *a = alloc("name = \"db\"\ndriver = \"systemd\"\nunit = \"pg@15.service\"\n"
					    "stop_timeout = \"90s\"\nmount_timeout = \"1h\"\n");

	assert_string_equal(a->driver, "systemd");
	assert_string_equal(a->unit, "pg@15.service");
	assert_int_equal(a->stop_timeout_ms, 90000);
	assert_int_equal(a->mount_timeout_ms, 3600000);
	protobuf_c_message_free_unpacked(&a->base, NULL);
}

TEST(an_allocation_names_the_plugin_it_runs_as_in_nomad)
{
	static const char *const texts[] = {
		"name = \"ebs\"\ncsi_plugin {\n  id = \"ebs0\"\n  type = \"monolith\"\n"
		"  health_timeout = \"1m\"\n  socket = \"x.sock\"\n}\n",
		"{\"name\": \"ebs\", \"csi_plugin\": {\"id\": \"ebs0\", \"type\": \"monolith\", "
		"\"health_timeout\": \"60s\", \"socket\": \"x.sock\"}}",
	};

	for (size_t i = 0; i < ARRAY_SIZE(texts); i++) {
		Holdfast__V1__Allocation *a = alloc(texts[i]);

		assert_non_null(a->csi_plugin);
		assert_string_equal(a->csi_plugin->id, "ebs0");
		assert_int_equal(a->csi_plugin->type,
				 HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_MONOLITH);
		assert_int_equal(a->csi_plugin->health_timeout_ms, 60000);
		assert_string_equal(a->csi_plugin->socket, "x.sock");
		protobuf_c_message_free_unpacked(&a->base, NULL);
	}
}

TEST(a_network_is_one_block_of_the_allocation)
{
	Holdfast__V1__Allocation *a = alloc(
		"name = \"web\"\nnetwork {\n  mode = \"isolated\"\n}\ntask \"a\" {\n  driver = \"c\"\n}\n");

	assert_int_equal(a->network->mode, HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED);
	protobuf_c_message_free_unpacked(&a->base, NULL);
}

TEST(the_plugin_of_a_task_is_the_allocations)
{
	Holdfast__V1__Allocation *a =
		alloc("name = \"csi\"\ntask \"plugin\" {\n  driver = \"container\"\n"
		      "  csi_plugin {\n    id = \"ebs\"\n    type = \"monolith\"\n"
		      "    mount_dir = \"/run/csi\"\n    health_timeout = \"5s\"\n  }\n}\n");

	assert_string_equal(a->csi_plugin->id, "ebs");
	assert_string_equal(a->tasks[0]->csi_plugin->destination, "/run/csi");
	assert_int_equal(a->csi_plugin->health_timeout_ms, 5000);
	protobuf_c_message_free_unpacked(&a->base, NULL);
}

TEST(plugins_of_several_tasks_are_the_allocations_each_by_its_id)
{
	Holdfast__V1__Allocation *a =
		alloc("name = \"csi\"\ntask \"one\" {\n  driver = \"container\"\n"
		      "  csi_plugin {\n    id = \"ebs\"\n    type = \"monolith\"\n  }\n}\n"
		      "task \"two\" {\n  driver = \"container\"\n"
		      "  csi_plugin {\n    id = \"nfs\"\n    type = \"node\"\n"
		      "    mount_dir = \"/run/csi\"\n  }\n}\n");

	assert_string_equal(a->csi_plugin->id, "ebs");
	assert_int_equal(a->n_more_csi_plugins, 1);
	assert_string_equal(a->more_csi_plugins[0]->id, "nfs");
	assert_int_equal(a->more_csi_plugins[0]->type, HOLDFAST__V1__CSI_PLUGIN_TYPE__CSI_PLUGIN_TYPE_NODE);
	assert_string_equal(a->tasks[0]->csi_plugin->id, "ebs");
	assert_string_equal(a->tasks[1]->csi_plugin->id, "nfs");
	assert_string_equal(a->tasks[1]->csi_plugin->destination, "/run/csi");
	protobuf_c_message_free_unpacked(&a->base, NULL);
	a = alloc("name = \"csi\"\ncsi_plugin {\n  id = \"ebs\"\n}\ncsi_plugin {\n  id = \"nfs\"\n}\n");
	assert_string_equal(a->csi_plugin->id, "ebs");
	assert_int_equal(a->n_more_csi_plugins, 1);
	assert_string_equal(a->more_csi_plugins[0]->id, "nfs");
	protobuf_c_message_free_unpacked(&a->base, NULL);
}

TEST(a_task_has_its_drivers_own_keys_by_their_types)
{
	Holdfast__V1__Allocation *a = alloc(
		"name = \"web\"\ntask \"server\" {\n  driver = \"container\"\n  user = \"www\"\n"
		"  env {\n    A = \"1\"\n    B = \"2\"\n  }\n"
		"  volume_mount {\n    volume = \"data\"\n    destination = \"/srv\"\n    read_only = true\n"
		"    propagation = \"host-to-task\"\n  }\n"
		"  resources {\n    memory = \"64MiB\"\n    pids = 10\n  }\n"
		"  restart {\n    mode = \"on-failure\"\n    attempts = 3\n  }\n"
		"  health {\n    argv = [\"/bin/true\"]\n    interval = \"5s\"\n  }\n"
		"  network = \"none\"\n  stop_signal = \"SIGINT\"\n  stop_timeout = \"3s\"\n"
		"  logs {\n    disabled = true\n  }\n"
		"  config {\n    image = \"i:1\"\n    command = [\"/bin/a\", \"b\"]\n    privileged = false\n"
		"    shares = 7\n    labels = { x = \"y\" }\n  }\n}\n");
	const Holdfast__Driver__V1__TaskConfig *task;

	assert_int_equal(a->n_tasks, 1);
	task = a->tasks[0];
	assert_string_equal(task->task, "server");
	assert_string_equal(task->driver, "container");
	assert_string_equal(task->user, "www");
	assert_int_equal(task->n_env, 2);
	assert_string_equal(task->env[1]->key, "B");
	assert_string_equal(task->env[1]->value, "2");
	assert_string_equal(task->volumes[0]->volume, "data");
	assert_string_equal(task->volumes[0]->destination, "/srv");
	assert_true(task->volumes[0]->read_only);
	assert_int_equal(task->volumes[0]->propagation,
			 HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK);
	assert_int_equal(task->resources->memory_bytes, 64 << 20);
	assert_int_equal(task->resources->pids, 10);
	assert_int_equal(task->restart->attempts, 3);
	assert_string_equal(task->health->argv[0], "/bin/true");
	assert_int_equal(task->health->interval_ms, 5000);
	assert_int_equal(task->network, HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE);
	assert_int_equal(task->stop_timeout_ms, 3000);
	assert_true(task->disable_logs);
	assert_int_equal(task->n_config, 5);
	assert_string_equal(task->config[0]->text, "i:1");
	assert_int_equal(task->config[1]->n_list, 2);
	assert_string_equal(task->config[1]->list[1], "b");
	assert_false(task->config[2]->flag);
	assert_int_equal(task->config[3]->number, 7);
	assert_string_equal(task->config[4]->map[0]->value, "y");
	protobuf_c_message_free_unpacked(&a->base, NULL);
}

#define TOPOLOGIES                                                                     \
	"  required {\n    topology { segments { \"rack\" = \"R1\" } }\n"              \
	"    topology { segments { \"rack\" = \"R2\", \"zone.x/y\" = \"a\" } }\n  }\n" \
	"  preferred {\n    topology { segments { rack = \"R1\" } }\n  }\n"

/* As in the documentation of Nomad's volume files, but for its expressions. */
TEST(a_volume_file_of_nomad_is_read_whole)
{
	static const char text[] =
		"id = \"ebs_prod_db1\"\nnamespace = \"default\"\nname = \"database\"\ntype = \"csi\"\n"
		"plugin_id = \"ebs-prod\"\ncapacity_max = \"200G\"\ncapacity_min = \"100 MiB\"\n"
		"snapshot_id = \"snap-12345\"\nclone_id = \"c1\"\n"
		"capability {\n  access_mode = \"single-node-reader-only\"\n  attachment_mode = "
		"\"file-system\"\n}\n"
		"capability {\n  access_mode = \"single-node-writer\"\n  attachment_mode = "
		"\"block-device\"\n}\n"
		"mount_options {\n  fs_type = \"ext4\"\n  mount_flags = [\"noatime\", \"x\"]\n}\n"
		"topology_request {\n" TOPOLOGIES "}\n"
		"secrets {\n  example_secret = \"xy=zzy\"\n}\n"
		"parameters {\n  skuname = \"Premium_LRS\"\n}\n"
		"context {\n  endpoint = \"http://192.168.1.101:9425\"\n}\n";
	Holdfast__V1__Volume *v = volume(text);

	assert_int_equal(v->type, HOLDFAST__V1__VOLUME_TYPE__CSI);
	assert_int_equal(v->capacity_max, UINT64_C(200000000000));
	assert_int_equal(v->capacity_min, 100 << 20);
	assert_string_equal(v->snapshot_id, "snap-12345");
	assert_string_equal(v->clone_id, "c1");
	assert_int_equal(v->n_requested_capabilities, 2);
	assert_string_equal(v->mount_options->fs_type, "ext4");
	assert_int_equal(v->mount_options->n_mount_flags, 2);
	assert_string_equal(v->mount_options->mount_flags[1], "x");
	assert_int_equal(v->n_secrets, 1);
	assert_string_equal(v->secrets[0]->key, "example_secret");
	assert_string_equal(v->secrets[0]->value, "xy=zzy");
	assert_string_equal(v->parameters[0]->value, "Premium_LRS");
	assert_string_equal(v->context[0]->key, "endpoint");
	assert_int_equal(v->topology_request->n_required, 2);
	assert_int_equal(v->topology_request->n_preferred, 1);
	assert_int_equal(v->topology_request->required[1]->n_segments, 2);
	assert_string_equal(v->topology_request->required[1]->segments[1]->key, "zone.x/y");
	protobuf_c_message_free_unpacked(&v->base, NULL);
}

TEST(the_same_is_read_from_json)
{
	Holdfast__V1__Volume *v = volume(
		"{\"id\": \"a\", \"type\": \"csi\", \"capacity_min\": 1024, \"capacity_max\": \"2KiB\","
		"\"capability\": {\"access_mode\": \"single-node-writer\"},"
		"\"mount_options\": {\"mount_flags\": [\"a\"]}, \"secrets\": {\"k\": \"v\"},"
		"\"topology_request\": {\"required\": [{\"segments\": {\"a\": \"b\"}}],"
		" \"preferred\": {\"topology\": [{\"segments\": {\"c\": \"d\"}}]}}}");

	assert_int_equal(v->capacity_min, 1024);
	assert_int_equal(v->capacity_max, 2048);
	assert_string_equal(v->secrets[0]->value, "v");
	assert_string_equal(v->topology_request->required[0]->segments[0]->value, "b");
	assert_string_equal(v->topology_request->preferred[0]->segments[0]->key, "c");
	protobuf_c_message_free_unpacked(&v->base, NULL);
}

TEST(secrets_come_from_a_file_beside_the_volume)
{
	char path[] = "/tmp/cli-secrets-XXXXXX";
	static const char good[] = "user = \"a\"\npassword = \"p\"\n";
	static const char bad[] = "user = \"a\"\n password = 1234567\n";
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
	assert_int_equal(spec_volume_below(conf, "/tmp/", &v, &err), STATUS_OK);
	assert_int_equal(v->n_secrets, 2);
	assert_string_equal(v->secrets[1]->value, "p");
	protobuf_c_message_free_unpacked(&v->base, NULL);
	conf_free(conf);
	assert_int_equal(file_write_atomic(path, 0600, bad, strlen(bad)), 0);
	conf = parse(text);
	assert_int_equal(spec_volume_below(conf, "/tmp/", &v, &err), STATUS_INVALID_ARGUMENT);
	assert_non_null(strstr(err.msg, ":2: the value of 'password' must be a text in quotes"));
	assert_null(strstr(err.msg, "1234567"));
	conf_free(conf);
	(void)unlink(path);
	conf = parse(text);
	assert_int_equal(spec_volume_below(conf, "/tmp/", &v, &err), STATUS_NOT_FOUND);
	conf_free(conf);
}

TEST(the_examples_are_specifications)
{
	Holdfast__V1__Volume *v = volume(example_csi);

	assert_int_equal(v->type, HOLDFAST__V1__VOLUME_TYPE__CSI);
	assert_int_equal(v->capacity_min, UINT64_C(10) << 30);
	protobuf_c_message_free_unpacked(&v->base, NULL);
	v = volume(example_native);
	assert_int_equal(v->type, HOLDFAST__V1__VOLUME_TYPE__NATIVE);
	protobuf_c_message_free_unpacked(&v->base, NULL);
}

TEST(mistakes_in_volumes_have_file_and_line)
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
		{"source {}\nsource {}", "s.hcl:1: there are 2 blocks 'source', and there can be one"},
		{"id = \"x\"\nmount_options {\n fstype = \"x\"\n}",
		 "s.hcl:3: unknown key 'fstype', did you mean 'fs_type'?"},
		{"secrets {\n a = 7\n}", "s.hcl:2: the value of 'a' must be a text in quotes"},
		{"secrets = \"hush\"", "s.hcl:1: 'secrets' must be a block: NAME { \"KEY\" = \"VALUE\" }"},
		{"secrets {}\nsecrets_file = \"x\"",
		 "s.hcl:2: 'secrets' and 'secrets_file' exclude each other"},
		{"secrets_file = 4", "s.hcl:1: 'secrets_file' must be the name of a file"},
		{"{\n\"id\": \"x\",\n\"capacity_min\": \"1 apple\"}",
		 "s.hcl:3: 'capacity_min' must be a size: a number of bytes, \"10GiB\" (powers of 1024) or "
		 "\"10G\" (powers of 1000)"},
		{"capacity_max = \"9223372036854775808\"",
		 "s.hcl:1: 'capacity_max' must be a size: a number of bytes, \"10GiB\" (powers of 1024) or "
		 "\"10G\" (powers of 1000)"},
		{"capacity_max = -1",
		 "s.hcl:1: 'capacity_max' must be a size: a number of bytes, \"10GiB\" (powers of 1024) or "
		 "\"10G\" (powers of 1000)"},
		{"topology_request {\n required {\n topologies {}\n }\n}",
		 "s.hcl:3: unknown key 'topologies', did you mean 'topology'?"},
		{"topology_request {\n required { topology { segment { a = \"b\" } } }\n}",
		 "s.hcl:2: unknown key 'segment', did you mean 'segments'?"},
		{"topology_request { need {} }", "s.hcl:1: unknown key 'need'"},
	};

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

TEST(mistakes_in_allocations_have_file_and_line)
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
		{"csi_plugin {\n  id = \"a\"\n  mount_dir = \"/csi\"\n}",
		 "s.hcl:3: 'mount_dir' belongs into a block: task \"NAME\" { csi_plugin { } }"},
		{"csi_plugin {\n  id = \"a\"\n}\ncsi_plugin {\n  typ = \"a\"\n}",
		 "s.hcl:5: unknown key 'typ', did you mean 'type'?"},
		{"csi_plugin {\n  id = \"a\"\n}\ntask \"a\" {\n  csi_plugin {\n    typ = \"node\"\n  }\n}",
		 "s.hcl:6: unknown key 'typ', did you mean 'type'?"},
		{"task \"a\" {\n  csi_plugin {\n    typ = \"node\"\n  }\n}",
		 "s.hcl:3: unknown key 'typ', did you mean 'type'?"},
		{"task \"a\" {\n  csi_plugin {\n    mount_dir = 5\n  }\n}",
		 "s.hcl:3: 'mount_dir' must be a text: an absolute path"},

		{"csi_plugin {\n  type = \"nodes\"\n}",
		 "s.hcl:2: type: 'nodes' is unknown, use one of: controller, node, monolith"},
		{"csi_plugin {\n  health_timeout = 30\n}",
		 "s.hcl:2: 'health_timeout' must be a duration: \"30s\", \"5m\""},
		{"csi_plugin {\n  health_timeout = \"1us\"\n}",
		 "s.hcl:2: 'health_timeout' must be a duration: \"30s\", \"5m\""},
		{"csi_plugin {\n  health_timeout = \"0s\"\n}",
		 "s.hcl:2: 'health_timeout' must be a duration: \"30s\", \"5m\""},
		{"task \"a\" {\n  image = \"x\"\n}", "s.hcl:2: unknown key 'image'"},
		{"task \"a\" {\n  logs = true\n}", "s.hcl:2: 'logs' must be a block: NAME { }"},
		{"task \"a\" {\n  logs {\n    disable = true\n  }\n}",
		 "s.hcl:3: unknown key 'disable', did you mean 'disabled'?"},
		{"task \"a\" {\n  logs {\n    disabled = \"yes\"\n  }\n}",
		 "s.hcl:3: 'disabled' must be true or false"},
		{"task = 5", "s.hcl:1: 'task' must be a block: task \"NAME\" { }"},
		{"task \"a\" {\n  config {\n    x = [1, 2]\n  }\n}",
		 "s.hcl:3: 'x' must be a text, a number, true or false, a list of texts, or a block of "
		 "texts"},
		{"task \"a\" {\n  env {\n    x = 1\n  }\n}",
		 "s.hcl:3: the value of 'x' must be a text in quotes"},
		{"csi_plugin = 5", "s.hcl:1: 'csi_plugin' must be a block: NAME { }"},
		{"volume \"a\" {\n  propagation = \"shared\"\n}",
		 "s.hcl:2: propagation: 'shared' is unknown, use one of: private, host-to-task, "
		 "bidirectional"},
	};

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
