# SPDX-License-Identifier: Apache-2.0
find_program(PROTOC_C protoc-c REQUIRED)
find_path(PROTOBUF_INCLUDE google/protobuf/descriptor.proto REQUIRED)

# hf_protobuf_c(TARGET file.proto... [IMPORTS google/protobuf/x.proto...]): C code generated below the build folder,
# headers treated as system headers. IMPORTS are protobuf's own files, for which protobuf-c ships no code.
function(hf_protobuf_c target)
  cmake_parse_arguments(arg "" "" IMPORTS ${ARGN})
  set(out ${CMAKE_CURRENT_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(proto IN LISTS arg_UNPARSED_ARGUMENTS arg_IMPORTS)
    string(REGEX REPLACE "\\.proto$" ".pb-c" stem ${proto})
    if(proto IN_LIST arg_IMPORTS)
      set(folder ${PROTOBUF_INCLUDE})
    else()
      set(folder ${CMAKE_CURRENT_SOURCE_DIR})
    endif()
    add_custom_command(
      OUTPUT ${out}/${stem}.c ${out}/${stem}.h
      COMMAND ${PROTOC_C} -I${folder} -I${PROTOBUF_INCLUDE} --c_out=${out} ${folder}/${proto}
      # protoc-c makes members of method names: Register becomes a C keyword
      COMMAND sed -i -e "s/[(][*]register[)]/(*register_)/" -e "s/service->register[(]/service->register_(/"
              ${out}/${stem}.c ${out}/${stem}.h
      DEPENDS ${arg_UNPARSED_ARGUMENTS}
      VERBATIM)
    list(APPEND sources ${out}/${stem}.c)
  endforeach()
  add_library(${target} STATIC ${sources})
  target_compile_options(${target} PRIVATE -w)
  target_link_libraries(${target} PRIVATE hf_hardening)
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C)
endfunction()
