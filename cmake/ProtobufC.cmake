find_program(PROTOC_C protoc-c REQUIRED)

# hf_protobuf_c(TARGET file.proto...): C code generated below the build folder, headers treated as system headers.
function(hf_protobuf_c target)
  set(out ${CMAKE_CURRENT_BINARY_DIR}/gen)
  file(MAKE_DIRECTORY ${out})
  set(sources)
  foreach(proto IN LISTS ARGN)
    string(REGEX REPLACE "\\.proto$" ".pb-c" stem ${proto})
    add_custom_command(
      OUTPUT ${out}/${stem}.c ${out}/${stem}.h
      COMMAND ${PROTOC_C} -I${CMAKE_CURRENT_SOURCE_DIR} --c_out=${out} ${CMAKE_CURRENT_SOURCE_DIR}/${proto}
      # protoc-c makes members of method names: Register becomes a C keyword
      COMMAND sed -i -e "s/[(][*]register[)]/(*register_)/" -e "s/service->register[(]/service->register_(/"
              ${out}/${stem}.c ${out}/${stem}.h
      DEPENDS ${ARGN}
      VERBATIM)
    list(APPEND sources ${out}/${stem}.c)
  endforeach()
  add_library(${target} STATIC ${sources})
  target_compile_options(${target} PRIVATE -ffile-prefix-map=${CMAKE_BINARY_DIR}=build -w)
  target_include_directories(${target} SYSTEM PUBLIC ${out})
  target_link_libraries(${target} PUBLIC PkgConfig::PROTOBUF_C)
endfunction()
