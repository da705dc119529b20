#include "hello.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/pb.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum { HELPER_FAILURES_UNHEALTHY = 3 }; /* starts of the helper that fail in a row */

/* An empty string stays the descriptor's own; false when memory is short. */
static bool put_text(char **dst, const char *text)
{
	if (text[0] == '\0')
		return true;
	*dst = strdup(text);
	return *dst != NULL;
}

Holdfast__V1__AllocStatus *hello_alloc_status(const struct alloc *alloc, bool is_short)
{
	Holdfast__V1__AllocStatus *pb = malloc(sizeof(*pb));

	if (!pb)
		return NULL;
	holdfast__v1__alloc_status__init(pb);
	pb->client_status = (Holdfast__V1__ClientStatus)alloc->client_status;
	pb->code = alloc->client_code;
	if (!put_text(&pb->alloc_id, alloc->id) ||
	    (!is_short && !put_text(&pb->description, alloc->client_description)))
		goto fail;
	if (is_short || alloc->n_published == 0)
		return pb;
	pb->published = calloc(alloc->n_published, sizeof(void *));
	if (!pb->published)
		goto fail;
	for (uint32_t i = 0; i < alloc->n_published; i++) {
		pb->published[i] = alloc_volume_to_pb(&alloc->published[i]);
		if (!pb->published[i])
			goto fail;
		pb->n_published = i + 1;
	}
	return pb;
fail:
	protobuf_c_message_free_unpacked(&pb->base, NULL);
	return NULL;
}

static bool put_allocs(Holdfast__V1__SessionHello *hello, const struct allocs *allocs, bool is_short)
{
	const struct alloc_runner *runner = NULL;
	size_t n = allocs_count(allocs);

	if (n == 0)
		return true;
	hello->allocs = calloc(n, sizeof(void *));
	if (!hello->allocs)
		return false;
	while ((runner = allocs_next(allocs, runner))) {
		Holdfast__V1__AllocStatus *status =
			hello_alloc_status(&alloc_runner_record(runner)->alloc, is_short);

		if (!status)
			return false;
		assert(hello->n_allocs < n);
		hello->allocs[hello->n_allocs++] = status;
	}
	return true;
}

/* CSI profiles name what a plugin may do through the helper; the plugins themselves are fingerprinted apart.
 */
static bool is_native(const struct picture_profile *profile)
{
	return profile->class != MH_CLASS_CSI;
}

static Holdfast__V1__NodePlugin *plugin_of(const struct picture_profile *profile,
					   const struct hello_facts *facts)
{
	const struct helper_info *helper = facts->helper;
	bool is_down = !helper->is_running && helper->failures >= HELPER_FAILURES_UNHEALTHY;
	struct node_plugin plugin = {
		.plugin_id = PLUGIN_NATIVE,
		.class = (enum source_class)profile->class,
		.healthy = profile->is_available && !is_down,
		.provider = "holdfast-mounthelper",
	};

	(void)str_copy(plugin.profile, sizeof(plugin.profile), profile->name);
	(void)str_copy(plugin.provider_version, sizeof(plugin.provider_version), facts->agent_version);
	if (is_down)
		(void)str_copy(plugin.health_description, sizeof(plugin.health_description),
			       "the mount helper does not start; see: holdfast agent status");
	else if (!profile->is_available)
		(void)str_copy(plugin.health_description, sizeof(plugin.health_description),
			       "the kernel does not know the file system type");
	return node_plugin_to_pb(&plugin);
}

static bool put_plugins(Holdfast__V1__SessionHello *hello, const struct hello_facts *facts)
{
	if (!facts->picture || facts->picture->n_profiles == 0)
		return true;
	hello->plugins = calloc(NODE_PLUGINS_MAX, sizeof(void *));
	if (!hello->plugins)
		return false;
	for (size_t i = 0; i < facts->picture->n_profiles && hello->n_plugins < NODE_PLUGINS_MAX; i++) {
		Holdfast__V1__NodePlugin *plugin;

		if (!is_native(&facts->picture->profiles[i]))
			continue;
		plugin = plugin_of(&facts->picture->profiles[i], facts);
		if (!plugin)
			return false;
		hello->plugins[hello->n_plugins++] = plugin;
	}
	return true;
}

static Holdfast__V1__SessionHello *make(const struct hello_facts *facts, bool is_short)
{
	Holdfast__V1__SessionHello *hello = malloc(sizeof(*hello));

	if (!hello)
		return NULL;
	holdfast__v1__session_hello__init(hello);
	hello->picture_complete = allocs_is_adopted(facts->allocs);
	if (put_text(&hello->node_id, facts->node_id) && put_text(&hello->boot_id, facts->boot_id) &&
	    put_text(&hello->agent_version, facts->agent_version) &&
	    put_text(&hello->kernel, facts->kernel) && put_plugins(hello, facts) &&
	    put_allocs(hello, facts->allocs, is_short))
		return hello;
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	return NULL;
}

Holdfast__V1__SessionHello *hello_make(const struct hello_facts *facts, bool *ret_is_short)
{
	Holdfast__V1__SessionHello *hello = make(facts, false);

	*ret_is_short = hello && protobuf_c_message_get_packed_size(&hello->base) > HELLO_BYTES_MAX;
	if (!*ret_is_short)
		return hello;
	protobuf_c_message_free_unpacked(&hello->base, NULL);
	return make(facts, true);
}

bool hello_fingerprint_equal(const struct picture *a, const struct picture *b)
{
	if (a->n_profiles != b->n_profiles)
		return false;
	for (size_t i = 0; i < a->n_profiles; i++) {
		if (!str_eq(a->profiles[i].name, b->profiles[i].name) ||
		    a->profiles[i].class != b->profiles[i].class ||
		    a->profiles[i].is_available != b->profiles[i].is_available)
			return false;
	}
	return true;
}
