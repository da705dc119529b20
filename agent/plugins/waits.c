/* SPDX-License-Identifier: Apache-2.0 */
#include "base/clock.h"
#include "base/str.h"
#include "plugins/plugins_internal.h"
#include "rpc/timer.h"

#include <errno.h>
#include <stdlib.h>

struct plugin_wait {
	TAILQ_ENTRY(plugin_wait) entry;
	struct plugins *plugins;
	char plugin_id[PLUGIN_ID_MAX + 1];
	enum plugin_half half;
	uint64_t timeout_us;
	uint64_t deadline_us;
	plugin_ready_fn *done;
	void *userdata;
	sd_event_source *timer;
};

static void wait_free(struct plugin_wait *wait)
{
	TAILQ_REMOVE(&wait->plugins->waits, wait, entry);
	wait->plugins->n_waits--;
	sd_event_source_disable_unref(wait->timer);
	free(wait);
}

static void end_wait(struct plugin_wait *wait, const struct error *err)
{
	plugin_ready_fn *done = wait->done;
	void *userdata = wait->userdata;

	wait_free(wait);
	done(err, userdata);
}

static enum status ask(const struct plugin_wait *wait, struct error *err)
{
	struct csi_client *client;

	return plugins_client(wait->plugins, wait->plugin_id, wait->half, &client, err);
}

static int on_wait_due(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct plugin_wait *wait = userdata;
	uint64_t now_us = clock_monotonic_us();
	char text[CLOCK_TEXT_SIZE];
	struct error err;
	int r;

	if (ask(wait, &err) == STATUS_OK) {
		end_wait(wait, NULL);
		return 0;
	}
	/* not healthy any more, or the timer was early */
	if (now_us < wait->deadline_us) {
		r = timer_arm(wait->plugins->event, &wait->timer, wait->deadline_us - now_us, on_wait_due,
			      wait);
		if (r >= 0)
			return 0;
	}
	/* what is not here now may come: to whoever asks again it is no other case than a sick one */
	err.status = STATUS_UNAVAILABLE;
	(void)error_prefix(&err, "waited %s (plugin_wait)", clock_format_duration(wait->timeout_us, text));
	end_wait(wait, &err);
	return 0;
}

enum status plugins_wait(struct plugins *plugins, const char *plugin_id, enum plugin_half half,
			 uint64_t timeout_us, plugin_ready_fn *done, void *userdata, struct plugin_wait **ret,
			 struct error *err)
{
	struct plugin_wait *wait;
	int r;

	if (plugins->n_waits == PLUGIN_WAITS_MAX)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, 0,
				 "plugin %s: %d operations wait for plugins already", plugin_id,
				 PLUGIN_WAITS_MAX);
	wait = calloc(1, sizeof(*wait));
	if (!wait)
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, ENOMEM, "cannot wait for plugin %s",
				 plugin_id);
	*wait = (struct plugin_wait){
		.plugins = plugins,
		.half = half,
		.timeout_us = timeout_us,
		.deadline_us = clock_monotonic_us() + timeout_us,
		.done = done,
		.userdata = userdata,
	};
	if (str_copy(wait->plugin_id, sizeof(wait->plugin_id), plugin_id) < 0) {
		free(wait);
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%.64s' is no plugin id", plugin_id);
	}
	r = timer_arm(plugins->event, &wait->timer, ask(wait, NULL) == STATUS_OK ? 0 : timeout_us,
		      on_wait_due, wait);
	if (r < 0) {
		free(wait);
		return error_set(err, STATUS_RESOURCE_EXHAUSTED, r, "cannot wait for plugin %s", plugin_id);
	}
	TAILQ_INSERT_TAIL(&plugins->waits, wait, entry);
	plugins->n_waits++;
	if (ret)
		*ret = wait;
	return STATUS_OK;
}

void plugin_wait_cancel(struct plugin_wait *wait)
{
	if (wait)
		wait_free(wait);
}

void plugins_wake(struct plugins *plugins)
{
	struct plugin_wait *wait;

	TAILQ_FOREACH (wait, &plugins->waits, entry) {
		if (ask(wait, NULL) == STATUS_OK)
			/* else at its deadline */
			(void)timer_arm(plugins->event, &wait->timer, 0, on_wait_due, wait);
	}
}

void plugins_drop_waits(struct plugins *plugins)
{
	struct plugin_wait *wait;
	struct error err;

	(void)error_set(&err, STATUS_CANCELLED, 0, "the agent ends");
	while ((wait = TAILQ_FIRST(&plugins->waits)))
		end_wait(wait, &err);
}
