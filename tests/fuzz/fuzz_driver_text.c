/* SPDX-License-Identifier: Apache-2.0 */
/* From an order to what an engine reads: the input is a packed TaskConfig, or texts that are put into each
 * field of one. Of a task that the driver takes, no text in the request has a character at which an engine
 * splits, and what is asked for is what was ordered. The answer of a lying engine, which is the rest of the
 * input, is compared with it. */

#include "container.h"
#include "podman_spec.h"
#include "readback.h"
#include "task_spec.h"

#include "base/cleanup.h"
#include "base/path.h"
#include "base/str.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define ALLOC "0190a6f2-0000-7000-8000-000000000001"

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct settings settings;
static const struct container_order made_by = {.nonce = "00ff", .boot_id = "b"};

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	static const char text[] =
		"cluster = \"prod\"\nnode_id = \"node-1\"\nengine = \"/run/engine.sock\"\nusers = "
		"[\"image\"]\n"
		"ticket_keys = [\"8a88e3dd7409f195fd52db2d3cba5d72ca6709bf1d94121bf3748801b40f6f5c\"]\n";

	if (settings_parse(text, "driver.hcl", &settings, NULL) != STATUS_OK)
		abort();
	return 0;
}

static const char *text_at(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));

	return text ? text : "";
}

static void assert_plain(const char *text)
{
	for (const char *c = text; *c; c++)
		assert(*c > ' ' && *c < 0x7f && !strchr(",\"'=\\`$*?", *c));
}

static void assert_path(const char *text)
{
	assert_plain(text);
	assert(path_is_normal(text) && strlen(text) < 256 + sizeof(ALLOC) + sizeof(settings.publish_dir));
	assert(!strchr(text, ':'));
}

static void check_request(const json_t *body, const Holdfast__Driver__V1__TaskConfig *task)
{
	const json_t *mounts = json_object_get(json_object_get(body, "HostConfig"), "Mounts");
	const json_t *mount;
	size_t i;

	json_array_foreach (mounts, i, mount) {
		assert_path(text_at(mount, "Source"));
		assert_path(text_at(mount, "Target"));
	}
	for (i = 0; i < task->n_volumes; i++)
		assert(str_eq(text_at(json_array_get(mounts, i), "Target"), task->volumes[i]->destination));
	assert_plain(text_at(body, "User"));
	assert_plain(text_at(body, "Image"));
	assert_plain(text_at(body, "Hostname"));
	assert_plain(text_at(body, "StopSignal"));
	assert_plain(text_at(body, "WorkingDir"));
	for (i = 0; i < task->n_env; i++)
		assert_plain(task->env[i]->key);
}

/* Whatever an engine or a kernel says is compared without harm. */
static void compare(json_t *body, const uint8_t *data, size_t size)
{
	struct readback_users users = {.n = 1, .never = {64997}};
	struct readback *readback = NULL;
	struct readback_fault fault;
	char *text = malloc(size + 1);
	json_t *answer = json_loadb((const char *)data, size, 0, NULL);

	if (size > 0)
		memcpy(text, data, size);
	text[size] = '\0';
	if (readback_new("/proc/self/mountinfo", "/run/publish", body, false, &readback, NULL) == STATUS_OK) {
		(void)readback_inspect(readback, answer, &fault);
		(void)readback_rights(readback, text, &users, &fault);
		(void)readback_limit(readback, "Memory", text, &fault);
	}
	readback_free(readback);
	json_decref(answer);
	free(text);
}

static void judge(const Holdfast__Driver__V1__TaskConfig *task, const uint8_t *rest, size_t n_rest)
{
	struct task_spec spec;
	json_t *body, *request;

	if (task_spec_read(task, &spec, NULL) != STATUS_OK)
		return;
	body = container_of_task(&settings, &spec, &made_by, NULL);
	if (!body)
		return;
	check_request(body, task);
	compare(body, rest, n_rest);
	request = podman_spec_of(body, "web", NULL);
	assert(request); /* it knows each member */
	json_decref(request);
	json_decref(body);
}

/* The text in every field that an engine reads. */
static void judge_text(char *text, const uint8_t *rest, size_t n_rest)
{
	Holdfast__Driver__V1__TaskConfig task = HOLDFAST__DRIVER__V1__TASK_CONFIG__INIT;
	Holdfast__Driver__V1__VolumeMount volume = HOLDFAST__DRIVER__V1__VOLUME_MOUNT__INIT;
	Holdfast__Driver__V1__VolumeMount *volumes[] = {&volume};
	Holdfast__Driver__V1__ConfigValue values[3];
	Holdfast__Driver__V1__ConfigValue *config[] = {&values[0], &values[1], &values[2]};
	char *const fields[] = {(char[]){"image"}, (char[]){"work_dir"}, (char[]){"hostname"}};
	char image[] = "a:1", destination[] = "/data", nothing[] = "";

	task.alloc_id = (char[]){ALLOC};
	task.task = (char[]){"web"};
	task.driver = (char[]){"container"};
	volume.volume = (char[]){"vol"};
	for (size_t field = 0; field < 5; field++) {
		for (size_t i = 0; i < ARRAY_SIZE(values); i++) {
			holdfast__driver__v1__config_value__init(&values[i]);
			values[i].key = fields[i];
			values[i].text = field == i ? text : i == 0 ? image : nothing;
		}
		task.config = config;
		task.n_config = ARRAY_SIZE(values);
		volume.destination = field == 3 ? text : destination;
		task.volumes = volumes;
		task.n_volumes = 1;
		task.user = field == 4 ? text : nothing;
		judge(&task, rest, n_rest);
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	Holdfast__Driver__V1__TaskConfig *task;
	const uint8_t *end = memchr(data, 0, size);
	size_t n = end ? (size_t)(end - data) : size;
	char *text = malloc(n + 1);

	if (n > 0)
		memcpy(text, data, n);
	text[n] = '\0';
	judge_text(text, data + n + (end != NULL), size - n - (end != NULL));
	free(text);
	task = holdfast__driver__v1__task_config__unpack(NULL, size, data);
	if (task) {
		judge(task, data, size);
		holdfast__driver__v1__task_config__free_unpacked(task, NULL);
	}
	return 0;
}
