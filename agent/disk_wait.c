/* SPDX-License-Identifier: Apache-2.0 */
/* Waits at the start for room on the disk of the journal, and answers Status meanwhile. */
#include "disk_wait.h"

#include "alloc/journal_disk.h"
#include "base/cleanup.h"
#include "base/clock.h"
#include "base/str.h"
#include "log/log.h"
#include "log/service.h"
#include "model/node.h"
#include "status/local.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

struct waiting {
	const struct config *config;
	sd_event *event;
	struct journal_disk *disk;
	struct local *local;
	struct service_watchdog *watchdog;
	sd_event_source *timer;
	enum disk_wait outcome;
	char text[ERROR_MSG_MAX];
};

/* The report is always ready. */
static bool prepare(local_ready_fn *ready, void *ready_userdata, void *userdata)
{
	return false;
}

static Holdfast__V1__GetAgentStatusResponse *report(void *userdata)
{
	const struct waiting *waiting = userdata;
	Holdfast__V1__GetAgentStatusResponse *response = malloc(sizeof(*response));

	if (!response)
		return NULL;
	holdfast__v1__get_agent_status_response__init(response);
	response->version = strdup(HOLDFAST_VERSION);
	response->node_id = strdup(waiting->config->node_id);
	response->cluster = strdup(waiting->config->cluster);
	response->problems = calloc(1, sizeof(*response->problems));
	if (response->problems && (response->problems[0] = strdup(waiting->text)))
		response->n_problems = 1;
	if (response->version && response->node_id && response->cluster && response->n_problems == 1)
		return response;
	protobuf_c_message_free_unpacked(&response->base, NULL);
	return NULL;
}

static enum status refuse_drain(const Holdfast__V1__DrainAgentRequest *request,
				Holdfast__V1__DrainAgentResponse **ret, void *userdata, struct error *err)
{
	const struct waiting *waiting = userdata;

	return error_set(err, STATUS_UNAVAILABLE, 0, "%s", waiting->text);
}

static const struct local_handlers handlers = {.prepare = prepare, .report = report, .drain = refuse_drain};

static int on_timer(sd_event_source *source, uint64_t usec, void *userdata)
{
	struct waiting *waiting = userdata;

	if (journal_disk_takes_writes(waiting->disk)) {
		waiting->outcome = DISK_WAIT_TAKES_WRITES;
		return sd_event_exit(waiting->event, 0);
	}
	(void)sd_event_source_set_time_relative(source, USEC_PER_SEC);
	(void)sd_event_source_set_enabled(source, SD_EVENT_ONESHOT);
	return 0;
}

static int on_signal(sd_event_source *source, const struct signalfd_siginfo *info, void *userdata)
{
	struct waiting *waiting = userdata;

	waiting->outcome = DISK_WAIT_ENDED;
	return sd_event_exit(waiting->event, 0);
}

static void describe(struct waiting *waiting)
{
	char text[NODE_DISK_TEXT_SIZE];
	char next[NODE_DISK_TEXT_SIZE];
	enum node_disk trouble = journal_disk_trouble(waiting->disk);
	const char *folder = waiting->config->data_dir;
	size_t n;

	(void)str_format(waiting->text, sizeof(waiting->text),
			 "the agent waits at its start, as it cannot write its journal: %s. Mounts "
			 "stay; it continues when there is room. Next: %s",
			 node_disk_text(trouble, folder, text), node_disk_command(trouble, folder, next));
	n = strlen(waiting->text);
	if (trouble == NODE_DISK_READ_ONLY)
		(void)str_format(waiting->text + n, sizeof(waiting->text) - n,
				 "; if only its unit has it read-only, name data_dir of %.200s by "
				 "ReadWritePaths= in a drop-in of the unit",
				 waiting->config->path);
}

static void loop(struct waiting *waiting)
{
	char message[SERVICE_TEXT_MAX];
	struct error err;
	int r;

	describe(waiting);
	log_line(LOG_ERR, "%s", waiting->text);
	(void)str_format(message, sizeof(message), "READY=1\nSTATUS=%.1000s\n", waiting->text);
	(void)service_send(message);
	if (local_new(waiting->event, waiting->config->socket, &handlers, waiting, &waiting->local, &err) !=
	    STATUS_OK)
		log_line(LOG_WARNING, "%s", err.msg);
	r = sd_event_add_signal(waiting->event, NULL, SIGTERM, on_signal, waiting);
	if (r >= 0)
		r = sd_event_add_signal(waiting->event, NULL, SIGINT, on_signal, waiting);
	if (r >= 0)
		r = sd_event_add_time_relative(waiting->event, &waiting->timer, CLOCK_MONOTONIC, USEC_PER_SEC,
					       0, on_timer, waiting);
	if (r >= 0 && service_watchdog_new(waiting->event, &waiting->watchdog, &err) == STATUS_OK)
		(void)sd_event_loop(waiting->event);
}

enum disk_wait disk_wait(const struct config *config, const struct error *why)
{
	struct waiting waiting = {.config = config};
	struct error err;

	if (sd_event_new(&waiting.event) < 0)
		return DISK_WAIT_NOT_THE_REASON;
	if (journal_disk_new(waiting.event, config->data_dir, config->disk_reserve, NULL, NULL, &waiting.disk,
			     &err) == STATUS_OK &&
	    journal_disk_is_reason(waiting.disk)) {
		log_line(LOG_ERR, "%s", why->msg);
		loop(&waiting);
	}
	service_watchdog_free(waiting.watchdog);
	local_free(waiting.local);
	waiting.timer = sd_event_source_disable_unref(waiting.timer);
	journal_disk_free(waiting.disk);
	sd_event_unref(waiting.event);
	return waiting.outcome;
}
