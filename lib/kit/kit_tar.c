/* SPDX-License-Identifier: Apache-2.0 */
#include "kit/kit_tar.h"

#include "base/str.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { OCTAL_SIZE = 12, SUM_SIZE = 8, MS_PER_S = 1000 };

/* POSIX.1-1988, ustar. */
struct head {
	char name[100];
	char mode[8];
	char uid[8];
	char gid[8];
	char size[OCTAL_SIZE];
	char mtime[OCTAL_SIZE];
	char sum[SUM_SIZE];
	char type;
	char link[100];
	char magic[6];
	char version[2];
	char rest[247];
};
_Static_assert(sizeof(struct head) == KIT_TAR_BLOCK, "a header is one block");

/* Of all bytes, its own taken as blanks. */
static unsigned int sum_of(const struct head *head)
{
	struct head blank = *head;
	unsigned int sum = 0;

	memset(blank.sum, ' ', sizeof(blank.sum));
	for (size_t i = 0; i < sizeof(blank); i++)
		sum += ((const uint8_t *)&blank)[i];
	return sum;
}

enum status kit_tar_head(const char *name, uint64_t size, int64_t made_at_ms,
			 uint8_t ret[static KIT_TAR_BLOCK], struct error *err)
{
	struct head head = {.type = '0', .magic = "ustar", .version = {'0', '0'}};

	assert(size <= KIT_SIZE_MAX && made_at_ms >= 0);
	if (str_copy(head.name, sizeof(head.name), name) < 0)
		return error_set(err, STATUS_INVALID_ARGUMENT, 0, "'%s' is too long a name for a kit", name);
	(void)str_format(head.mode, sizeof(head.mode), "%07o", 0600U);
	(void)str_format(head.uid, sizeof(head.uid), "%07o", 0U);
	(void)str_format(head.gid, sizeof(head.gid), "%07o", 0U);
	(void)str_format(head.size, sizeof(head.size), "%011" PRIo64, size);
	(void)str_format(head.mtime, sizeof(head.mtime), "%011" PRIo64, (uint64_t)made_at_ms / MS_PER_S);
	(void)str_format(head.sum, sizeof(head.sum), "%06o", sum_of(&head));
	head.sum[SUM_SIZE - 1] = ' ';
	memcpy(ret, &head, sizeof(head));
	return STATUS_OK;
}

static bool read_octal(const char *text, size_t size, uint64_t *ret)
{
	uint64_t value = 0;
	size_t i = 0;

	for (; i < size && text[i] >= '0' && text[i] <= '7'; i++)
		value = value << 3 | (uint64_t)(text[i] - '0');
	*ret = value;
	return i > 0 && (i == size || text[i] == '\0' || text[i] == ' ');
}

static bool is_end(const uint8_t *block)
{
	for (size_t i = 0; i < KIT_TAR_BLOCK; i++)
		if (block[i] != 0)
			return false;
	return true;
}

static enum status refuse(struct error *err, const char *what)
{
	return error_set(err, STATUS_DATA_LOSS, 0, "what is in the kit is not what Holdfast writes: %s",
			 what);
}

static enum status take_file(const struct head *head, uint64_t size, const uint8_t *data, struct kit *ret,
			     struct error *err)
{
	struct kit_file *file = &ret->files[ret->n];

	if (ret->n == KIT_FILES_MAX)
		return refuse(err, "too many files");
	if (kit_find(ret, head->name))
		return refuse(err, "a file twice");
	if (size > (str_eq(head->name, KIT_STORE) ? (uint64_t)KIT_SIZE_MAX : (uint64_t)KIT_FILE_MAX))
		return refuse(err, "a file that is too large");
	*file = (struct kit_file){.data = malloc((size_t)size + 1), .len = (size_t)size};
	if (!file->data)
		return error_no_memory(err, "the kit");
	(void)str_copy(file->name, sizeof(file->name), head->name);
	memcpy(file->data, data, (size_t)size);
	file->data[size] = '\0';
	ret->n++;
	return STATUS_OK;
}

enum status kit_tar_read(const uint8_t *bytes, size_t n, struct kit *ret, struct error *err)
{
	enum status st = STATUS_OK;
	size_t at = 0;

	while (st == STATUS_OK && n - at >= KIT_TAR_BLOCK && !is_end(bytes + at)) {
		struct head head;
		uint64_t size, sum, mtime;

		memcpy(&head, bytes + at, sizeof(head));
		at += KIT_TAR_BLOCK;
		if (!read_octal(head.sum, sizeof(head.sum), &sum) || sum != sum_of(&head) ||
		    !read_octal(head.size, sizeof(head.size), &size) ||
		    !read_octal(head.mtime, sizeof(head.mtime), &mtime) || head.type != '0' ||
		    !memchr(head.name, '\0', sizeof(head.name)))
			return refuse(err, "a header of another kind");
		if (size > n - at || size + kit_tar_padding(size) > n - at)
			return refuse(err, "it ends in the middle of a file");
		st = take_file(&head, size, bytes + at, ret, err);
		ret->made_at_ms = (int64_t)(mtime * MS_PER_S);
		at += (size_t)size + kit_tar_padding(size);
	}
	if (st == STATUS_OK && n - at < KIT_TAR_BLOCK)
		return refuse(err, "it has no end");
	return st;
}
