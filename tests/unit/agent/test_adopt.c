#include "adopt.h"
#include "cmocka_all.h"
#include "records.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the kernel shows of a volume. */
enum kernel_view {
	KERNEL_NOTHING,
	KERNEL_STAGED,
	KERNEL_PUBLISHED,
	KERNEL_OTHER_DEVICE,
	KERNEL_VIEW_N,
};

static void show(struct picture *picture, uint32_t volume, enum kernel_view view)
{
	struct mh_list_entry staged = {.dev_minor = 100 + volume};
	struct mh_list_entry published = {
		.alloc = ALLOC_ID, .slot = (uint8_t)volume, .dev_minor = 100 + volume};
	struct error err;

	(void)snprintf(staged.volume, sizeof(staged.volume), "vol%u-0123456789abcdef", volume);
	if (view == KERNEL_NOTHING)
		return;
	assert_int_equal(picture_add(picture, MH_LIST_STAGED, &staged, &err), STATUS_OK);
	if (view == KERNEL_OTHER_DEVICE)
		published.dev_minor = 7;
	if (view != KERNEL_STAGED)
		assert_int_equal(picture_add(picture, MH_LIST_PUBLISHED, &published, &err), STATUS_OK);
}

static enum adopt_action decide(enum alloc_phase phase, uint32_t n_published, enum kernel_view first,
				enum kernel_view second, const char *boot_id, struct error *why)
{
	struct alloc_record *record = records_make(2);
	struct picture *picture = picture_new();
	enum adopt_action action;

	records_drive(record, phase, n_published, phase == ALLOC_NEW || phase == ALLOC_CLAIMING ? 0 : 2);
	show(picture, 0, first);
	show(picture, 1, second);
	action = adopt_decide(record, picture, NULL, boot_id, why);
	picture_free(picture);
	free(record);
	return action;
}

/* Two volumes, each as journalled and as the kernel has it, in every phase and in the same or another boot.
 */
static void every_combination_of_journal_and_kernel_is_decided(void **state)
{
	for (enum alloc_phase phase = 0; phase < ALLOC_PHASE_N; phase++) {
		for (uint32_t published = 0; published <= 2; published++) {
			for (unsigned int k = 0; k < KERNEL_VIEW_N * KERNEL_VIEW_N; k++) {
				enum kernel_view first = k / KERNEL_VIEW_N, second = k % KERNEL_VIEW_N;
				bool is_missing = (published > 0 && first != KERNEL_PUBLISHED) ||
						  (published > 1 && second != KERNEL_PUBLISHED);
				enum adopt_action expected = ADOPT_GO_ON;
				struct error why = {0};

				if (phase == ALLOC_RUNNING && published < 2)
					continue; /* does not happen */
				if ((phase == ALLOC_NEW || phase == ALLOC_CLAIMING) && published > 0)
					continue;
				if (phase == ALLOC_STOPPED)
					expected = ADOPT_NOTHING;
				else if (phase != ALLOC_STOPPING && is_missing)
					expected = ADOPT_FAIL;
				else if (phase == ALLOC_RUNNING)
					expected = ADOPT_KEEP;
				assert_int_equal(decide(phase, published, first, second, BOOT_ID, &why),
						 expected);
				assert_int_equal(why.status != STATUS_OK, expected == ADOPT_FAIL);
				assert_int_equal(decide(phase, published, first, second,
							"99999999-2222-3333-4444-555555555555", &why),
						 phase == ALLOC_STOPPED ? ADOPT_NOTHING : ADOPT_REBOOTED);
			}
		}
	}
}

static void a_missing_mount_is_named(void **state)
{
	struct error why;

	assert_int_equal(decide(ALLOC_RUNNING, 2, KERNEL_PUBLISHED, KERNEL_STAGED, BOOT_ID, &why),
			 ADOPT_FAIL);
	assert_non_null(strstr(why.msg, "vol1"));
	assert_non_null(strstr(why.msg, "/publish/" ALLOC_ID "/1"));
	assert_int_equal(decide(ALLOC_RUNNING, 2, KERNEL_OTHER_DEVICE, KERNEL_PUBLISHED, BOOT_ID, &why),
			 ADOPT_FAIL);
	assert_non_null(strstr(why.msg, "device 0:7 is mounted instead of volume vol0 (0:100)"));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
		cmocka_unit_test(every_combination_of_journal_and_kernel_is_decided),
		cmocka_unit_test(a_missing_mount_is_named),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
