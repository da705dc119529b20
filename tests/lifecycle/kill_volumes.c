/* SPDX-License-Identifier: Apache-2.0 */
/* Volumes and snapshots that are made and deleted at their provider. */

#include "kill.h"

#include "base/str.h"

#include <string.h>

#define CREATE                                                                                          \
	"{\"volume\":{\"id\":\"db\",\"type\":\"CSI\",\"pluginId\":\"csi\",\"capacityMin\":\"1000000\"," \
	"\"parameters\":{\"id\":\"db\"},\"requestedCapabilities\":[{\"accessMode\":"                    \
	"\"SINGLE_NODE_WRITER\",\"attachmentMode\":\"FILE_SYSTEM\"}]}}"
#define DB "{\"id\":\"db\"}"

static void know_db(struct kill *k, enum status status, const char *part)
{
	struct kill_fact fact = {.about = "volume db", .method = "Volumes.Get", .request = DB};

	fact.status = status;
	(void)strncat(fact.part, part, sizeof(fact.part) - 1);
	kill_know(k, &fact);
}

static void create(struct kill *k)
{
	kill_doubt(k, "volume db");
	kill_must(k, "Volumes.Create", CREATE, STATUS_OK);
	know_db(k, STATUS_OK, "\"capacity\":\"1000000\"");
	k->sim.volumes[0].is_known = true;
	if (!k->sim.volumes[0].exists)
		sim_fail(&k->sim, "a volume is said to be created and is not at its provider");
}

static void expand(struct kill *k)
{
	kill_doubt(k, "volume db");
	kill_must(k, "Volumes.Expand", "{\"id\":\"db\",\"capacityMin\":\"2000000\"}", STATUS_OK);
	know_db(k, STATUS_OK, "\"capacity\":\"2000000\"");
	if (k->sim.volumes[0].capacity != 2000000)
		sim_fail(&k->sim, "a volume is said to be larger than it is at its provider");
}

static void delete (struct kill *k)
{
	kill_doubt(k, "volume db");
	k->sim.volumes[0].is_known = false;
	kill_must(k, "Volumes.Delete", DB, STATUS_NOT_FOUND);
	know_db(k, STATUS_NOT_FOUND, "");
	if (k->sim.volumes[0].exists)
		sim_fail(&k->sim, "a volume is said to be deleted and is at its provider");
	k->sim.volumes[0].modify_index = 0;
}

static void prepare(struct kill *k)
{
	kill_add_volume(k, "db", true);
	k->sim.volumes[0].exists = false;
}

static void run_made(struct kill *k)
{
	create(k);
	kill_run(k, 1, 0, 0);
	KILL_UNTIL(k, kill_is_running(k, 1, 0));
	expand(k); /* also the file system where it is used */
	kill_stop(k, 1);
	KILL_UNTIL(k, kill_is_free(k, 0));
	delete (k);
	create(k); /* another one of that name, whose generations continue */
}

#define SNAPSHOT "{\"volumeId\":\"db\",\"name\":\"monday\"}"

static void know_snapshot(struct kill *k, bool is_there)
{
	struct kill_fact fact = {
		.about = "snapshot", .method = "Volumes.ListSnapshots", .request = "{}", .status = STATUS_OK};

	(void)strncat(is_there ? fact.part : fact.not_there, "\"name\":\"monday\"", sizeof(fact.part) - 1);
	kill_know(k, &fact);
}

static bool has_snapshot(const struct kill *k)
{
	return k->sim.snapshots[0].name[0] != '\0';
}

static void prepare_made(struct kill *k)
{
	prepare(k);
	create(k);
}

static void run_snapshots(struct kill *k)
{
	char deletion[256];

	kill_must(k, "Volumes.CreateSnapshot", SNAPSHOT, STATUS_OK);
	know_snapshot(k, true);
	if (!has_snapshot(k))
		sim_fail(&k->sim, "a snapshot is said to be made and is not at its provider");
	kill_doubt(k, "snapshot");
	(void)str_format(deletion, sizeof(deletion), "{\"pluginId\":\"csi\",\"snapshotId\":\"%s\"}",
			 k->sim.snapshots[0].name); /* the model's id of a snapshot is its name */
	kill_must(k, "Volumes.DeleteSnapshot", deletion, STATUS_NOT_FOUND);
	know_snapshot(k, false);
	if (has_snapshot(k))
		sim_fail(&k->sim, "a snapshot is said to be deleted and is at its provider");
}

const struct kill_scenario kill_scenarios_of_volumes[] = {
	{.name = "made", .prepare = prepare, .run = run_made},
	{.name = "snapshots", .prepare = prepare_made, .run = run_snapshots},
	{.name = NULL},
};
