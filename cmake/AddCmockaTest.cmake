# SPDX-License-Identifier: Apache-2.0
# Unit tests are three hundred links of much the same archives, for which gold needs half as long. The programs
# themselves have the linker that packages have.
find_program(HOLDFAST_GOLD ld.gold)
add_library(hf_test_linker INTERFACE)
if(HOLDFAST_GOLD AND CMAKE_BUILD_TYPE STREQUAL "Debug")
  target_link_options(hf_test_linker INTERFACE -fuse-ld=gold)
endif()

# hf_unit_test(NAME SOURCES... LINK ... WRAP ...): one cmocka binary per module. WRAP names functions of the
# system-call seam that the test replaces by a model (--wrap). The time limit is for what hangs: walks over all faults take
# minutes under a sanitizer on a machine that others use as well.
#
# Unit programs have virtual time (tests/unit/unit_clock.h). Those that match UNIT_REAL_TIME have the machine's: processes
# of etcd and of the server, beside the program, have leases and deadlines of their own.
set(UNIT_REAL_TIME "^(test_etcd_.*|test_servers|test_servers_history)$")
function(hf_unit_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;WRAP" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES HF_IS_TEST ON)
  target_link_libraries(${name} PRIVATE hf_flags hf_pie hf_test_linker ${arg_LINK} hf_unit hf_unit_clock hf_test_sample)
  if(name MATCHES "${UNIT_REAL_TIME}")
    target_sources(${name} PRIVATE ${CMAKE_SOURCE_DIR}/tests/unit/unit_real_time.c)
  endif()
  foreach(function IN LISTS arg_WRAP)
    target_link_options(${name} PRIVATE -Wl,--wrap=${function})
  endforeach()
  add_test(NAME ${name} COMMAND ${name})
  set(labels unit)
  get_filename_component(folder ${CMAKE_CURRENT_SOURCE_DIR} NAME)
  if(folder IN_LIST HF_READS_FOLDERS OR name IN_LIST HF_READS_TESTS)
    list(APPEND labels reads)
    add_dependencies(asan-reads ${name})
  endif()
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS "${labels}")
endfunction()

# hf_test_objects(NAME SOURCES... LINK...): sources that several test programs share, compiled once. A program must link
# them itself: it then contains all of their objects, and its WRAP applies to them as to its own.
function(hf_test_objects name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} OBJECT ${arg_SOURCES})
  set_target_properties(${name} PROPERTIES HF_IS_TEST ON)
  target_link_libraries(${name} PUBLIC hf_flags ${arg_LINK})
  target_include_directories(${name} PUBLIC ${CMAKE_CURRENT_SOURCE_DIR} ${CMAKE_SOURCE_DIR}/tests/unit)
endfunction()
