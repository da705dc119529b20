/* SPDX-License-Identifier: Apache-2.0 */
/* Lists of volumes: what is on which page, from which source, and who is woken. */

#include "provider_world.h"
#include "unit.h"

#include "base/strbuf.h"

/* namespace and id of what is registered, in no order */
static const struct {
	const char *namespace, *id, *plugin;
} all[] = {
	{"default", "web-2", "nfs"}, {"default", "db", "nfs"},	{"zeta", "db", "nfs"},
	{"default", "db-2", "nfs"},  {"alpha", "db", "nfs"},	{"default", "web", "other"},
	{"alpha", "db2", "nfs"},     {"default", "a", "other"},
};

static void register_all(struct fixture *f)
{
	struct plugin_instance other = {.node_id = "n1",
					.plugin = {.plugin_id = "other", .healthy = true, .has_node = true}};

	assert_int_equal(state_put_instance(&f->server->state, &other, NULL), STATUS_OK);
	for (size_t i = 0; i < ARRAY_SIZE(all); i++) {
		char json[512];

		assert_true(str_format(json, sizeof(json),
				       "{\"volume\":{\"id\":\"%s\",\"namespace\":\"%s\",\"type\":\"CSI\","
				       "\"pluginId\":\"%s\",\"externalId\":\"vol-%zu\",\"parameters\":{\"n\":"
				       "\"%zu\"}," CAPABILITIES "}}",
				       all[i].id, all[i].namespace, all[i].plugin, i, i) > 0);
		must(f, "Register", json, NULL);
	}
}

/* "ns.id ns.id" of one answer; the next token behind "|" when there is one. */
static void summarize(const char *json, struct strbuf *sb)
{
	const char *at = json;
	const char *token = strstr(json, "\"nextToken\":\"");

	/* a volume begins with its id and namespace */
	while ((at = strstr(at, "{\"id\":\""))) {
		const char *id = at + strlen("{\"id\":\"");
		const char *namespace = strstr(id, "\"namespace\":\"") + strlen("\"namespace\":\"");

		strbuf_printf(sb, "%s%.*s.%.*s", sb->len > 0 ? " " : "", (int)strcspn(namespace, "\""),
			      namespace, (int)strcspn(id, "\""), id);
		at = id;
	}
	if (token) {
		token += strlen("\"nextToken\":\"");
		strbuf_printf(sb, "|%.*s", (int)strcspn(token, "\""), token);
	}
}

static void lists(struct fixture *f, const char *request, const char *expected)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(16384);
	static struct answer answer;

	assert_msg(ask(f, "List", request, &answer) == STATUS_OK, "%s: %s", request, answer.err.msg);
	strbuf_puts(&sb, "");
	summarize(answer.json, &sb);
	assert_msg(str_eq(sb.data ? sb.data : "", expected), "%s: '%s', not '%s'", request,
		   sb.data ? sb.data : "", expected);
}

#define CASE(name) TEST_ON(name, struct fixture, f, provider_setup, provider_teardown)

CASE(lists_are_ordered_and_narrowed_by_every_condition)
{
	static const struct {
		const char *request, *expected;
	} cases[] = {
		{"{}", "default.a default.db default.db-2 default.web default.web-2"},
		{"{\"namespace\":\"*\"}", "alpha.db alpha.db2 default.a default.db default.db-2 default.web "
					  "default.web-2 zeta.db"},
		{"{\"namespace\":\"none\"}", ""},
		{"{\"namespace\":\"alph\"}", ""}, /* whole names */
		{"{\"prefix\":\"db\"}", "default.db default.db-2"},
		{"{\"prefix\":\"db\",\"namespace\":\"*\"}",
		 "alpha.db alpha.db2 default.db default.db-2 zeta.db"},
		{"{\"prefix\":\"zz\",\"namespace\":\"*\"}", ""},
		{"{\"pluginId\":\"nfs\"}", "default.db default.db-2 default.web-2"},
		{"{\"pluginId\":\"other\"}", "default.a default.web"},
		{"{\"pluginId\":\"nfs\",\"prefix\":\"web\"}", "default.web-2"},
		{"{\"pluginId\":\"nfs\",\"namespace\":\"*\"}",
		 "alpha.db alpha.db2 default.db default.db-2 default.web-2 zeta.db"},
		{"{\"pluginId\":\"nfs\",\"namespace\":\"*\",\"prefix\":\"db2\"}", "alpha.db2"},
		{"{\"pluginId\":\"none\"}", ""},
		{"{\"type\":\"CSI\",\"pluginId\":\"other\"}", "default.a default.web"},
		{"{\"type\":\"NATIVE\"}", ""},
		{"{\"type\":\"NATIVE\",\"pluginId\":\"other\"}", ""},
		{"{\"type\":\"NATIVE\",\"nodeId\":\"n1\"}", ""},
		{"{\"nodeId\":\"n1\"}", "default.db default.web"},
		{"{\"nodeId\":\"n1\",\"namespace\":\"*\"}", "default.db default.web"},
		{"{\"nodeId\":\"n1\",\"pluginId\":\"nfs\"}", "default.db"},
		{"{\"nodeId\":\"n1\",\"prefix\":\"w\"}", "default.web"},
		{"{\"nodeId\":\"n2\"}", ""},
		{"{\"nodeId\":\"none\"}", ""},
		{"{\"filter\":\"plugin_id == other\"}", "default.a default.web"},
		{"{\"filter\":\"parameters.n == \\\"1\\\" or writers != 0\"}", "default.db default.web"},
		{"{\"filter\":\"not id contains b\",\"namespace\":\"*\"}", "default.a"},
		{"{\"perPage\":2}", "default.a default.db|default.db-2"},
		{"{\"perPage\":2,\"nextToken\":\"default.db-2\"}", "default.db-2 default.web|default.web-2"},
		{"{\"perPage\":2,\"nextToken\":\"default.web-2\"}", "default.web-2"},
		{"{\"perPage\":5}", "default.a default.db default.db-2 default.web default.web-2"},
		/* the volume that a token names may have gone */
		{"{\"perPage\":1,\"nextToken\":\"default.b\"}", "default.db|default.db-2"},
		{"{\"perPage\":3,\"namespace\":\"*\",\"prefix\":\"db\"}",
		 "alpha.db alpha.db2 default.db|default.db-2"},
		{"{\"perPage\":3,\"namespace\":\"*\",\"prefix\":\"db\",\"nextToken\":\"default.db-2\"}",
		 "default.db-2 zeta.db"},
		{"{\"perPage\":1,\"pluginId\":\"nfs\",\"namespace\":\"*\",\"nextToken\":\"default.db\"}",
		 "default.db|default.db-2"},
		{"{\"perPage\":1,\"nodeId\":\"n1\"}", "default.db|default.web"},
		{"{\"perPage\":1,\"nodeId\":\"n1\",\"nextToken\":\"default.web\"}", "default.web"},
		/* a token of another namespace leads nowhere */
		{"{\"nextToken\":\"zeta.db\"}", ""},
	};

	register_all(f);
	claim_volume(f, "db", "n1", 1);
	claim_volume(f, "web", "n1", 2);
	claim_volume(f, "db", "n1", 3);
	for (size_t i = 0; i < ARRAY_SIZE(cases); i++)
		lists(f, cases[i].request, cases[i].expected);
}

PROVIDER_TEST(pages_of_any_size_together_are_the_whole)
{
	register_all(f);
	for (unsigned int size = 1; size <= ARRAY_SIZE(all) + 1; size++) {
		char token[256] = "";
		size_t seen = 0;

		do {
			static struct answer answer;
			cleanup_strbuf struct strbuf sb = STRBUF_INIT(16384);
			char request[512];
			const char *behind;

			assert_true(str_format(request, sizeof(request),
					       "{\"namespace\":\"*\",\"perPage\":%u,\"nextToken\":\"%s\"}",
					       size, token) > 0);
			assert_int_equal(ask(f, "List", request, &answer), STATUS_OK);
			summarize(answer.json, &sb);
			for (const char *p = sb.data; *p != '\0' && *p != '|'; p++)
				seen += *p == '.';
			behind = strchr(sb.data, '|');
			assert_int_equal(str_copy(token, sizeof(token), behind ? behind + 1 : ""), 0);
		} while (token[0] != '\0');
		assert_int_equal(seen, ARRAY_SIZE(all));
	}
}

PROVIDER_TEST(a_page_may_begin_with_a_volume_of_a_member)
{
	for (int i = 0; i < 2; i++) {
		char json[512];

		(void)str_format(
			json, sizeof(json),
			"{\"volume\":{\"id\":\"db[%d]\",\"type\":\"CSI\",\"pluginId\":\"nfs\",\"externalId\":"
			"\"vol-%d\"," CAPABILITIES "}}",
			i, i);
		must(f, "Register", json, NULL);
	}
	lists(f, "{\"perPage\":1}", "default.db[0]|default.db[1]");
	lists(f, "{\"perPage\":1,\"nextToken\":\"default.db[1]\"}", "default.db[1]");
}

/* Pages of the whole list with a filter that asks @n times for @one, which no volume has. */
static size_t count_pages(struct fixture *f, const char *one, int n)
{
	cleanup_strbuf struct strbuf filter = STRBUF_INIT(4096);
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	char token[256] = "";
	size_t n_pages = 0;

	for (int i = 0; i < n; i++)
		strbuf_printf(&filter, "%s%s", i > 0 ? " or " : "", one);
	request.filter = filter.data;
	request.next_token = token;
	do {
		cleanup_pb ProtobufCMessage *response = NULL;
		const Holdfast__V1__ListVolumesResponse *page;

		assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "List", &request.base,
			       &response, NULL));
		page = (const void *)response;
		assert_int_equal(page->n_volumes, 0);
		assert_int_equal(str_copy(token, sizeof(token), page->next_token), 0);
		n_pages++;
	} while (token[0] != '\0');
	return n_pages;
}

CASE(a_page_ends_before_it_is_too_large_for_a_message)
{
	enum { N = 200, VALUE = 15 * 1024 };
	static char json[VALUE + 1024], value[VALUE + 1];
	Holdfast__V1__ListVolumesRequest request = HOLDFAST__V1__LIST_VOLUMES_REQUEST__INIT;
	cleanup_pb ProtobufCMessage *response = NULL;

	memset(value, 'x', VALUE);
	for (int i = 0; i < N; i++) {
		assert_true(str_format(json, sizeof(json),
				       "{\"volume\":{\"id\":\"v%d\",\"type\":\"CSI\",\"pluginId\":\"nfs\","
				       "\"parameters\":{\"p\":\"%s\"}," CAPABILITIES "}}",
				       i, value) > 0);
		must(f, "Register", json, NULL);
	}
	assert_ok(call(&f->operator, & holdfast__v1__volumes__descriptor, "List", &request.base, &response,
		       NULL));
	assert_true(((Holdfast__V1__ListVolumesResponse *)(void *)response)->n_volumes < N);
	assert_true(((Holdfast__V1__ListVolumesResponse *)(void *)response)->next_token[0] != '\0');
	/* nor does a filter look at more of them in one turn, or at fewer with much to compare */
	assert_in_range(count_pages(f, "id==none", 1), 2, 4);
	assert_in_range(count_pages(f, "parameters.p contains y", 50), 12, N);
}

PROVIDER_TEST(one_page_asks_its_filter_about_so_many_and_continues_from_there)
{
	struct volume volume = ROW(.namespace = "default", .type = VOLUME_CSI, .plugin_id = "nfs",
				   .external_id = "x", .name = "x");

	for (int i = 0; i < VOLUMES_LOOK_AT_MAX; i++) {
		(void)str_format(volume.id, sizeof(volume.id), "v%05d", i);
		assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
	}
	lists(f, "{\"filter\":\"id == none\"}", "");
	(void)str_copy(volume.id, sizeof(volume.id), "w");
	assert_int_equal(state_put_volume(&f->server->state, &volume, NULL), STATUS_OK);
	lists(f, "{\"filter\":\"id == w\"}", "|default.w");
	lists(f, "{\"filter\":\"id == w\",\"nextToken\":\"default.w\"}", "default.w");
	lists(f, "{\"filter\":\"id == w\",\"prefix\":\"w\"}", "default.w");
}

PROVIDER_TEST(a_list_by_plugin_that_waits_is_woken_by_a_volume)
{
	struct pending pending;
	char request[128];

	must(f, "Register", DB, NULL);
	assert_true(str_format(request, sizeof(request),
			       "{\"pluginId\":\"nfs\",\"index\":\"%d\",\"waitMs\":60000}",
			       (int)kv_revision(f->server->kv)) > 0);
	start_asking(f, "List", request, &pending);
	settle(f);
	assert_false(pending.ended);
	must(f, "Register",
	     "{\"volume\":{\"id\":\"db2\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "}}", NULL);
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
}

PROVIDER_TEST(a_read_that_waits_is_woken_by_its_details_and_not_by_another_volume)
{
	struct pending pending;
	char request[128];

	must(f, "Register", DB, NULL);
	assert_true(str_format(request, sizeof(request), "{\"id\":\"db\",\"index\":\"%d\",\"waitMs\":60000}",
			       (int)kv_revision(f->server->kv)) > 0);
	start_asking(f, "Get", request, &pending);
	must(f, "Register",
	     "{\"volume\":{\"id\":\"db2\",\"type\":\"CSI\",\"pluginId\":\"nfs\"," CAPABILITIES "}}", NULL);
	settle(f);
	assert_false(pending.ended);
	must(f, "Register", "{\"volume\":{" DB_HEAD ",\"context\":{\"c\":\"1\"}}}", NULL);
	UNTIL(f, pending.ended);
	assert_int_equal(pending.status, STATUS_OK);
}

PROVIDER_TEST(a_dry_detach_lists_claims_and_frees_no_claim)
{
	must(f, "Register", DB, NULL);
	claim_volume(f, "db", "n1", 1);
	state_node(&f->server->state, "n1")->node.disconnected_ms = 1;
	must(f, "Detach", "{\"id\":\"db\",\"nodeId\":\"n1\",\"attestReason\":\"it burnt\",\"dryRun\":true}",
	     "\"state\":\"TAKEN\"");
	assert_int_equal(state_volume(&f->server->state, "default", "db")->n_live, 1);
	refuses(f, "Detach", "{\"id\":\"db\",\"nodeId\":\"n1\",\"dryRun\":true}", STATUS_FAILED_PRECONDITION,
		"in use");
	refuses(f, "Detach", "{\"id\":\"db\",\"nodeId\":\"n2\",\"dryRun\":true}", STATUS_FAILED_PRECONDITION,
		"nothing was changed");
	free_claims(f, "db");
}
