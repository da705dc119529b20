# SPDX-License-Identifier: Apache-2.0
# Run by cpack when the files of each component lie ready in a folder of its name: what needs them to be final.

# The program of launch mode socket is the same bytes as the setuid one, and that one has been stripped by now.
file(GLOB helpers ${CPACK_TEMPORARY_DIRECTORY}/mounthelper/usr/libexec/holdfast/holdfast-mounthelper)
foreach(helper IN LISTS helpers)
  file(COPY_FILE ${helper} ${helper}-socket)
endforeach()

# What a component has in /etc are its conffiles.
file(GLOB components ${CPACK_TEMPORARY_DIRECTORY}/*)
foreach(root IN LISTS components)
  get_filename_component(component ${root} NAME)
  file(GLOB_RECURSE found RELATIVE ${root} ${root}/etc/*)
  list(SORT found)
  set(text "")
  foreach(path IN LISTS found)
    string(APPEND text "/${path}\n")
  endforeach()
  if(text)
    set(file ${CPACK_PACKAGE_DIRECTORY}/debian/${component}/conffiles)
    file(WRITE ${file} "${text}")
    string(TOUPPER ${component} upper)
    list(APPEND CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${file})
  endif()
endforeach()
