/* SPDX-License-Identifier: Apache-2.0 */
#include "kill.h"

#include "base/str.h"

#include <string.h>

enum { REQUEST = 512 };

static void alloc_id(int alloc, char ret[static UUID_TEXT_SIZE])
{
	(void)str_format(ret, UUID_TEXT_SIZE, "018%05d-0000-7000-" ID_MARK, alloc);
}

int kill_add_volume(struct kill *k, const char *id, bool is_csi)
{
	struct sim_volume *volume = &k->sim.volumes[k->sim.n_volumes];

	*volume = (struct sim_volume){
		.mode = HOLDFAST__V1__ACCESS_MODE__SINGLE_NODE_WRITER, .is_csi = is_csi, .exists = true};
	(void)str_copy(volume->id, sizeof(volume->id), id);
	return k->sim.n_volumes++;
}

static void know_volume(struct kill *k, const char *id)
{
	struct kill_fact fact = {.method = "Volumes.Get", .status = STATUS_OK};

	(void)str_format(fact.about, sizeof(fact.about), "volume %s", id);
	(void)str_format(fact.request, sizeof(fact.request), "{\"id\":\"%s\"}", id);
	kill_know(k, &fact);
}

void kill_register(struct kill *k, int number)
{
	struct sim_volume *volume = &k->sim.volumes[number];
	char request[REQUEST];

	(void)str_format(request, sizeof(request),
			 "{\"volume\":{\"id\":\"%s\",\"type\":\"%s\",%s,"
			 "\"requestedCapabilities\":[{\"accessMode\":\"SINGLE_NODE_WRITER\","
			 "\"attachmentMode\":\"FILE_SYSTEM\"}]}}",
			 volume->id, volume->is_csi ? "CSI" : "NATIVE",
			 volume->is_csi ? "\"pluginId\":\"csi\""
					: "\"profile\":\"disk\",\"source\":{\"class\":\"BLOCK\","
					  "\"byId\":\"wwn-0x1\"}");
	kill_must(k, "Volumes.Register", request, STATUS_OK);
	volume->is_known = true;
	know_volume(k, volume->id);
}

static void know_alloc(struct kill *k, int alloc, const char *desired)
{
	struct kill_fact fact = {.method = "Allocations.Get", .status = STATUS_OK};
	char id[UUID_TEXT_SIZE];

	alloc_id(alloc, id);
	(void)str_format(fact.about, sizeof(fact.about), "allocation %d", alloc);
	(void)str_format(fact.request, sizeof(fact.request), "{\"id\":\"%s\"}", id);
	(void)str_format(fact.part, sizeof(fact.part), "\"desiredStatus\":\"%s\"", desired);
	kill_know(k, &fact);
}

void kill_run(struct kill *k, int alloc, int volume, int node)
{
	char request[REQUEST];
	char id[UUID_TEXT_SIZE];

	alloc_id(alloc, id);
	(void)str_format(request, sizeof(request),
			 "{\"allocation\":{\"id\":\"%s\",\"name\":\"app\",\"nodeId\":\"%s\",\"volumes\":[{"
			 "\"name\":\"data\",\"source\":\"%s\",\"accessMode\":\"SINGLE_NODE_WRITER\"}]}}",
			 id, k->sim.nodes[node].id, k->sim.volumes[volume].id);
	kill_must(k, "Allocations.Run", request, STATUS_OK);
	know_alloc(k, alloc, "RUN");
}

void kill_stop(struct kill *k, int alloc)
{
	char request[REQUEST];
	char about[KILL_NAME];
	char id[UUID_TEXT_SIZE];

	alloc_id(alloc, id);
	(void)str_format(about, sizeof(about), "allocation %d", alloc);
	kill_doubt(k, about);
	(void)str_format(request, sizeof(request), "{\"id\":\"%s\"}", id);
	kill_must(k, "Allocations.Stop", request, STATUS_OK);
	know_alloc(k, alloc, "STOP");
}

struct sim_entry *kill_entry(struct kill *k, int alloc, int node)
{
	char id[UUID_TEXT_SIZE];

	alloc_id(alloc, id);
	return sim_node_find(&k->sim.nodes[node], id);
}

bool kill_is_running(struct kill *k, int alloc, int node)
{
	const struct sim_entry *entry = kill_entry(k, alloc, node);

	return entry && entry->phase == SIM_MOUNTED && entry->mounted_acked;
}

bool kill_is_over(struct kill *k, int alloc, int node)
{
	const struct sim_entry *entry = kill_entry(k, alloc, node);

	return !entry || entry->phase == SIM_UNMOUNTED;
}

bool kill_shows(struct kill *k, const char *method, const char *request, const char *part)
{
	return kill_ask(k, method, request) == STATUS_OK && strstr(k->text, part);
}

bool kill_is_free(struct kill *k, int volume)
{
	char request[REQUEST];

	(void)str_format(request, sizeof(request), "{\"id\":\"%s\"}", k->sim.volumes[volume].id);
	return kill_ask(k, "Volumes.Get", request) == STATUS_OK && !strstr(k->text, "\"writers\"") &&
	       !strstr(k->text, "\"readers\"");
}
