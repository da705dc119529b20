/* SPDX-License-Identifier: Apache-2.0 */
#include "alloc/runner_internal.h"
#include "base/clock.h"
#include "base/str.h"
#include "plugins/plugins.h"

bool runner_runs_plugin(const struct alloc_runner *runner)
{
	return runner->record->alloc.csi_plugin.type != CSI_PLUGIN_NONE;
}

static enum status expect(struct alloc_runner *runner, struct error *err)
{
	const struct runner_env *env = runner->env;
	enum status status = env->expect_plugin(&runner->record->alloc, env->userdata, err);

	runner->is_plugin_expected = status == STATUS_OK;
	return status;
}

void runner_forget_plugin(struct alloc_runner *runner)
{
	if (!runner->is_plugin_expected)
		return;
	runner->is_plugin_expected = false;
	runner->env->forget_plugin(runner->record->alloc.id, runner->env->userdata);
}

void runner_begin_plugin(struct alloc_runner *runner)
{
	struct alloc *alloc = &runner->record->alloc;
	uint32_t timeout_ms = alloc->csi_plugin.health_timeout_ms;
	struct error err;

	runner_begin_op(runner, RUNNER_PLUGIN, alloc->n_volumes);
	runner->op_deadline_ms =
		clock_realtime_ms() + (timeout_ms ? timeout_ms : PLUGIN_HEALTH_TIMEOUT_DEFAULT_MS);
	if (expect(runner, &err) != STATUS_OK) {
		runner_end_op(runner);
		runner_fail(runner, &err);
		return;
	}
	/* for whoever asks what it waits for; not worth a write */
	(void)str_format(runner->record->description, sizeof(runner->record->description),
			 "waiting until its plugin %s is healthy", alloc->csi_plugin.id);
	runner->env->on_status(alloc, runner->env->userdata);
}

void alloc_runner_expect(struct alloc_runner *runner)
{
	struct error err;

	if (!runner_runs_plugin(runner) || runner->record->phase != ALLOC_RUNNING)
		return;
	runner->is_plugin_ready = true;
	if (expect(runner, &err) != STATUS_OK)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = runner->record->alloc.id,
					  .plugin = runner->record->alloc.csi_plugin.id,
					  .op = "plugin",
					  .err = &err},
			"the plugin of a running allocation is not expected, ignoring");
}

void alloc_runner_plugin_ready(struct alloc_runner *runner, const struct error *err)
{
	const struct alloc *alloc = &runner->record->alloc;

	if (runner->op == RUNNER_PLUGIN) {
		runner->is_plugin_ready = !err;
		runner_end_op(runner);
		if (err)
			runner_fail(runner, err);
		else
			runner_advance(runner);
		return;
	}
	/* a restart of the agent fails nothing that runs */
	if (err && runner->record->phase == ALLOC_RUNNING)
		log_ctx(LOG_WARNING,
			&(struct log_ctx){.alloc = alloc->id,
					  .plugin = alloc->csi_plugin.id,
					  .op = "plugin",
					  .err = err},
			"the plugin of a running allocation is not healthy after the restart of the agent");
}
