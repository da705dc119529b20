/* SPDX-License-Identifier: Apache-2.0 */
/* What the driver counts. */

#include "driver.h"
#include "unit.h"

#include "base/strbuf.h"

#include <holdfast/driver/v1/driver.pb-c.h>

static void expect(const struct driver *driver, const char *const *lines, size_t n)
{
	cleanup_strbuf struct strbuf sb = STRBUF_INIT(1 << 16);

	driver_metrics_print(driver, &sb);
	for (size_t i = 0; i < n; i++)
		assert_msg(strstr(sb.data, lines[i]), "%s is not in\n%s", lines[i], sb.data);
}

TEST(the_driver_counts_orders_calls_and_its_engine)
{
	static const char *const at_rest[] = {
		"\nholdfast_driver_engine_healthy 0\n",
		"\nholdfast_driver_orders_total{result=\"used\"} 0\n",
		"\nholdfast_driver_operations 0\n",
	};
	static const char *const at_work[] = {
		"\nholdfast_driver_engine_healthy 1\n",
		"\nholdfast_driver_orders_total{result=\"used\"} 5\n",
		"\nholdfast_driver_orders_total{result=\"refused\"} 6\n",
		"\nholdfast_driver_orders_total{result=\"failed\"} 7\n",
		"\nholdfast_driver_operations 8\n",
		"\nholdfast_driver_waits 3\n",
		"\nholdfast_driver_sessions 2\n",
	};
	struct driver driver = {.n_sessions = 0};

	expect(&driver, at_rest, ARRAY_SIZE(at_rest));
	driver.health = HOLDFAST__DRIVER__V1__HEALTH__HEALTH_HEALTHY;
	driver.orders.used = 5;
	driver.orders.refused = 6;
	driver.orders.failed = 7;
	driver.n_operations = 8;
	driver.n_waits = 3;
	driver.n_sessions = 2;
	expect(&driver, at_work, ARRAY_SIZE(at_work));
}
