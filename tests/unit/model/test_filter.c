/* SPDX-License-Identifier: Apache-2.0 */
#include "unit.h"

#include "base/strbuf.h"
#include "model/filter.h"

#include <holdfast/v1/plugin_call.pb-c.h>
#include <holdfast/v1/types.pb-c.h>

/* A volume with something of every sort of field. */
struct world {
	Holdfast__V1__Volume volume;
	Holdfast__V1__Capability capabilities[2], *capability_list[2];
	Holdfast__V1__Volume__ParametersEntry parameters[2], *parameter_list[2];
	Holdfast__V1__Topology topology, *topology_list[1];
	Holdfast__V1__Topology__SegmentsEntry segment, *segment_list[1];
	Holdfast__V1__MountOptions mount_options;
	char *flags[2], texts[16][16];
	size_t n_texts;
};

static char *text(struct world *w, const char *s)
{
	char *to = w->texts[w->n_texts++];

	assert_int_equal(str_copy(to, sizeof(w->texts[0]), s), 0);
	return to;
}

static void fill(struct world *w)
{
	static const struct world zero;

	*w = zero;
	holdfast__v1__volume__init(&w->volume);
	for (size_t i = 0; i < 2; i++) {
		holdfast__v1__capability__init(&w->capabilities[i]);
		w->capability_list[i] = &w->capabilities[i];
		holdfast__v1__volume__parameters_entry__init(&w->parameters[i]);
		w->parameter_list[i] = &w->parameters[i];
	}
	w->capabilities[0].access_mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER;
	w->capabilities[1].access_mode = HOLDFAST__V1__ACCESS_MODE__MULTI_NODE_READER_ONLY;
	w->parameters[0].key = text(w, "tier");
	w->parameters[0].value = text(w, "gold");
	w->parameters[1].key = text(w, "a.b");
	w->parameters[1].value = text(w, "");
	holdfast__v1__topology__init(&w->topology);
	holdfast__v1__topology__segments_entry__init(&w->segment);
	w->segment.key = text(w, "zone");
	w->segment.value = text(w, "z1");
	w->segment_list[0] = &w->segment;
	w->topology.segments = w->segment_list;
	w->topology.n_segments = 1;
	w->topology_list[0] = &w->topology;
	holdfast__v1__mount_options__init(&w->mount_options);
	w->flags[0] = text(w, "noatime");
	w->flags[1] = text(w, "ro");
	w->mount_options.mount_flags = w->flags;
	w->mount_options.n_mount_flags = 2;
	w->volume.id = text(w, "db-1");
	w->volume.namespace_ = text(w, "default");
	w->volume.plugin_id = text(w, "nfs");
	w->volume.requested_capabilities = w->capability_list;
	w->volume.n_requested_capabilities = 2;
	w->volume.parameters = w->parameter_list;
	w->volume.n_parameters = 2;
	w->volume.topologies = w->topology_list;
	w->volume.n_topologies = 1;
	w->volume.mount_options = &w->mount_options;
	w->volume.schedulable = true;
	w->volume.capacity = 10737418240;
	w->volume.readers = 3;
	w->volume.create_time_ms = -5;
	w->volume.phase = HOLDFAST__V1__VOLUME_PHASE__VOLUME_DELETING;
}

static bool matches(const struct world *w, const char *expression)
{
	struct filter *filter = NULL;
	struct error err;
	bool answer;

	if (filter_new(expression, &holdfast__v1__volume__descriptor, &filter, &err) != STATUS_OK)
		fail_msg("%s: %s", expression, err.msg);
	answer = filter_matches(filter, &w->volume.base);
	filter_free(filter);
	return answer;
}

TEST(filter_expressions_match_as_written)
{
	static const struct {
		const char *expression;
		bool answer;
	} cases[] = {
		{"id == db-1", true},
		{"id == \"db-1\"", true},
		{"id == `db-1`", true},
		{"id==db", false}, /* whole values, never beginnings */
		{"id != db", true},
		{"id != db-1", false},
		{"id contains b-", true},
		{"id not contains b-", false},
		{"b- in id", true},
		{"\"zz\" not in id", true},
		{"name is empty", true},
		{"pluginId == nfs", true},
		{"mountOptions.fsType is empty", true},
		{"requestedCapabilities.accessMode == single-node-writer", true},
		{"id is empty", false},
		{"id is not empty", true},
		{"schedulable == true", true},
		{"schedulable == false", false},
		{"schedulable != true", false},
		{"capacity == 10737418240", true},
		{"capacity == 2147483648", false}, /* not its lower half */
		{"readers == 3", true},
		{"writers == 0", true},
		{"create_time_ms == -5", true},
		{"create_time_ms == 5", false},
		{"phase == volume-deleting", true},
		{"phase == VOLUME_DELETING", true},
		{"phase == volume-ready", false},
		{"requested_capabilities.access_mode == single-node-writer", true},
		{"requested_capabilities.access_mode == MULTI_NODE_READER_ONLY", true},
		{"requested_capabilities.access_mode == multi-node-multi-writer", false},
		{"requested_capabilities.access_mode != single-node-writer", false}, /* none of them */
		{"requested_capabilities is empty", false},
		{"claims is empty", true},
		{"claims.id == x", false},
		{"claims.id != x", true},
		{"parameters.tier == gold", true},
		{"parameters.tier != gold", false},
		{"parameters.none == gold", false},
		{"parameters.none != gold", true},
		{"parameters[\"a.b\"] == \"\"", true},
		{"parameters[\"a.b\"] is empty", true},
		{"parameters.tier is not empty", true},
		{"parameters.none is empty", true},
		{"tier in parameters", true},
		{"gold in parameters", false},
		{"parameters contains a.b", true},
		{"parameters not contains a.b", false},
		{"topologies.segments.zone == z1", true},
		{"topologies.segments[zone] == z2", false},
		{"topologies.segments contains zone", true},
		{"mount_options.mount_flags contains ro", true},
		{"ro in mount_options.mount_flags", true},
		{"r in mount_options.mount_flags", false},
		{"mount_options is empty", false},
		{"mount_options.fs_type is empty", true},
		{"source is empty", true},
		{"source.by_id == x", false},
		{"source.by_id is empty", true},
		{"not id == x", true},
		{"not not id == x", false},
		{"id == x or id == db-1", true},
		{"id == x and id == db-1", false},
		{"id == db-1 or id == x and id == y", true}, /* and binds closer */
		{"(id == db-1 or id == x) and id == y", false},
		{"not (id == x or id == y)", true},
		{"not id == x and id == x", false}, /* not binds closest */
		{" \t\n( ( id == db-1 ) ) \r", true},
	};
	struct world w;

	fill(&w);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		if (matches(&w, cases[i].expression) != cases[i].answer)
			fail_msg("%s is not %d", cases[i].expression, cases[i].answer);
}

TEST(filter_errors_name_the_column)
{
	static const struct {
		const char *expression, *says;
	} cases[] = {
		{"", "column 1:"},
		{"id", "column 3: expected ==, !="},
		{"id ==", "column 6: expected a value"},
		{"id == db-1 x", "column 12: expected and, or"},
		{"id = db", "column 4: expected a name"},
		{"id == \"db", "column 7: the text that begins here"},
		{"id == \"a\\n\"", "column 7: in quotes"},
		{"id == \"a\\", "column 7: in quotes"},
		{"(id == db", "column 10: expected and, or, or )"},
		{"id == db)", "column 9: expected and, or, or the end"},
		{"id == a and", "column 12: expected a comparison"},
		{"not", "column 4: expected a comparison"},
		{"idd == a", "column 1: Volume has no field 'idd'; did you mean id?"},
		{"mount_options.fstype == a",
		 "column 15: MountOptions has no field 'fstype'; did you mean fs_type?"},
		{"id.x == a", "column 4: 'id' has no fields"},
		{"parameters.a.b == c", "column 14: 'parameters' has no fields"},
		{"id[\"x\"] == a", "column 4: 'id' is not a map"},
		{"parameters[] == a", "column 12: expected the key of a map"},
		{"parameters[x == a", "column 14: expected ]"},
		{"mount_options. == a", "column 15: expected the name of a field"},
		{"pluginid == a", "column 1: Volume has no field 'pluginid'; did you mean plugin_id?"},
		{"plugin_I == a", "column 1:"},
		{"capacity == -1", "column 13: capacity is compared with a whole number from 0 on"},
		{"capacity == 1x", "column 13:"},
		{"capacity == 99999999999999999999", "column 13:"},
		{"create_time_ms == 9223372036854775808", "column 19:"},
		{"schedulable == yes", "column 16: schedulable is compared with true or false"},
		{"phase == deleting", "column 10: phase has no value 'deleting'"},
		{"parameters == a", "column 1: 'parameters' has many values"},
		{"mount_options == a", "column 1: 'mount_options' cannot be compared"},
		{"capacity contains 1", "column 1: 'capacity' is neither"},
		{"claims contains x", "column 1: 'claims' is neither"},
		{"capacity is empty", "column 1: 'capacity' is never empty"},
		{"id is full", "column 7: expected empty"},
		{"id in id in id", "column 10:"},
		{"\"id\" == db", "column 6: expected in or not in"},
		{"a in (", "column 6: expected the name of a field"},
		{"id not == a", "column 8: expected ==, !="},
		{"id is not", "column 10: expected empty"},
		{"id == \xff", "not UTF-8"},
	};

	for (size_t i = 0; i < ARRAY_SIZE(cases); i++) {
		struct filter *filter = NULL;
		struct error err = {0};
		enum status status =
			filter_new(cases[i].expression, &holdfast__v1__volume__descriptor, &filter, &err);

		if (status != STATUS_INVALID_ARGUMENT || !strstr(err.msg, cases[i].says) || filter)
			fail_msg("%s: %s", cases[i].expression, err.msg);
		assert_true(str_starts_with(err.msg, "filter: "));
	}
}

/* @head, then @n times @part, then @tail. */
static enum status parse_repeated(const char *head, const char *part, size_t n, const char *tail)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(4L * FILTER_TEXT_MAX);
	struct filter *filter = NULL;
	enum status status;

	strbuf_puts(&sb, head);
	for (size_t i = 0; i < n; i++)
		strbuf_puts(&sb, part);
	strbuf_puts(&sb, tail);
	assert_int_equal(sb.error, 0);
	status = filter_new(sb.data, &holdfast__v1__volume__descriptor, &filter, NULL);
	filter_free(filter);
	return status;
}

TEST(every_limit_holds_at_its_value_and_not_one_above)
{
	assert_int_equal(parse_repeated("id==", "x", FILTER_TEXT_MAX - 4, ""), STATUS_OK);
	assert_int_equal(parse_repeated("id==", "x", FILTER_TEXT_MAX - 3, ""), STATUS_INVALID_ARGUMENT);
	assert_int_equal(parse_repeated("", "not ", FILTER_DEPTH_MAX, "id==x"), STATUS_OK);
	assert_int_equal(parse_repeated("", "not ", FILTER_DEPTH_MAX + 1, "id==x"), STATUS_INVALID_ARGUMENT);
	assert_int_equal(parse_repeated("", "(", FILTER_DEPTH_MAX + 1, "id==x"), STATUS_INVALID_ARGUMENT);
	/* n comparisons and n - 1 words that join them */
	assert_int_equal(parse_repeated("not id==x", " or id==x", FILTER_NODES_MAX / 2 - 1, ""), STATUS_OK);
	assert_int_equal(parse_repeated("id==x", " or id==x", FILTER_NODES_MAX / 2, ""),
			 STATUS_INVALID_ARGUMENT);
}

TEST(a_long_chain_of_alternatives_is_answered_to_its_end)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(FILTER_TEXT_MAX);
	struct world w;

	fill(&w);
	for (int i = 0; i < FILTER_NODES_MAX / 2 - 1; i++)
		strbuf_puts(&sb, "id==x or ");
	strbuf_puts(&sb, "id==db-1");
	assert_true(matches(&w, sb.data));
}

/* Messages that a filter of 50 comparisons, each @one, looks at until its page ends. */
static size_t looks_at(struct world *w, const char *one)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(2L * FILTER_TEXT_MAX);
	struct filter *filter = NULL;
	size_t n = 0;

	for (int i = 0; i < 50; i++)
		strbuf_printf(&sb, "%s%s", i > 0 ? " or " : "", one);
	assert_ok(filter_new(sb.data, &holdfast__v1__volume__descriptor, &filter, NULL));
	assert_false(filter_is_spent(filter));
	for (; !filter_is_spent(filter) && n < 100000; n++)
		assert_false(filter_matches(filter, &w->volume.base));
	filter_free(filter);
	return n;
}

TEST(a_page_ends_when_its_filter_has_looked_at_so_much)
{
	static Holdfast__V1__Capability *many[1000];
	static Holdfast__V1__Volume__ParametersEntry *many_parameters[1000];
	static char long_text[64 * 1024];
	struct world w;

	fill(&w);
	assert_false(filter_is_spent(NULL));
	assert_in_range(looks_at(&w, "id==x"), 1000, 5000);
	for (size_t i = 0; i < ARRAY_SIZE(many); i++)
		many[i] = &w.capabilities[0];
	w.volume.requested_capabilities = many;
	w.volume.n_requested_capabilities = ARRAY_SIZE(many);
	assert_in_range(looks_at(&w, "requested_capabilities.access_mode==multi-node-multi-writer"), 1, 10);
	memset(long_text, 'x', sizeof(long_text) - 1);
	w.volume.name = long_text;
	assert_in_range(looks_at(&w, "name contains y"), 1, 10);
	w.parameters[0].value = long_text;
	assert_in_range(looks_at(&w, "parameters.tier contains y"), 1, 10);
	for (size_t i = 0; i < ARRAY_SIZE(many_parameters); i++)
		many_parameters[i] = &w.parameters[1];
	w.volume.parameters = many_parameters;
	w.volume.n_parameters = ARRAY_SIZE(many_parameters);
	assert_in_range(looks_at(&w, "parameters.none==x"), 1, 10);
	w.mount_options.n_mount_flags = 1;
	w.volume.mount_options = &w.mount_options;
	assert_in_range(looks_at(&w, "y in mount_options.mount_flags"), 1, 2000);
}

TEST(a_member_of_a_oneof_that_is_not_chosen_is_not_there)
{
	Holdfast__V1__PluginCall call = HOLDFAST__V1__PLUGIN_CALL__INIT;
	Holdfast__V1__ControllerDeleteRequest request = HOLDFAST__V1__CONTROLLER_DELETE_REQUEST__INIT;
	struct filter *filter = NULL;

	call.request_case = HOLDFAST__V1__PLUGIN_CALL__REQUEST_DELETE;
	call.delete_ = &request; /* where all of them are */
	assert_ok(filter_new("create is not empty or not delete is not empty or attach.read_only == true",
			     &holdfast__v1__plugin_call__descriptor, &filter, NULL));
	assert_false(filter_matches(filter, &call.base));
	filter_free(filter);
}
