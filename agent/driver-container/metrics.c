/* SPDX-License-Identifier: Apache-2.0 */
/* Counts of orders, calls and streams, for Prometheus. */
#include "driver.h"

#include "base/strbuf.h"
#include "rpc/scrape.h"

#include <holdfast/driver/v1/driver.pb-c.h>

void driver_metrics_print(const struct driver *driver, struct strbuf *to)
{
	scrape_one(to, "driver_engine_healthy", "gauge", "1 if the engine of containers answers.",
		   driver->health == HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY);
	scrape_head(to, "driver_orders_total", "counter",
		    "Orders of the server since the start, by what became of them.");
	scrape_labelled(to, "driver_orders_total", "result", "used", driver->orders.used);
	scrape_labelled(to, "driver_orders_total", "result", "refused", driver->orders.refused);
	scrape_labelled(to, "driver_orders_total", "result", "failed", driver->orders.failed);
	scrape_one(to, "driver_operations", "gauge", "Calls about tasks in flight, waits included.",
		   driver->n_operations);
	scrape_one(to, "driver_waits", "gauge", "Calls that wait for the end of a task.", driver->n_waits);
	scrape_one(to, "driver_sessions", "gauge", "Open streams: output, commands and usage of tasks.",
		   driver->n_sessions);
}
