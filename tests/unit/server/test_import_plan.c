/* SPDX-License-Identifier: Apache-2.0 */
/* `job import` of the files of FOLDER, each output then sent through `job plan` of a server whose nodes have
 * a driver of containers. */

#include "cluster.h"

#include "base/fd.h"
#include "base/str.h"
#include "call/spec.h"
#include "nomad/import.h"

#include <glob.h>
#include <holdfast/v1/jobs.pb-c.h>
#include <limits.h>

enum { PLANNED_MIN = 13, NODES = 3 };

typedef Holdfast__V1__PlanJobResponse plan_t;

/* Nodes with a driver that offers all, as root's file may. */
static void connect_drivers(struct fixture *f, struct fake_node *nodes)
{
	static Holdfast__Driver__V1__NetworkMode modes[] = {
		HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST,
		HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_NONE,
		HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED};
	static Holdfast__Driver__V1__MountPropagation propagation[] = {
		HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE,
		HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK,
		HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL};
	Holdfast__V1__NodeDriver driver = HOLDFAST__V1__NODE_DRIVER__INIT, *drivers[] = {&driver};
	Holdfast__Driver__V1__CapabilitiesResponse offer = HOLDFAST__DRIVER__V1__CAPABILITIES_RESPONSE__INIT;
	Holdfast__Driver__V1__KeyValue pairs[] = {HOLDFAST__DRIVER__V1__KEY_VALUE__INIT,
						  HOLDFAST__DRIVER__V1__KEY_VALUE__INIT};
	Holdfast__Driver__V1__KeyValue *attributes[] = {&pairs[0], &pairs[1]};
	char cert[16], name[] = "container", texts[][17] = {"attr.kernel.name", "linux", "meta.rack", "r1"};

	for (size_t i = 0; i < ARRAY_SIZE(pairs); i++) {
		pairs[i].key = texts[2 * i];
		pairs[i].value = texts[2 * i + 1];
	}
	offer.network_modes = modes;
	offer.n_network_modes = ARRAY_SIZE(modes);
	offer.mount_propagation = propagation;
	offer.n_mount_propagation = ARRAY_SIZE(propagation);
	offer.csi_plugins = offer.disable_log_collection = true;
	offer.restart_tasks = offer.health_checks = true;
	driver.name = name;
	driver.healthy = true;
	driver.capabilities = &offer;
	for (size_t i = 0; i < NODES; i++) {
		(void)str_format(cert, sizeof(cert), "node-n%zu", i + 1);
		fake_node_init(&nodes[i], f->event, f->dir, cert, f->port);
		nodes[i].drivers = drivers;
		nodes[i].n_drivers = 1;
		nodes[i].attributes = attributes;
		nodes[i].n_attributes = ARRAY_SIZE(attributes);
		fake_node_connect(&nodes[i], cert + strlen("node-"), BOOT_1, NULL, 0);
		nodes[i].n_drivers = nodes[i].n_attributes = 0;
	}
}

/* The job of a file; NULL: a key of it was refused. */
static Holdfast__V1__Job *import_job(const char *path)
{
	json_t *values = json_pack("{ss}", "tag", "5"); /* of the one file without default */
	struct nomad_import import = {.text = NULL};
	struct conf *conf = NULL;
	struct error err = {.msg = ""};
	Holdfast__V1__Job *job = NULL;
	cleanup_free char *text = NULL;
	size_t n;

	assert_true(file_read(path, CONF_SIZE_MAX, &text, &n) >= 0);
	assert_int_equal(conf_parse_whole(text, "s.hcl", CONF_EXPRESSIONS, &conf, &err), STATUS_OK);
	assert_int_equal(nomad_import(conf, values, &import, &err), STATUS_OK);
	conf_free(conf);
	conf = NULL;
	if (import.n_refused == 0 &&
	    (conf_parse_whole(import.text, "out.hcl", CONF_REFERENCES, &conf, &err) != STATUS_OK ||
	     spec_job(conf, &job, &err) != STATUS_OK))
		fail_msg("%s: %s", path, err.msg);
	conf_free(conf);
	nomad_import_release(&import);
	json_decref(values);
	return job;
}

static plan_t *plan(struct fixture *f, const char *path, Holdfast__V1__Job *job)
{
	Holdfast__V1__PlanJobRequest request = V1(plan_job_request, .job = job);
	ProtobufCMessage *answer = NULL;
	struct error err;

	if (call(&f->operator, & holdfast__v1__jobs__descriptor, "Plan", &request.base, &answer, &err) !=
	    STATUS_OK)
		fail_msg("%s: %s", path, err.msg);
	return (plan_t *)(void *)answer;
}

/* Each member that waits does so for a volume that is not registered. */
static void expect_waits(const char *path, const plan_t *answer)
{
	for (size_t i = 0; i < answer->n_waits; i++)
		if (!strstr(answer->waits[i]->text, "; register it: holdfast volume register FILE"))
			fail_msg("%s: %s", path, answer->waits[i]->text);
}

/* With the modes that the job asks for. A volume that another job registered gets them in addition. */
static void register_one(struct fixture *f, const char *namespace, const char *id,
			 const Holdfast__V1__VolumeRequest *request)
{
	cleanup(change_release) struct change change = CHANGE_INIT;
	struct volume volume = {
		.type = VOLUME_NATIVE,
		.plugin_id = PLUGIN_NATIVE,
		.profile = "disk",
		.capabilities = {{(enum access_mode)request->access_mode, ATTACHMENT_FILE_SYSTEM}},
		.n_capabilities = 1,
		.create_time_ms = 1,
		.modify_time_ms = 1,
	};

	(void)str_copy(volume.namespace, sizeof(volume.namespace), namespace);
	(void)str_copy(volume.id, sizeof(volume.id), id);
	(void)str_copy(volume.name, sizeof(volume.name), id);
	volume.source.class = SOURCE_BLOCK;
	(void)str_copy(volume.source.by_id, sizeof(volume.source.by_id), id);
	change_put_volume(&change, &volume);
	assert_int_equal(change_commit(f->server, &change, NULL, NULL, NULL), STATUS_OK);
}

static bool is_per_alloc(const Holdfast__V1__JobGroup *group, const char *name)
{
	for (size_t i = 0; i < group->n_per_alloc; i++)
		if (str_eq(group->per_alloc[i], name))
			return true;
	return false;
}

static void register_volumes(struct fixture *f, const Holdfast__V1__Job *job)
{
	const char *namespace = job->namespace_[0] ? job->namespace_ : "default";

	for (size_t g = 0; g < job->n_groups; g++)
		for (size_t i = 0; i < job->groups[g]->allocation->n_volumes; i++) {
			const Holdfast__V1__JobGroup *group = job->groups[g];
			const Holdfast__V1__VolumeRequest *request = group->allocation->volumes[i];

			for (uint32_t k = 0; k < group->count; k++) {
				char id[VOLUME_ID_MAX + 1];

				(void)str_format(id, sizeof(id),
						 is_per_alloc(group, request->name) ? "%s[%u]" : "%s",
						 request->source, k);
				register_one(f, namespace, id, request);
			}
		}
}

static void see_file(struct fixture *f, const char *path, Holdfast__V1__Job *job)
{
	plan_t *answer = plan(f, path, job);
	size_t n = answer->n_actions + answer->n_waits;

	assert_true(n > 0);
	expect_waits(path, answer);
	holdfast__v1__plan_job_response__free_unpacked(answer, NULL);
	register_volumes(f, job);
	answer = plan(f, path, job);
	assert_msg(answer->n_waits <= 0 && answer->n_actions == n, "%s: %zu of %zu are placed: %s", path,
		   answer->n_actions, n, answer->n_waits > 0 ? answer->waits[0]->text : "");
	holdfast__v1__plan_job_response__free_unpacked(answer, NULL);
}

TEST_ON(every_member_of_an_imported_file_is_placed_by_a_plan_once_its_volumes_are_registered, struct fixture,
	f, setup_hundred, teardown)
{
	static struct fake_node nodes[NODES];
	size_t n_planned = 0;
	glob_t files;

	connect_drivers(f, nodes);
	assert_int_equal(glob(FOLDER "/*.nomad.hcl", 0, NULL, &files), 0);
	for (size_t i = 0; i < files.gl_pathc; i++) {
		cleanup_pb Holdfast__V1__Job *job = import_job(files.gl_pathv[i]);

		if (!job)
			continue;
		see_file(f, files.gl_pathv[i], job);
		n_planned++;
	}
	globfree(&files);
	for (size_t i = 0; i < NODES; i++)
		fake_node_release(&nodes[i]);
	assert_true(n_planned >= PLANNED_MIN);
}
