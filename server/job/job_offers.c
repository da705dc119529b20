/* SPDX-License-Identifier: Apache-2.0 */
/* Refuses a job whose restart and health blocks no driver offers. */
#include "job/job_offers.h"

#include "base/cleanup.h"
#include "base/str.h"
#include "model/restart.h"
#include "state/state.h"

typedef Holdfast__Driver__V1__CapabilitiesResponse offer_t;
typedef Holdfast__Driver__V1__TaskConfig task_t;

static bool offers_restart(const offer_t *offer)
{
	return offer->restart_tasks;
}

static bool offers_health(const offer_t *offer)
{
	return offer->health_checks;
}

/* Nodes with a driver that has reported its offers, until one has the wanted offer. */
struct survey {
	const char *node_id; /* the last one; NULL: no node has the driver */
	size_t n;
	bool is_offered;
};

static struct survey survey_drivers(const struct state *state, const char *driver,
				    bool (*offers)(const offer_t *))
{
	struct survey survey = {.n = 0};

	for (struct node_entry *node = state_node_from((struct state *)(uintptr_t)state, "");
	     node && !survey.is_offered; node = state_node_next(node)) {
		const Holdfast__V1__NodeDriver *found = node_driver(node, driver);

		if (!found || !found->capabilities)
			continue;
		survey.n++;
		survey.node_id = node->id;
		survey.is_offered = offers(found->capabilities);
	}
	return survey;
}

static enum status check_offer(const struct state *state, const task_t *task, const char *block,
			       bool (*offers)(const offer_t *), struct error *err)
{
	struct survey survey = survey_drivers(state, task->driver, offers);
	char field[ERROR_FIELD_SIZE];

	if (survey.n == 0 || survey.is_offered)
		return STATUS_OK;
	(void)str_format(field, sizeof(field), "task %.63s.%s", task->task, block);
	return error_invalid(err, field,
			     "driver %.63s does not offer it on any of the %zu nodes that have the driver; "
			     "leave it out, or update the driver: holdfast node status %s",
			     task->driver, survey.n, survey.node_id);
}

static enum status check_task(const struct state *state, const task_t *task, struct error *err)
{
	enum status status = STATUS_OK;
	struct error one;

	if (restart_is_wanted(task->restart))
		status = error_collect(status, check_offer(state, task, "restart", offers_restart, &one),
				       &one, err);
	if (task->health)
		status = error_collect(status, check_offer(state, task, "health", offers_health, &one), &one,
				       err);
	return status;
}

enum status job_check_offers(const struct state *state, const Holdfast__V1__Job *job, struct error *err)
{
	enum status status = STATUS_OK;

	for (size_t i = 0; i < job->n_groups; i++) {
		const Holdfast__V1__JobGroup *group = job->groups[i];
		char path[ERROR_FIELD_SIZE];

		(void)str_format(path, sizeof(path), "group %.63s", group->name);
		for (size_t k = 0; k < group->allocation->n_tasks; k++) {
			struct error one;
			enum status judged = check_task(state, group->allocation->tasks[k], &one);

			if (judged != STATUS_OK)
				judged = error_below(&one, path);
			status = error_collect(status, judged, &one, err);
		}
	}
	return status;
}
