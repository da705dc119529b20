/* SPDX-License-Identifier: Apache-2.0 */
#pragma once
/* A model of systemd and of the bus before it, in the test's process: real sd-bus on both ends of a
 * socketpair. In the place of task_bus_open(), as __wrap_task_bus_open(). */

#include <stdbool.h>
#include <stdint.h>
#include <systemd/sd-event.h>

enum { FAKE_UNITS = 4 };

struct fake_unit {
	char name[64];
	const char *load, *active, *sub, *result;
	uint8_t invocation; /* 0: none; else each byte of it */
	bool has_job;
	bool is_condition_unmet;
	uint64_t stop_timeout_us;
	unsigned int starts, stops; /* asked for */
	/* orders */
	const char *refuse_start, *refuse_stop; /* name of the error; NULL: as asked */
	bool is_mute;				/* StartUnit is never answered, nor done */
	bool is_slow;				/* starts only as far as "activating" */
	bool is_stubborn;			/* stops only as far as "deactivating" */
};

struct fake_systemd {
	struct fake_unit units[FAKE_UNITS];
	unsigned int connections;
	unsigned int looks;
	bool is_refusing;   /* connections */
	bool is_dumb;	    /* answers nothing */
	const char *sender; /* of signals, "org.freedesktop.systemd1" unless a test pretends */
};

/** One for the whole test. */
struct fake_systemd *fake_systemd_init(sd_event *event);
void fake_systemd_release(void);

/** A loaded, inactive unit. */
struct fake_unit *fake_systemd_add(const char *name);

/** Tell a change of it, as PropertiesChanged does. */
void fake_systemd_changed(struct fake_unit *unit);
void fake_systemd_set(struct fake_unit *unit, const char *active, const char *sub);

/** Its job is done: JobRemoved. */
void fake_systemd_job_done(struct fake_unit *unit, const char *result);

/** Close the connection, as a restart of the bus does. */
void fake_systemd_drop(void);
