/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* The agent's report as metrics for Prometheus: counts, with plugins and drivers as labels. All who reach
 * the port can read them, so they name no volume and no allocation. */

#include <holdfast/v1/agent.pb-c.h>

struct strbuf;

/** Write @report as of @now_ms. Pure. */
void agent_metrics_print(const Holdfast__V1__GetAgentStatusResponse *report, int64_t now_ms,
			 struct strbuf *to);
