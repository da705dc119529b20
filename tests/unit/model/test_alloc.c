/* SPDX-License-Identifier: Apache-2.0 */
#include "fixture.h"
#include "same_alloc.h"

#include "model/alloc_validate.h"

TEST(a_complete_submission_is_valid)
{
	struct alloc a = an_alloc(ALLOC_1, "n1");

	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	a.id[0] = '\0';
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	a.node_id[0] = '\0'; /* to be placed */
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	a.volumes[0].read_only = true; /* to look, while nobody writes */
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	a.volumes[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
}

static char db_unit[] = "db.service";

static void run_unit(struct alloc *a)
{
	(void)str_copy(a->driver, sizeof(a->driver), DRIVER_SYSTEMD);
	a->unit = db_unit;
}

static void unit_that_is_a_socket(struct alloc *a)
{
	static char unit[] = "db.socket";

	run_unit(a);
	a->unit = unit;
}

static struct csi_plugin plugins[3];

static void plugin_of(struct alloc *a, struct csi_plugin plugin)
{
	plugins[0] = plugin;
	a->plugins = plugins;
	a->n_plugins = 1;
}
static void plugin(struct alloc *a)
{
	plugin_of(a, (struct csi_plugin){.id = "ebs", .type = CSI_PLUGIN_NODE});
}
static void more_plugins(struct alloc *a)
{
	plugin(a);
	plugins[1] = (struct csi_plugin){.id = "nfs", .type = CSI_PLUGIN_MONOLITH, .socket = "n.sock"};
	plugins[2] = (struct csi_plugin){.id = "zfs", .type = CSI_PLUGIN_CONTROLLER};
	a->n_plugins = 3;
}

static void expect_mistake(const struct alloc *a, const char *says, const char *also, enum status status)
{
	struct error err;

	assert_error(alloc_validate(a, &err), status, err, says);
	assert_non_null(strstr(err.msg, also));
}

#define MISTAKE(says, also, ...)                                         \
	do {                                                             \
		a = an_alloc(ALLOC_1, "n1");                             \
		__VA_ARGS__;                                             \
		expect_mistake(&a, says, also, STATUS_INVALID_ARGUMENT); \
	} while (0)

TEST(contradictions_and_bad_names_are_refused_by_field)
{
	struct alloc a;

	MISTAKE("access_mode", "read_only", a.volumes[0].access_mode = SINGLE_NODE_READER_ONLY);
	MISTAKE("propagation", "read_only", a.volumes[0].propagation = PROPAGATION_BIDIRECTIONAL;
		a.volumes[0].read_only = true);
	MISTAKE("access_mode", "missing", a.volumes[0].access_mode = ACCESS_MODE_UNSPECIFIED);
	MISTAKE("data", "more", a.volumes[1] = a.volumes[0];
		(void)str_copy(a.volumes[1].name, sizeof(a.volumes[1].name), "more"); a.n_volumes = 2);
	MISTAKE("data", "twice", a.volumes[1] = a.volumes[0];
		(void)str_copy(a.volumes[1].source, sizeof(a.volumes[1].source), "other"); a.n_volumes = 2);
	MISTAKE("source", "a/b", (void)str_copy(a.volumes[0].source, sizeof(a.volumes[0].source), "a/b"));
	MISTAKE("volume", "..", (void)str_copy(a.volumes[0].name, sizeof(a.volumes[0].name), ".."));
	MISTAKE("id", "UUID", a.id[0] = 'A');
	MISTAKE("unit: 'db.service'", "driver \"none\"", a.unit = db_unit);
	MISTAKE("stop_timeout", "driver \"none\"", a.stop_timeout_ms = 1);
	MISTAKE("unit: is missing", "driver \"systemd\"", run_unit(&a); a.unit = NULL);
	MISTAKE("unit: 'db.socket'", "service", unit_that_is_a_socket(&a));
	MISTAKE("csi_plugin", "driver \"systemd\"", run_unit(&a); plugin(&a));
	MISTAKE("volume", "driver systemd", run_unit(&a); a.n_volumes = 0);
	MISTAKE("mount_timeout", "86400000", a.mount_timeout_ms = ALLOC_MOUNT_TIMEOUT_MAX_MS + 1);
	MISTAKE("mount_timeout", "volume", run_unit(&a); a.n_volumes = 0; a.mount_timeout_ms = 1);
	MISTAKE("stop_timeout", "86400000", run_unit(&a); a.stop_timeout_ms = ALLOC_STOP_TIMEOUT_MAX_MS + 1);
	MISTAKE("node", "n/1", (void)str_copy(a.node_id, sizeof(a.node_id), "n/1"));
	MISTAKE("access_mode", "read_only", a.volumes[0].access_mode = MULTI_NODE_READER_ONLY);
	MISTAKE("propagation", "attachment_mode", a.volumes[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
		a.volumes[0].propagation = PROPAGATION_HOST_TO_TASK);
	MISTAKE("exec", "attachment_mode", a.volumes[0].attachment_mode = ATTACHMENT_BLOCK_DEVICE;
		a.volumes[0].exec = true);
	MISTAKE("volume", "at least one", a.n_volumes = 0);
	MISTAKE("csi_plugin: id 'ebs'", "type is missing", plugin_of(&a, (struct csi_plugin){.id = "ebs"}));
	MISTAKE("csi_plugin", "id is missing", plugin_of(&a, (struct csi_plugin){.type = CSI_PLUGIN_NODE}));
	MISTAKE("csi_plugin", "id is missing", plugin_of(&a, (struct csi_plugin){.health_timeout_ms = 1}));
	MISTAKE("csi_plugin", "'EBS'",
		plugin_of(&a, (struct csi_plugin){.id = "EBS", .type = CSI_PLUGIN_NODE}));
	MISTAKE("csi_plugin", "'native'",
		plugin_of(&a, (struct csi_plugin){.id = PLUGIN_NATIVE, .type = CSI_PLUGIN_NODE}));
	MISTAKE("csi_plugin", "health_timeout", plugin(&a);
		plugins[0].health_timeout_ms = CSI_PLUGIN_HEALTH_TIMEOUT_MAX_MS + 1);
	MISTAKE("csi_plugin[2]: id 'ebs'", "two blocks", more_plugins(&a);
		(void)str_copy(plugins[2].id, sizeof(plugins[2].id), "ebs"));
	MISTAKE("csi_plugin[1]: id 'nfs'", "type is missing", more_plugins(&a);
		plugins[1].type = CSI_PLUGIN_NONE);
	MISTAKE("csi_plugin: id is missing", "volumes name", more_plugins(&a);
		plugins[0] = (struct csi_plugin){.type = CSI_PLUGIN_NONE});
	a = an_alloc(ALLOC_1, "n1");
	(void)str_copy(a.driver, sizeof(a.driver), "exec");
	expect_mistake(&a, "driver", "exec", STATUS_UNIMPLEMENTED);
}

TEST(an_allocation_may_run_a_unit)
{
	struct alloc a = an_alloc(ALLOC_1, "n1");

	assert_string_equal(alloc_unit(&a), "");
	run_unit(&a);
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	a.stop_timeout_ms = ALLOC_STOP_TIMEOUT_MAX_MS;
	a.mount_timeout_ms = ALLOC_MOUNT_TIMEOUT_MAX_MS;
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	assert_true(alloc_own(&a));
	assert_ptr_not_equal(a.unit, db_unit);
	assert_string_equal(alloc_unit(&a), "db.service");
	alloc_release(&a);
}

TEST(an_allocation_that_runs_a_plugin_needs_no_volumes)
{
	struct alloc a = an_alloc(ALLOC_1, "n1");

	plugin(&a);
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	a.n_volumes = 0;
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	plugins[0].health_timeout_ms = CSI_PLUGIN_HEALTH_TIMEOUT_MAX_MS;
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
}

TEST(an_allocation_runs_several_plugins_each_by_its_id)
{
	char text[ALLOC_PLUGINS_TEXT_SIZE];
	static const bool only[ALLOC_PLUGINS_MAX] = {false, true, true};
	struct alloc a = an_alloc(ALLOC_1, "n1"), other;

	assert_null(alloc_find_plugin(&a, ""));
	alloc_plugins_text(&a, NULL, text);
	assert_string_equal(text, "");
	more_plugins(&a);
	assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
	assert_ptr_equal(alloc_find_plugin(&a, "nfs"), &plugins[1]);
	assert_null(alloc_find_plugin(&a, "nf"));
	alloc_plugins_text(&a, NULL, text);
	assert_string_equal(text, "ebs, nfs, zfs");
	alloc_plugins_text(&a, only, text);
	assert_string_equal(text, "nfs, zfs");
	other = a;
	assert_true(alloc_own(&other));
	assert_ptr_not_equal(other.plugins, a.plugins);
	assert_true(alloc_plugins_eq(&a, &other));
	other.plugins[2].type = CSI_PLUGIN_NODE;
	assert_false(alloc_plugins_eq(&a, &other));
	other.n_plugins = 2;
	assert_false(alloc_plugins_eq(&a, &other));
	alloc_release(&other);
	assert_null(other.plugins);
}

TEST(the_socket_of_a_plugin_is_a_plain_file_name)
{
	static const struct {
		const char *socket;
		bool is_good;
	} cases[] = {
		{"", true},
		{"csi.sock", true},
		{"a.sock", true},
		{"A_b-0.x.sock", true},
		{".sock", false},
		{"..sock", false},
		{"-x.sock", false},
		{"csi", false},
		{"csi.sock2", false},
		{"a/csi.sock", false},
		{"../csi.sock", false},
		{"a b.sock", false},
		{"a\nb.sock", false},
		{"\xc3\xa4.sock", false},
		{"csi.SOCK", false},
	};
	struct alloc a = an_alloc(ALLOC_1, "n1");

	plugin(&a);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct error err = {.msg = ""};

		(void)str_copy(plugins[0].socket, sizeof(plugins[0].socket), cases[i].socket);
		assert_int_equal(alloc_validate(&a, &err),
				 cases[i].is_good ? STATUS_OK : STATUS_INVALID_ARGUMENT);
		if (!cases[i].is_good)
			assert_non_null(strstr(err.msg, "csi_plugin: socket"));
	}
}

TEST(the_services_of_a_plugin_follow_from_its_type)
{
	static const struct {
		enum csi_plugin_type type;
		bool controller, node;
	} cases[] = {
		{CSI_PLUGIN_NONE, false, false},
		{CSI_PLUGIN_CONTROLLER, true, false},
		{CSI_PLUGIN_NODE, false, true},
		{CSI_PLUGIN_MONOLITH, true, true},
	};

	assert_int_equal(ARRAY_SIZE(cases), CSI_PLUGIN_TYPE_N);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct csi_plugin p = {.id = "ebs", .type = cases[i].type};

		assert_int_equal(csi_plugin_has_controller(&p), cases[i].controller);
		assert_int_equal(csi_plugin_has_node(&p), cases[i].node);
	}
}

TEST(mounts_may_come_from_the_host_for_all_and_go_there_from_writers)
{
	struct alloc a = an_alloc(ALLOC_1, "n1");

	for (int p = 0; p < PROPAGATION_N; p++) {
		a.volumes[0].propagation = (enum propagation)p;
		a.volumes[0].read_only = false;
		assert_int_equal(alloc_validate(&a, NULL), STATUS_OK);
		a.volumes[0].read_only = true;
		assert_int_equal(alloc_validate(&a, NULL),
				 p == PROPAGATION_BIDIRECTIONAL ? STATUS_INVALID_ARGUMENT : STATUS_OK);
	}
}

TEST(only_the_nodes_word_makes_an_allocation_terminal)
{
	static const bool terminal[CLIENT_N] = {
		[CLIENT_COMPLETE] = true, [CLIENT_FAILED] = true, [CLIENT_LOST] = true};
	struct alloc a = an_alloc(ALLOC_1, "n1");

	a.desired_status = DESIRED_STOP;
	for (int s = 0; s < CLIENT_N; s++) {
		a.client_status = (enum client_status)s;
		assert_int_equal(alloc_is_client_terminal(&a), terminal[s]);
	}
}

TEST(an_allocation_copy_outlives_its_source)
{
	char text[] = "it runs";
	struct alloc a = an_alloc(ALLOC_1, "n1");
	struct alloc mine;

	a.n_volumes = 2;
	(void)str_copy(a.volumes[1].source, sizeof(a.volumes[1].source), "logs");
	a.n_published = 1;
	(void)str_copy(a.published[0].path, sizeof(a.published[0].path), "/x/y");
	a.client_description = text;
	mine = a;
	assert_true(alloc_own(&mine));
	assert_true(is_same_alloc(&a, &mine));
	memset(a.volumes, 'x', 2 * sizeof(a.volumes[0]));
	memset(a.published, 'x', sizeof(a.published[0]));
	text[0] = '\0';
	assert_string_equal(mine.volumes[0].source, "db");
	assert_string_equal(mine.volumes[1].source, "logs");
	assert_string_equal(mine.published[0].path, "/x/y");
	assert_string_equal(alloc_description(&mine), "it runs");
	alloc_release(&mine);
	assert_int_equal(mine.n_volumes + mine.n_published, 0);
	assert_string_equal(alloc_description(&mine), "");
	assert_string_equal(mine.id, ALLOC_1);
	alloc_release(&mine); /* nothing is left */
}

TEST(an_allocation_without_lists_owns_nothing)
{
	struct alloc a = an_alloc(ALLOC_1, "n1");

	a.n_volumes = 0; /* the list is another's, as far as it goes */
	assert_true(alloc_own(&a));
	assert_null(a.volumes);
	assert_null(a.published);
	assert_null(a.client_description);
	alloc_release(&a);
	assert_true(sizeof(a) <= 808); /* what each of them costs, of which a server has very many */
}
