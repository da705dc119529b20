/* SPDX-License-Identifier: Apache-2.0 */
#include "session/machine.h"

#include "base/cleanup.h"
#include "base/fd.h"
#include "base/id.h"
#include "base/str.h"

#include <ctype.h>
#include <limits.h>
#include <openssl/evp.h>
#include <stdlib.h>
#include <string.h>
#include <systemd/sd-id128.h>

#define CREDENTIAL "holdfast.hardware"

enum { UUID_FILE_MAX = 128, DIGEST_MAX = EVP_MAX_MD_SIZE };

/* The first half of the SHA-256 of "WHAT CLUSTER TEXT": neither it nor another cluster's leads to the text.
 */
static bool digest(const char *what, const char *cluster, const char *text, sd_id128_t *ret)
{
	unsigned char sum[DIGEST_MAX];
	char all[512];
	int len = str_format(all, sizeof(all), "holdfast %s\n%s\n%s", what, cluster, text);

	if (len < 0 || EVP_Digest(all, (size_t)len, sum, NULL, EVP_sha256(), NULL) != 1)
		return false;
	memcpy(ret->bytes, sum, sizeof(ret->bytes));
	return true;
}

/* Returns false for the placeholders of firmware without a UUID: zeroes, all ones, or other text. */
static bool is_uuid(const char *text)
{
	return id_is_uuid(text) && strspn(text, "0-") != strlen(text) && strspn(text, "f-") != strlen(text);
}

static bool read_uuid(const char *path, char ret[static UUID_TEXT_SIZE])
{
	cleanup_free char *text = NULL;

	if (file_read(path, UUID_FILE_MAX, &text, NULL) < 0)
		return false;
	text[strcspn(text, "\n")] = '\0';
	for (char *c = text; *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return is_uuid(text) && str_copy(ret, UUID_TEXT_SIZE, text) >= 0;
}

static bool read_hardware(char ret[static UUID_TEXT_SIZE])
{
	static const char *const paths[] = {"/sys/class/dmi/id/product_uuid",
					    "/sys/firmware/devicetree/base/vm,uuid", "/sys/hypervisor/uuid"};
	const char *dir = getenv("CREDENTIALS_DIRECTORY");
	char path[PATH_MAX];

	if (dir && str_format(path, sizeof(path), "%s/" CREDENTIAL, dir) >= 0 && read_uuid(path, ret))
		return true;
	for (size_t i = 0; i < ARRAY_SIZE(paths); i++)
		if (read_uuid(paths[i], ret))
			return true;
	return false;
}

void machine_read(const char *cluster, char ret[static NODE_MACHINE_MAX + 1])
{
	char hardware[UUID_TEXT_SIZE];
	sd_id128_t application, id;

	ret[0] = '\0';
	if (!digest("machine", cluster, "", &application) ||
	    sd_id128_get_machine_app_specific(application, &id) < 0)
		return;
	(void)sd_id128_to_string(id, ret);
	if (read_hardware(hardware) && digest("hardware", cluster, hardware, &id)) {
		ret[SD_ID128_STRING_MAX - 1] = '+';
		(void)sd_id128_to_string(id, ret + SD_ID128_STRING_MAX);
	}
}
