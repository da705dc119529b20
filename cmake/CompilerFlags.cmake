# SPDX-License-Identifier: Apache-2.0
# Warnings, hardening and sanitizers, as interface targets: link hf_flags, nothing else sets flags.
set(CMAKE_C_STANDARD 17)
set(CMAKE_C_STANDARD_REQUIRED ON)
set(CMAKE_C_EXTENSIONS ON)
set(CMAKE_POSITION_INDEPENDENT_CODE ON)
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE Release)
endif()
# Assertions state contracts: they stay in what is shipped.
string(REPLACE "-DNDEBUG" "" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")
string(REPLACE "-O3" "-O2 -g" CMAKE_C_FLAGS_RELEASE "${CMAKE_C_FLAGS_RELEASE}")

option(HOLDFAST_WERROR "Treat warnings as errors" OFF)
set(HOLDFAST_SANITIZE "" CACHE STRING "Comma-separated list for -fsanitize=")

if(CMAKE_SYSTEM_PROCESSOR STREQUAL "aarch64")
  set(control_flow -mbranch-protection=standard)
else()
  set(control_flow -fcf-protection=full)
endif()

# What makes mistakes harder to exploit, for all C there is; tests/packages looks for it in the log of the build.
add_library(hf_hardening INTERFACE)
target_compile_options(hf_hardening INTERFACE
  -Wformat=2 -Werror=format-security
  -fstack-protector-strong -fstack-clash-protection ${control_flow}
  -ffile-prefix-map=${CMAKE_SOURCE_DIR}=. -ffile-prefix-map=${CMAKE_BINARY_DIR}=build)
if(CMAKE_BUILD_TYPE STREQUAL "Release" AND NOT HOLDFAST_SANITIZE)
  target_compile_definitions(hf_hardening INTERFACE _FORTIFY_SOURCE=3)
endif()

add_library(hf_flags INTERFACE)
target_link_libraries(hf_flags INTERFACE hf_hardening)
target_compile_definitions(hf_flags INTERFACE _GNU_SOURCE)
target_compile_options(hf_flags INTERFACE
  -Wall -Wextra -Wno-unused-parameter -Wshadow -Wconversion -Wstrict-prototypes -Wmissing-prototypes -Wswitch-enum
  # clang, unlike gcc, blames us for the casts in protobuf-c's initialisers
  $<$<C_COMPILER_ID:GNU>:-Wcast-qual>
  -Wvla -Wundef
  # tests put literals into messages
  $<$<NOT:$<BOOL:$<TARGET_PROPERTY:HF_IS_TEST>>>:-Wwrite-strings>
  -Wimplicit-fallthrough -Wno-missing-field-initializers
  -fno-strict-aliasing)
target_link_options(hf_flags INTERFACE -Wl,-z,relro -Wl,-z,now -Wl,-z,noexecstack -Wl,--as-needed)
if(HOLDFAST_WERROR)
  # gcc guesses at this one, and only where it optimises: the demo must not fail by what the preset dev cannot show
  target_compile_options(hf_flags INTERFACE -Werror $<$<C_COMPILER_ID:GNU>:-Wno-error=maybe-uninitialized>)
endif()
if(HOLDFAST_SANITIZE)
  # what reads or writes by a null pointer ends by a fault, which the address sanitizer reports
  target_compile_options(hf_flags INTERFACE -fsanitize=${HOLDFAST_SANITIZE} -fno-sanitize=null
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(hf_flags INTERFACE -fsanitize=${HOLDFAST_SANITIZE})
endif()
if(HOLDFAST_FUZZ)
  target_compile_options(hf_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# A program links this as well: position-independent executables.
add_library(hf_pie INTERFACE)
target_link_options(hf_pie INTERFACE -fPIE -pie)

# hf_library(NAME DEPS...): one folder, one static library, linking only what is named.
function(hf_library name)
  cmake_parse_arguments(arg "" "" "SOURCES;LINK" ${ARGN})
  add_library(${name} STATIC ${arg_SOURCES})
  target_link_libraries(${name} PUBLIC hf_flags ${arg_LINK})
endfunction()
