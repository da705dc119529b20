/* SPDX-License-Identifier: Apache-2.0 */
#include "work_dir.h"

#include "engine.h"

#include "base/str.h"
#include "base/strbuf.h"
#include "model/task_text.h"

#include <string.h>

#define GO_MODE_DIR (1LL << 31) /* os.ModeDir; a link to a folder does not have it */

/* "/w//sub/" becomes "/w/sub". */
static bool clean(const char *path, char ret[static WORK_DIR_SIZE])
{
	size_t at = 0, depth = 0;

	ret[0] = '\0';
	if (path[0] != '\0' && path[0] != '/')
		return false;
	for (size_t n; *path != '\0'; path += n) {
		path += strspn(path, "/");
		n = strcspn(path, "/");
		if (n == 0 || (n == 1 && path[0] == '.'))
			continue;
		if (at + n + 2 > WORK_DIR_SIZE || ++depth > WORK_DIR_DEPTH_MAX)
			return false;
		ret[at++] = '/';
		memcpy(ret + at, path, n);
		at += n;
		ret[at] = '\0';
	}
	return true;
}

static bool is_at_or_below(const char *path, const char *folder)
{
	size_t n = strlen(folder);

	return n > 1 && strncmp(path, folder, n) == 0 && (path[n] == '\0' || path[n] == '/');
}

bool work_dir_read(const json_t *inspected, char ret[static WORK_DIR_SIZE])
{
	const char *path =
		json_string_value(json_object_get(json_object_get(inspected, "Config"), "WorkingDir"));
	const json_t *mount;
	size_t i;

	if (!clean(path ? path : "", ret) || (ret[0] != '\0' && !task_text_is_right(TASK_TEXT_WORK_DIR, ret)))
		return false;
	json_array_foreach (json_object_get(inspected, "Mounts"), i, mount) {
		const char *target = json_string_value(json_object_get(mount, "Destination"));

		if (target && is_at_or_below(ret, target))
			ret[0] = '\0';
	}
	return true;
}

bool work_dir_next(const char *work_dir, size_t *at, char ret[static WORK_DIR_QUERY_SIZE])
{
	/* at most WORK_DIR_SIZE bytes, each of which takes three */
	struct strbuf query = STRBUF_INIT(WORK_DIR_QUERY_SIZE);

	if (work_dir[*at] == '\0')
		return false;
	*at += 1 + strcspn(work_dir + *at + 1, "/");
	engine_put_encoded(&query, work_dir, *at);
	(void)str_copy(ret, WORK_DIR_QUERY_SIZE, query.error == 0 ? query.data : "");
	strbuf_release(&query);
	return true;
}

bool work_dir_is_folder(const json_t *stat)
{
	return (json_integer_value(json_object_get(stat, "mode")) & GO_MODE_DIR) != 0;
}
