/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"

#include "model/alloc_validate.h"
#include "model/order.h"
#include "model/reference.h"
#include "model/task.h"
#include "model/task_mounts.h"

/* An allocation with volumes data and logs, whose tasks a test changes before they are put in. */
struct work {
	struct alloc alloc;
	Holdfast__Driver__V1__TaskConfig tasks[2];
	Holdfast__Driver__V1__VolumeMount mounts[2], *list[2];
	size_t n;
};

static char text_of[32][64];

static char *text(const char *s)
{
	static unsigned int next;
	char *at = text_of[next++ % ARRAY_SIZE(text_of)];

	(void)str_copy(at, sizeof(text_of[0]), s);
	return at;
}

static void make(struct work *w)
{
	*w = (struct work){.alloc = an_alloc(ALLOC_1, "n1"), .n = 1};
	w->alloc.volumes[1] = w->alloc.volumes[0];
	(void)str_copy(w->alloc.volumes[1].name, sizeof(w->alloc.volumes[1].name), "logs");
	(void)str_copy(w->alloc.volumes[1].source, sizeof(w->alloc.volumes[1].source), "log-volume");
	w->alloc.volumes[1].propagation = PROPAGATION_HOST_TO_TASK;
	w->alloc.n_volumes = 2;
	for (size_t i = 0; i < 2; i++) {
		holdfast__driver__v1__task_config__init(&w->tasks[i]);
		w->tasks[i].task = text(i == 0 ? "web" : "sidecar");
		w->tasks[i].driver = text("container");
		holdfast__driver__v1__volume_mount__init(&w->mounts[i]);
		w->mounts[i].volume = text(i == 0 ? "data" : "logs");
		w->mounts[i].destination = text(i == 0 ? "/data" : "/var/log");
		w->list[i] = &w->mounts[i];
	}
	w->tasks[0].volumes = w->list;
	w->tasks[0].n_volumes = 2;
}

static enum status judge(struct work *w, struct error *err)
{
	ProtobufCMessage *list[] = {&w->tasks[0].base, &w->tasks[1].base};
	enum status status;

	assert_true(message_list_new(list, w->n, &w->alloc.tasks));
	status = alloc_validate(&w->alloc, err);
	message_list_unref(w->alloc.tasks);
	w->alloc.tasks = NULL;
	return status;
}

static void twice(struct work *w)
{
	w->n = 2;
	w->tasks[1].task = text("web");
}
static Holdfast__Driver__V1__CsiPluginMount *plugin_mount(const char *destination)
{
	static Holdfast__Driver__V1__CsiPluginMount mounts[4];
	static size_t n;
	Holdfast__Driver__V1__CsiPluginMount *mount = &mounts[n++ % ARRAY_SIZE(mounts)];

	holdfast__driver__v1__csi_plugin_mount__init(mount);
	mount->destination = text(destination);
	return mount;
}
static struct csi_plugin plugins[2];

static void a_plugin_of_no_task(struct work *w)
{
	plugins[0] = (struct csi_plugin){.id = "ebs", .type = CSI_PLUGIN_NODE};
	w->alloc.plugins = plugins;
	w->alloc.n_plugins = 1;
}
static void two_plugins(struct work *w)
{
	a_plugin_of_no_task(w);
	w->n = 2;
	w->tasks[0].csi_plugin = w->tasks[1].csi_plugin = plugin_mount("");
}
/* Two plugins, ebs and nfs, in two tasks. */
static void a_plugin_each(struct work *w)
{
	two_plugins(w);
	plugins[1] = (struct csi_plugin){.id = "nfs", .type = CSI_PLUGIN_NODE, .socket = "n.sock"};
	w->alloc.n_plugins = 2;
	w->tasks[1].csi_plugin = plugin_mount("/run/nfs");
	w->tasks[0].csi_plugin->id = text("ebs");
	w->tasks[1].csi_plugin->id = text("nfs");
}
static void a_plugin_of_another_name(struct work *w)
{
	a_plugin_of_no_task(w);
	w->tasks[0].csi_plugin = plugin_mount("");
	w->tasks[0].csi_plugin->id = text("nfs");
}
static void alloc_id(struct work *w)
{
	w->tasks[0].alloc_id = text(ALLOC_1);
}
static Holdfast__Driver__V1__KeyValue *pair(const char *key, const char *value)
{
	static Holdfast__Driver__V1__KeyValue one;

	holdfast__driver__v1__key_value__init(&one);
	one.key = text(key);
	one.value = text(value);
	return &one;
}
static void all_of_the_hosts(struct work *w)
{
	static Holdfast__Driver__V1__KeyValue *env[1];

	env[0] = pair("LD_*", "");
	w->tasks[0].env = env;
	w->tasks[0].n_env = 1;
}
static Holdfast__Driver__V1__ConfigValue *config(struct work *w, const char *key)
{
	static Holdfast__Driver__V1__ConfigValue value, *list[1];

	holdfast__driver__v1__config_value__init(&value);
	value.key = text(key);
	list[0] = &value;
	w->tasks[0].config = list;
	w->tasks[0].n_config = 1;
	return &value;
}
static void a_host_path_with_more(struct work *w)
{
	static Holdfast__Driver__V1__KeyValue *map[1];

	map[0] = pair("/srv", "/srv,rw");
	config(w, "host_paths")->map = map;
	w->tasks[0].config[0]->n_map = 1;
}
static void too_long(struct work *w)
{
	static char user[TASK_BYTES_MAX + 1];

	memset(user, 'u', TASK_BYTES_MAX);
	w->tasks[0].user = user;
}
static void a_spec(struct work *w)
{
	static Holdfast__Driver__V1__NetworkSpec spec = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;

	w->tasks[0].network_spec = &spec;
}

/* The work with one mistake: what its refusal says. */
static void expect_mistake(struct work *w, const char *says)
{
	struct error err;

	assert_int_equal(judge(w, &err), STATUS_INVALID_ARGUMENT);
	assert_msg(strstr(err.msg, says), "'%s' is not in: %s", says, err.msg);
}

/* Statements without a loop around them, which would count as branches of the case. */
#define MISTAKE(says, statement) \
	make(&w);                \
	statement;               \
	expect_mistake(&w, says)

TEST(each_mistake_in_a_task_is_named_with_it)
{
	struct work w;

	make(&w);
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	w.n = 2;
	w.alloc.n_volumes = 2;
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	MISTAKE("task web: it is given twice", twice(&w));
	MISTAKE("task Web: a task's name is 1 to 63 of a-z 0-9 and -", w.tasks[0].task = text("Web"));
	MISTAKE("task web: driver '' is not the name of a task driver", w.tasks[0].driver = text(""));
	MISTAKE("task web: driver 'none' is not the name of a task driver", w.tasks[0].driver = text("none"));
	MISTAKE("driver: \"systemd\" contradicts the task blocks",
		(void)str_copy(w.alloc.driver, sizeof(w.alloc.driver), DRIVER_SYSTEMD);
		w.alloc.unit = text("db.service"));
	MISTAKE("csi_plugin: 'ebs' contradicts the task blocks: write it into the task",
		a_plugin_of_no_task(&w));
	MISTAKE("csi_plugin: 'nfs' contradicts the task blocks", a_plugin_each(&w);
		w.tasks[1].csi_plugin = NULL);
	MISTAKE("task sidecar: csi_plugin: task web is plugin ebs already", a_plugin_each(&w);
		w.tasks[1].csi_plugin->id = text("ebs"));
	MISTAKE("task sidecar: csi_plugin has the id of one of the allocation's plugins (ebs, nfs)",
		a_plugin_each(&w);
		w.tasks[1].csi_plugin->id = text(""));
	MISTAKE("task web: csi_plugin has only the destination; id, type and socket",
		w.tasks[0].csi_plugin = plugin_mount(""));
	MISTAKE("task sidecar: csi_plugin: task web is plugin ebs already", two_plugins(&w));
	MISTAKE("task web: csi_plugin: mount_dir 'csi' is not an absolute path", a_plugin_of_no_task(&w);
		w.tasks[0].csi_plugin = plugin_mount("csi"));
	MISTAKE("task web: csi_plugin has only the destination", a_plugin_of_another_name(&w));
	MISTAKE("task web: csi_plugin has only the destination", a_plugin_of_no_task(&w);
		w.tasks[0].csi_plugin = plugin_mount(""); w.tasks[0].csi_plugin->mounts = true);
	MISTAKE("task web: the server sets alloc_id, job, namespace and network_spec; leave them out",
		alloc_id(&w));
	MISTAKE("task web: volume_mount of 'date': there is no such volume block",
		w.mounts[0].volume = text("date"));
	MISTAKE("task web: volume_mount of logs: the server sets slot", w.mounts[1].slot = 1);
	MISTAKE("task web: volume_mount of data contradicts its attachment_mode block-device",
		w.alloc.volumes[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE);
	MISTAKE("task web: volume_mount of data: destination 'data' is not an absolute path",
		w.mounts[0].destination = text("data"));
	MISTAKE("destination '/data/../etc' is not an absolute path",
		w.mounts[0].destination = text("/data/../etc"));
	MISTAKE("destination '/' is not an absolute path", w.mounts[0].destination = text("/"));
	MISTAKE("task web: destination /data is that of two volume mounts",
		w.mounts[1].destination = text("/data"));
	MISTAKE("volume_mount of logs: propagation is more than that of its volume block",
		w.mounts[1].propagation =
			HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL);
	MISTAKE("propagation is more than that of its volume block",
		w.mounts[1].propagation = (Holdfast__Driver__V1__MountPropagation)-1);
	MISTAKE("a text that is no UTF-8", w.tasks[0].user = text("\xff"));
	MISTAKE("at most 32768 are allowed", too_long(&w));
	MISTAKE("namespace and network_spec; leave them out", a_spec(&w));
	MISTAKE("task web: network contradicts the allocation's network block",
		w.alloc.network.mode = NETWORK_NONE;
		w.tasks[0].network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_HOST);
	MISTAKE("task web: network isolated is one of all tasks",
		w.tasks[0].network = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED);
	MISTAKE("network: contradicts an allocation without task blocks", w.alloc.network.mode = NETWORK_NONE;
		w.n = 0);
	MISTAKE("task web: destination '/data,source=/srv/secret' is not an absolute path outside",
		w.mounts[0].destination = text("/data,source=/srv/secret"));
	MISTAKE("task web: destination '/data\"' is not an absolute path",
		w.mounts[0].destination = text("/data\""));
	MISTAKE("task web: user '1000", w.tasks[0].user = text("1000\nroot"));
	MISTAKE("task web: env 'LD_*' is not the name of a variable", all_of_the_hosts(&w));
	MISTAKE("task web: work_dir '/proc/self/fd/7' is not an absolute path",
		config(&w, "work_dir")->text = text("/proc/self/fd/7"));
	MISTAKE("task web: host_paths '/srv,rw' is not an absolute path", a_host_path_with_more(&w));
	MISTAKE("stop_timeout of 86400001 ms is more than",
		w.tasks[0].stop_timeout_ms = TASK_STOP_TIMEOUT_MAX_MS + 1);
}

#define BIDIRECTIONAL HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_BIDIRECTIONAL

/* Volume data is bidirectional at @destination, of a task that can mount. */
static void mounting(struct work *w, const char *destination)
{
	static char *caps[1];
	Holdfast__Driver__V1__ConfigValue *value = config(w, "cap_add");

	caps[0] = text("CAP_SYS_ADMIN");
	value->list = caps;
	value->n_list = 1;
	w->alloc.volumes[0].propagation = PROPAGATION_BIDIRECTIONAL;
	w->mounts[0].propagation = BIDIRECTIONAL;
	w->mounts[0].destination = text(destination);
}

static void with_host_path(struct work *w, const char *inside)
{
	static Holdfast__Driver__V1__KeyValue *map[1];
	static Holdfast__Driver__V1__ConfigValue paths, *list[2];

	holdfast__driver__v1__config_value__init(&paths);
	map[0] = pair("/srv", inside);
	paths.key = text("host_paths");
	paths.map = map;
	paths.n_map = 1;
	list[0] = w->tasks[0].config[0];
	list[1] = &paths;
	w->tasks[0].config = list;
	w->tasks[0].n_config = 2;
}

TEST(a_bidirectional_mount_has_no_other_mount_within)
{
	static const char *const engine[] = {"/etc", "/etc",	 "/run",  "/run",
					     "/var", "/var/run", "/sbin", "/sbin"};
	struct work w;

	make(&w);
	mounting(&w, "/data");
	w.mounts[1].destination = text("/data2");
	with_host_path(&w, "/dat");
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	MISTAKE("destination /var/log/data is within /var/log, where a link could lead it into a mount that "
		"the host",
		mounting(&w, "/var/log/data"));
	MISTAKE("task web: destination /data/sub is within /data, which is bidirectional",
		mounting(&w, "/data");
		w.mounts[1].destination = text("/data/sub"));
	MISTAKE("mount it elsewhere, or use propagation host-to-task", mounting(&w, "/var"));
	MISTAKE("destination /data/srv is within /data", mounting(&w, "/data");
		with_host_path(&w, "/data/srv"));
	MISTAKE("destination /data is within /data", mounting(&w, "/data"); with_host_path(&w, "/data"));
	MISTAKE("destination /csi is within /csi", a_plugin_of_no_task(&w); mounting(&w, "/csi");
		w.tasks[0].csi_plugin = plugin_mount(""));
	MISTAKE("destination /data/csi is within /data", a_plugin_of_no_task(&w); mounting(&w, "/data");
		w.tasks[0].csi_plugin = plugin_mount("/data/csi"));
	for (size_t i = 0; i < ARRAY_SIZE(engine); i += 2) {
		make(&w);
		w.mounts[1].destination = text("/logs");
		mounting(&w, engine[i]);
		expect_mistake(&w, engine[i + 1]);
	}
}

/* The engine follows links of the image and of volumes, which these texts do not show. */
TEST(a_container_that_cannot_mount_has_no_bidirectional_mount)
{
	struct work w;

	MISTAKE("task web: destination /data is bidirectional, but the task cannot mount",
		mounting(&w, "/data");
		w.tasks[0].config[0]->list[0] = text("CAP_NET_RAW"));
	MISTAKE("use propagation host-to-task", mounting(&w, "/data"); w.tasks[0].n_config = 0);
	make(&w);
	mounting(&w, "/data");
	config(&w, "privileged")->flag = true;
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	w.tasks[0].n_config = 0;
	w.tasks[0].driver = text("other");
	assert_int_equal(judge(&w, NULL), STATUS_OK);
}

/* A task with both blocks; tests change what they are about. */
static void set_blocks(struct work *w, Holdfast__Driver__V1__RestartPolicy *restart,
		       Holdfast__Driver__V1__HealthCheck *health, char **argv)
{
	make(w);
	holdfast__driver__v1__restart_policy__init(restart);
	holdfast__driver__v1__health_check__init(health);
	restart->mode = HOLDFAST__DRIVER__V1__RESTART_MODE__RESTART_MODE_DELAY;
	restart->attempts = 3;
	restart->interval_ms = 60000;
	restart->delay_ms = 20000;
	argv[0] = text("/bin/check");
	health->argv = argv;
	health->n_argv = 1;
	w->tasks[0].restart = restart;
	w->tasks[0].health = health;
}

#define BLOCK_MISTAKE(message, change)                                      \
	do {                                                                \
		set_blocks(&w, &restart, &health, argv);                    \
		change;                                                     \
		assert_int_equal(judge(&w, &err), STATUS_INVALID_ARGUMENT); \
		assert_non_null(strstr(err.msg, message));                  \
	} while (0)

TEST(restart_and_health_of_a_task_are_within_their_limits)
{
	Holdfast__Driver__V1__RestartPolicy restart;
	Holdfast__Driver__V1__HealthCheck health;
	struct error err;
	struct work w;
	char *argv[1];

	set_blocks(&w, &restart, &health, argv);
	assert_int_equal(judge(&w, &err), STATUS_OK);
	BLOCK_MISTAKE("task web: restart: mode is fail, delay or never",
		      restart.mode = (Holdfast__Driver__V1__RestartMode)4);
	BLOCK_MISTAKE("restart: attempts is 1001, at most 1000", restart.attempts = 1001;
		      restart.delay_ms = 0);
	BLOCK_MISTAKE("restart: interval is 1s to 24h", restart.interval_ms = 999);
	BLOCK_MISTAKE("restart: interval is 1s to 24h", restart.delay_ms = 86400001);
	BLOCK_MISTAKE("restart: 3 attempts with a delay of 20001 ms do not fit", restart.delay_ms++);
	BLOCK_MISTAKE("task web: health: argv is a command", health.n_argv = 0);
	BLOCK_MISTAKE("health: argv is a command", argv[0] = text(""));
	BLOCK_MISTAKE("health: interval and timeout are 1s to 1h", health.interval_ms = 999);
	BLOCK_MISTAKE("health: interval and timeout are 1s to 1h", health.timeout_ms = 3600001);
	BLOCK_MISTAKE("health: retries is at most 1000", health.retries = 1001);
}

/* Another driver has its own meaning for these words. */
TEST(settings_of_another_driver_are_its_own)
{
	struct work w;

	make(&w);
	config(&w, "image")->text = text("/var/images/disk 1.qcow2");
	assert_int_equal(judge(&w, NULL), STATUS_INVALID_ARGUMENT);
	w.tasks[0].driver = text("qemu");
	assert_int_equal(judge(&w, NULL), STATUS_OK);
}

TEST(a_task_needs_no_volume)
{
	struct work w;

	make(&w);
	w.alloc.n_volumes = 0;
	w.tasks[0].n_volumes = 0;
	assert_int_equal(judge(&w, NULL), STATUS_OK);
}

TEST(a_driver_order_names_slots_labels_and_owner)
{
	cleanup_free uint8_t *bytes = NULL;
	cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
	char label[WIRE_VOLUME_SIZE];
	struct work w;
	size_t n;

	make(&w);
	w.alloc.volumes[1].read_only = true;
	w.mounts[1].propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_HOST_TO_TASK;
	assert_int_equal(alloc_pack_task(&w.alloc, &w.tasks[0], NULL, NULL, &bytes, &n, NULL), STATUS_OK);
	task = NON_NULL(holdfast__driver__v1__task_config__unpack(NULL, n, bytes));
	assert_true(order_is_canonical(&task->base, bytes, n));
	assert_string_equal(task->alloc_id, ALLOC_1);
	assert_string_equal(task->job, "app");
	assert_string_equal(task->namespace_, NAMESPACE_DEFAULT);
	assert_int_equal(task->volumes[0]->slot, 0);
	assert_false(task->volumes[0]->read_only);
	assert_int_equal(task->volumes[1]->slot, 1);
	assert_true(task->volumes[1]->read_only); /* as the volume is published */
	volume_wire_name(NAMESPACE_DEFAULT, "log-volume", label);
	assert_string_equal(task->volumes[1]->volume, label);
	assert_string_equal(w.mounts[1].volume, "logs"); /* what is at rest stays */
	assert_null(task->network_spec);
}

static const char *env_of(const Holdfast__Driver__V1__TaskConfig *task, const char *key)
{
	const char *found = NULL;

	for (size_t i = 0; i < task->n_env; i++) {
		if (!str_eq(task->env[i]->key, key))
			continue;
		assert_null(found); /* once */
		found = task->env[i]->value;
	}
	return found;
}

TEST(a_task_gets_identity_variables_unless_it_sets_them)
{
	Holdfast__Driver__V1__KeyValue own = HOLDFAST__DRIVER__V1__KEY_VALUE__INIT;
	Holdfast__Driver__V1__KeyValue *env[] = {&own};
	cleanup_free uint8_t *bytes = NULL;
	cleanup_free uint8_t *more = NULL;
	Holdfast__Driver__V1__TaskConfig *task;
	struct work w;
	size_t n;

	make(&w);
	own.key = text("HOLDFAST_NODE_ID");
	own.value = text("mine");
	w.tasks[0].env = env;
	w.tasks[0].n_env = 1;
	assert_int_equal(alloc_pack_task(&w.alloc, &w.tasks[0], NULL, NULL, &bytes, &n, NULL), STATUS_OK);
	task = holdfast__driver__v1__task_config__unpack(NULL, n, bytes);
	assert_string_equal(env_of(task, "HOLDFAST_NODE_ID"), "mine");
	assert_string_equal(env_of(task, "HOLDFAST_ALLOC_ID"), ALLOC_1);
	assert_string_equal(env_of(task, "HOLDFAST_TASK"), "web");
	assert_null(env_of(task, "HOLDFAST_JOB"));
	assert_null(env_of(task, "HOLDFAST_ALLOC_INDEX"));
	holdfast__driver__v1__task_config__free_unpacked(task, NULL);
	(void)str_copy(w.alloc.job_id, sizeof(w.alloc.job_id), "shop");
	w.alloc.job_index = 3;
	w.tasks[0].n_env = 0;
	assert_int_equal(alloc_pack_task(&w.alloc, &w.tasks[0], NULL, NULL, &more, &n, NULL), STATUS_OK);
	task = holdfast__driver__v1__task_config__unpack(NULL, n, more);
	assert_string_equal(env_of(task, "HOLDFAST_NODE_ID"), "n1");
	assert_string_equal(env_of(task, "HOLDFAST_JOB"), "shop");
	assert_string_equal(env_of(task, "HOLDFAST_ALLOC_INDEX"), "3");
	holdfast__driver__v1__task_config__free_unpacked(task, NULL);
}

TEST(the_task_that_is_the_plugin_is_ordered_with_its_folder)
{
	static const struct {
		const char *socket, *mount_dir, *ordered_socket, *destination;
	} rows[] = {
		{"", "", "csi.sock", "/csi"},
		{"a.sock", "/run/csi", "a.sock", "/run/csi"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(rows); i++) {
		cleanup_free uint8_t *bytes = NULL;
		cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
		struct work w;
		size_t n;

		make(&w);
		a_plugin_of_no_task(&w);
		w.tasks[0].csi_plugin = plugin_mount(rows[i].mount_dir);
		(void)str_copy(plugins[0].socket, sizeof(plugins[0].socket), rows[i].socket);
		assert_int_equal(judge(&w, NULL), STATUS_OK);
		assert_ok(alloc_pack_task(&w.alloc, &w.tasks[0], NULL, NULL, &bytes, &n, NULL));
		task = holdfast__driver__v1__task_config__unpack(NULL, n, bytes);
		assert_true(order_is_canonical(&task->base, bytes, n));
		assert_string_equal(task->csi_plugin->id, "ebs");
		assert_string_equal(task->csi_plugin->socket, rows[i].ordered_socket);
		assert_string_equal(task->csi_plugin->destination, rows[i].destination);
	}
}

TEST(only_a_plugin_with_a_node_service_is_ordered_to_mount)
{
	static const enum csi_plugin_type types[] = {CSI_PLUGIN_CONTROLLER, CSI_PLUGIN_NODE,
						     CSI_PLUGIN_MONOLITH};

	for (size_t i = 0; i < ARRAY_SIZE(types); i++) {
		cleanup_free uint8_t *bytes = NULL;
		cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
		struct work w;
		size_t n;

		make(&w);
		a_plugin_of_no_task(&w);
		plugins[0].type = types[i];
		w.tasks[0].csi_plugin = plugin_mount("");
		assert_ok(alloc_pack_task(&w.alloc, &w.tasks[0], NULL, NULL, &bytes, &n, NULL));
		task = holdfast__driver__v1__task_config__unpack(NULL, n, bytes);
		assert_int_equal(task->csi_plugin->mounts, types[i] != CSI_PLUGIN_CONTROLLER);
	}
}

TEST(each_of_several_plugins_is_ordered_with_its_own_folder)
{
	static const char *const wanted[][3] = {{"ebs", "csi.sock", "/csi"}, {"nfs", "n.sock", "/run/nfs"}};
	struct work w;

	make(&w);
	a_plugin_each(&w);
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		cleanup_free uint8_t *bytes = NULL;
		cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
		size_t n;

		assert_ok(alloc_pack_task(&w.alloc, &w.tasks[i], NULL, NULL, &bytes, &n, NULL));
		task = holdfast__driver__v1__task_config__unpack(NULL, n, bytes);
		assert_string_equal(task->csi_plugin->id, wanted[i][0]);
		assert_string_equal(task->csi_plugin->socket, wanted[i][1]);
		assert_string_equal(task->csi_plugin->destination, wanted[i][2]);
	}
}

TEST(a_task_is_ordered_with_the_network_that_it_joins)
{
	Holdfast__Driver__V1__NetworkSpec spec = HOLDFAST__DRIVER__V1__NETWORK_SPEC__INIT;
	cleanup_free uint8_t *bytes = NULL;
	cleanup_pb Holdfast__Driver__V1__TaskConfig *task = NULL;
	char much[NETWORK_STATE_MAX + 2];
	struct work w;
	size_t n;

	make(&w);
	w.alloc.network.mode = NETWORK_ISOLATED;
	assert_false(alloc_network_is_right(&w.alloc, NULL));
	assert_false(alloc_network_is_right(&w.alloc, &spec));
	spec.alloc_id = text(ALLOC_1);
	spec.mode = HOLDFAST__DRIVER__V1__NETWORK_MODE__NETWORK_MODE_ISOLATED;
	spec.state = text("the network");
	assert_true(alloc_network_is_right(&w.alloc, &spec));
	assert_int_equal(alloc_pack_task(&w.alloc, &w.tasks[0], &spec, NULL, &bytes, &n, NULL), STATUS_OK);
	task = holdfast__driver__v1__task_config__unpack(NULL, n, bytes);
	assert_true(order_is_canonical(&task->base, bytes, n));
	assert_int_equal(task->network, spec.mode);
	assert_string_equal(task->network_spec->state, "the network");
	spec.alloc_id = text("0190a6f2-0000-7000-8000-000000000099");
	assert_false(alloc_network_is_right(&w.alloc, &spec)); /* that of another allocation */
	spec.alloc_id = text(ALLOC_1);
	memset(much, 'x', sizeof(much) - 1);
	much[sizeof(much) - 1] = '\0';
	spec.state = much;
	assert_false(alloc_network_is_right(&w.alloc, &spec));
	spec.state = text("the network");
	w.alloc.network.mode = NETWORK_NONE;
	assert_false(alloc_network_is_right(&w.alloc, &spec));
}

/* --- references --- */

static Holdfast__Driver__V1__KeyValue *set_env(struct work *w, const char *key, const char *value)
{
	static Holdfast__Driver__V1__KeyValue *list[1];

	list[0] = pair(key, value);
	w->tasks[0].env = list;
	w->tasks[0].n_env = 1;
	return list[0];
}

/* What "K = @value" in env is when the task is ordered on a node with rack r1; NULL: it is not ordered. */
static const char *ordered_env(const char *value, struct error *err)
{
	static char kept[256];
	Holdfast__Driver__V1__TaskConfig *task;
	cleanup_free uint8_t *bytes = NULL;
	struct message_list *attributes;
	Holdfast__Driver__V1__KeyValue rack = *pair("meta.rack", "r1"),
				       arch = *pair("attr.cpu.arch", "amd64");
	ProtobufCMessage *list[] = {&rack.base, &arch.base};
	enum status status;
	struct work w;
	size_t n;

	make(&w);
	(void)set_env(&w, "K", value);
	(void)str_copy(w.alloc.job_id, sizeof(w.alloc.job_id), "shop");
	w.alloc.job_index = 3;
	assert_true(message_list_new(list, ARRAY_SIZE(list), &attributes));
	status = alloc_pack_task(&w.alloc, &w.tasks[0], NULL, attributes, &bytes, &n, err);
	message_list_unref(attributes);
	if (status != STATUS_OK)
		return NULL;
	task = NON_NULL(holdfast__driver__v1__task_config__unpack(NULL, n, bytes));
	(void)str_copy(kept, sizeof(kept), env_of(task, "K"));
	holdfast__driver__v1__task_config__free_unpacked(task, NULL);
	return kept;
}

TEST(references_are_replaced_when_a_task_is_ordered)
{
	static const struct {
		const char *text, *value;
	} cases[] = {
		{"${NOMAD_ALLOC_ID}", ALLOC_1},
		{"a-${NOMAD_ALLOC_INDEX}-${HOLDFAST_ALLOC_INDEX}", "a-3-3"},
		{"${NOMAD_SHORT_ALLOC_ID}", "01890000"},
		{"${NOMAD_JOB_NAME} ${NOMAD_JOB_ID} ${NOMAD_TASK_NAME}", "shop shop web"},
		{"${node.unique.name} ${node.unique.id} ${HOLDFAST_NODE_ID}", "n1 n1 n1"},
		{"${meta.rack}/${attr.cpu.arch}", "r1/amd64"},
		{"$${meta.rack} %%{x} 5% $x $$", "${meta.rack} %{x} 5% $x $$"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = {.msg = ""};
		const char *value = ordered_env(cases[i].text, &err);

		assert_msg(value, "%s: %s", cases[i].text, err.msg);
		assert_string_equal(value, cases[i].value);
	}
}

TEST(a_reference_that_the_node_lacks_is_no_empty_text)
{
	struct error err = {.msg = ""};

	assert_null(ordered_env("${meta.row}", &err));
	assert_int_equal(err.status, STATUS_FAILED_PRECONDITION);
	assert_string_equal(err.msg, "K: node n1 has no meta.row");
}

TEST(a_text_with_its_values_is_as_short_as_one_that_is_submitted)
{
	static char long_text[30000];
	static Holdfast__Driver__V1__KeyValue one, *list[] = {&one};
	cleanup_free uint8_t *bytes = NULL;
	struct error err = {.msg = ""};
	struct work w;
	size_t n = 0;

	make(&w);
	while (n + 32 < sizeof(long_text))
		n += (size_t)snprintf(long_text + n, sizeof(long_text) - n, "${NOMAD_ALLOC_ID}");
	holdfast__driver__v1__key_value__init(&one);
	one.key = text("K");
	one.value = long_text;
	w.tasks[0].env = list;
	w.tasks[0].n_env = 1;
	assert_error(alloc_pack_task(&w.alloc, &w.tasks[0], NULL, NULL, &bytes, &n, &err),
		     STATUS_INVALID_ARGUMENT, err, "env '...' is not at most 32768 bytes");
}

static void expect_refused(struct work *w, const char *wanted)
{
	struct error err = {.msg = ""};

	assert_int_equal(judge(w, &err), STATUS_INVALID_ARGUMENT);
	assert_msg(strstr(err.msg, wanted), "%s", err.msg);
}

static size_t n_mounts; /* that were looked at */

const struct volume_request *__real_alloc_find_volume(const struct alloc *alloc, const char *name);
const struct volume_request *__wrap_alloc_find_volume(const struct alloc *alloc, const char *name);
const struct volume_request *__wrap_alloc_find_volume(const struct alloc *alloc, const char *name)
{
	n_mounts++;
	return __real_alloc_find_volume(alloc, name);
}

/* More mounts like the first one, of which none is within another. */
static void mount_often(struct work *w, unsigned int n)
{
	enum { MANY = 2000 };
	static Holdfast__Driver__V1__VolumeMount mounts[MANY], *list[MANY];
	static char destinations[MANY][16];

	assert_in_range(n, 1, MANY);
	for (unsigned int i = 0; i < n; i++) {
		mounts[i] = w->mounts[0];
		mounts[i].destination = destinations[i];
		(void)str_format(destinations[i], sizeof(destinations[i]), "/v%u", i);
		list[i] = &mounts[i];
	}
	w->tasks[0].volumes = list;
	w->tasks[0].n_volumes = n;
}

TEST(a_task_has_only_so_many_keys_of_its_driver)
{
	Holdfast__Driver__V1__ConfigValue *list[TASK_CONFIG_MAX + 1];
	struct work w;

	make(&w);
	list[0] = config(&w, "hostname");
	list[0]->text = text("db");
	for (size_t i = 1; i < ARRAY_SIZE(list); i++)
		list[i] = list[0];
	w.tasks[0].config = list;
	w.tasks[0].n_config = TASK_CONFIG_MAX;
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	w.tasks[0].n_config++;
	expect_refused(&w, "task web: config: it has 65 keys, at most 64 are allowed");
}

TEST(a_task_has_only_so_many_mounts)
{
	struct error err = {.msg = ""};
	struct work w;

	make(&w);
	mounting(&w, "/data");
	mount_often(&w, TASK_MOUNTS_MAX);
	assert_succeeds(judge(&w, &err), err);
	mount_often(&w, TASK_MOUNTS_MAX + 1);
	expect_refused(&w, "task web: it has 65 volume mounts, at most 64 are allowed");
	n_mounts = 0;
	mount_often(&w, 1000);
	expect_refused(&w, "task web: it has 1000 volume mounts, at most 64 are allowed");
	assert_int_equal(n_mounts, TASK_MOUNTS_MAX);
	/* as the driver asks */
	assert_error(task_mounts_check(&w.tasks[0], true, NULL, &err), STATUS_INVALID_ARGUMENT, err,
		     "at most 64 are allowed");
}

TEST(a_bidirectional_mount_is_compared_with_so_many_host_paths)
{
	Holdfast__Driver__V1__KeyValue pairs[TASK_MOUNTS_MAX + 1], *paths[TASK_MOUNTS_MAX + 1];
	char texts[TASK_MOUNTS_MAX + 1][16];
	Holdfast__Driver__V1__ConfigValue *value;
	struct error err = {.msg = ""};
	struct work w;

	make(&w);
	mounting(&w, "/data");
	with_host_path(&w, "/srv/a");
	value = w.tasks[0].config[1];
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++) {
		(void)snprintf(texts[i], sizeof(texts[i]), "/srv/%zu", i);
		pairs[i] = *value->map[0];
		pairs[i].key = pairs[i].value = texts[i];
		paths[i] = &pairs[i];
	}
	value->map = paths;
	value->n_map = TASK_MOUNTS_MAX;
	assert_succeeds(judge(&w, &err), err);
	value->n_map++;
	expect_refused(&w, "it has 65 host_paths, at most 64 are allowed with a bidirectional mount");
	w.mounts[0].propagation = HOLDFAST__DRIVER__V1__MOUNT_PROPAGATION__MOUNT_PROPAGATION_PRIVATE;
	assert_succeeds(judge(&w, &err), err);
}

/* Sets as many different references of the node, each twice, in one text. */
static void want_values(struct work *w, unsigned int n)
{
	static char value[4096];
	size_t at = 0;

	for (unsigned int i = 0; i < 2 * n; i++)
		at += (size_t)snprintf(value + at, sizeof(value) - at, "${meta.m%u}", i % n);
	set_env(w, "K", "")->value = value;
}

TEST(tasks_name_only_so_many_values_of_their_node)
{
	struct work w;

	make(&w);
	want_values(&w, REFERENCE_WANTS_MAX);
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	want_values(&w, REFERENCE_WANTS_MAX + 1);
	expect_refused(&w, "task web: env: ${meta.m32} is one more than the 32 values of their node that the "
			   "tasks of an allocation may name");
}

TEST(references_are_checked_at_submission)
{
	struct work w;

	make(&w);
	(void)set_env(&w, "K", "${NOMAD_TASK_DIR}");
	expect_refused(
		&w, "task web: K: there is no reference ${NOMAD_TASK_DIR}; write $${ for the characters ${");
	(void)set_env(&w, "K", "${open");
	expect_refused(&w, "task web: K: a ${ has no }; write $${ for the characters ${");
	(void)set_env(&w, "K", "${PW:-s3cret}");
	expect_refused(&w, "task web: K: there is no reference ${...}; write $${");
	(void)set_env(&w, "K", "${meta.rack} ${attr.os.name} ${NOMAD_ALLOC_ID}");
	config(&w, "hostname")->text = text("db-${NOMAD_ALLOC_INDEX}");
	assert_int_equal(judge(&w, NULL), STATUS_OK);
	make(&w);
	config(&w, "hostname")->text = text("db,${NOMAD_ALLOC_INDEX}");
	expect_refused(&w, "hostname 'db,0' is not at most 64 letters");
	/* what a node reports becomes no path and no argument */
	config(&w, "hostname")->text = text("${meta.rack}");
	expect_refused(&w, "task web: hostname: ${meta.rack} is reported by the node, and only for env");
}

TEST(values_of_attributes_are_no_paths)
{
	assert_true(node_attribute_value_is_valid("Debian GNU-Linux 12 (bookworm)"));
	assert_false(node_attribute_value_is_valid("/etc"));
	assert_false(node_attribute_value_is_valid("a,b"));
	assert_false(node_attribute_value_is_valid("a\nb"));
	assert_false(node_attribute_value_is_valid("${meta.a}"));
	assert_true(node_attribute_name_is_valid("meta.rack-1"));
	assert_false(node_attribute_name_is_valid("meta."));
	assert_false(node_attribute_name_is_valid("rack"));
	assert_false(node_attribute_name_is_valid("meta.a}b"));
}
