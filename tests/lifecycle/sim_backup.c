#include "sim.h"

#include "base/str.h"

#include <holdfast/v1/operator.pb-c.h>
#include <stdlib.h>
#include <string.h>

enum { CHUNK = 512 * 1024 };

#define OPERATOR (&holdfast__v1__operator__descriptor)

static ProtobufCMessage *must_call(struct sim *sim, const char *method, const ProtobufCMessage *request)
{
	ProtobufCMessage *response = NULL;
	struct error err;

	if (sim_call(sim, OPERATOR, method, request, &response, &err) != STATUS_OK)
		sim_fail(sim, "Operator.%s: %s", method, err.msg);
	return response;
}

static void read_all(struct sim *sim, char *id)
{
	Holdfast__V1__ReadBackupRequest request = HOLDFAST__V1__READ_BACKUP_REQUEST__INIT;
	size_t at = 0;

	request.id = id;
	while (at < sim->backup.size) {
		Holdfast__V1__ReadBackupResponse *part;

		request.offset = at;
		part = (Holdfast__V1__ReadBackupResponse *)must_call(sim, "ReadBackup", &request.base);
		if (part->data.len == 0 || part->data.len > sim->backup.size - at)
			sim_fail(sim, "the backup has another size than was said");
		memcpy(sim->backup.data + at, part->data.data, part->data.len);
		at += part->data.len;
		holdfast__v1__read_backup_response__free_unpacked(part, NULL);
	}
}

void sim_backup(struct sim *sim)
{
	Holdfast__V1__BeginBackupRequest request = HOLDFAST__V1__BEGIN_BACKUP_REQUEST__INIT;
	Holdfast__V1__BeginBackupResponse *begun =
		(Holdfast__V1__BeginBackupResponse *)must_call(sim, "BeginBackup", &request.base);

	free(sim->backup.data);
	sim->backup.size = begun->size_bytes;
	sim->backup.data = malloc(sim->backup.size + 1);
	if (!sim->backup.data || begun->sha256.len != sizeof(sim->backup.sha256))
		sim_fail(sim, "the backup cannot be kept");
	memcpy(sim->backup.sha256, begun->sha256.data, sizeof(sim->backup.sha256));
	read_all(sim, begun->id);
	holdfast__v1__begin_backup_response__free_unpacked(begun, NULL);
}

static void write_all(struct sim *sim, char *id)
{
	Holdfast__V1__WriteRestoreRequest request = HOLDFAST__V1__WRITE_RESTORE_REQUEST__INIT;

	request.id = id;
	for (size_t at = 0; at < sim->backup.size; at += request.data.len) {
		request.offset = at;
		request.data.data = sim->backup.data + at;
		request.data.len = sim->backup.size - at < CHUNK ? sim->backup.size - at : CHUNK;
		protobuf_c_message_free_unpacked(must_call(sim, "WriteRestore", &request.base), NULL);
	}
}

/* What the restored server cannot know and no node can tell it: what was attached for a grant that never
 * arrived, or that its node was told to forget. An operator finds it with holdfast volume external; here it
 * is taken as found. */
static void forget_lost_attachments(struct sim *sim)
{
	for (int v = 0; v < SIM_VOLUMES; v++) {
		for (int n = 0; n < SIM_NODES; n++) {
			bool is_held = false;

			for (int i = 0; i < SIM_ENTRIES; i++)
				is_held = is_held || (sim->nodes[n].entries[i].phase != SIM_FREE &&
						      sim->nodes[n].entries[i].claim_id[0] != '\0' &&
						      sim->nodes[n].entries[i].volume == v);
			sim->volumes[v].attached[n] = sim->volumes[v].attached[n] && is_held;
		}
		sim->volumes[v].modify_index = 0;
	}
	sim->index = 0;
}

void sim_restore(struct sim *sim)
{
	Holdfast__V1__BeginRestoreRequest begin = HOLDFAST__V1__BEGIN_RESTORE_REQUEST__INIT;
	Holdfast__V1__ApplyRestoreRequest apply = HOLDFAST__V1__APPLY_RESTORE_REQUEST__INIT;
	Holdfast__V1__BeginRestoreResponse *begun;
	Holdfast__V1__ApplyRestoreResponse *applied;
	char reason[] = "the model wants it";

	begin.size_bytes = sim->backup.size;
	begin.sha256.data = sim->backup.sha256;
	begin.sha256.len = sizeof(sim->backup.sha256);
	begun = (Holdfast__V1__BeginRestoreResponse *)must_call(sim, "BeginRestore", &begin.base);
	write_all(sim, begun->id);
	apply.id = begun->id;
	apply.reason = reason;
	applied = (Holdfast__V1__ApplyRestoreResponse *)must_call(sim, "ApplyRestore", &apply.base);
	if (applied->epoch <= sim->epoch)
		sim_fail(sim, "a restore begins no new epoch");
	sim->epoch = applied->epoch;
	holdfast__v1__apply_restore_response__free_unpacked(applied, NULL);
	holdfast__v1__begin_restore_response__free_unpacked(begun, NULL);
	forget_lost_attachments(sim);
	sim->counts[COUNT_RESTORES]++;
}
