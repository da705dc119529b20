# SPDX-License-Identifier: Apache-2.0
# hf_unit_test(NAME SOURCES... LINK ... WRAP ...): one cmocka binary per module. WRAP names functions of the
# system-call seam that the test replaces by a model (--wrap). The time limit is for what hangs: walks over all faults take
# minutes under a sanitizer on a machine that others use as well.
function(hf_unit_test name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK;WRAP" ${ARGN})
  add_executable(${name} ${arg_SOURCES})
  target_link_libraries(${name} PRIVATE hf_flags hf_pie ${arg_LINK} hf_unit)
  foreach(function IN LISTS arg_WRAP)
    target_link_options(${name} PRIVATE -Wl,--wrap=${function})
  endforeach()
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES TIMEOUT 600 LABELS unit)
endfunction()
