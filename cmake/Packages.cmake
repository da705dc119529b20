# SPDX-License-Identifier: Apache-2.0
# Debian packages, one per component: `./dev package`, which is cpack -G DEB with HOLDFAST_PACKAGES in a build folder with
# prefix /usr. cmake/debian/COMPONENT.* are maintainer scripts and lintian overrides; tests/packages checks the result.

# Asked by maintainer scripts and by ./dev uninstall before anything is taken away.
install(PROGRAMS ${PROJECT_SOURCE_DIR}/cmake/debian/holdfast-in-use
  DESTINATION ${CMAKE_INSTALL_LIBEXECDIR}/holdfast COMPONENT mounthelper)
foreach(component mounthelper driver-container)
  install(FILES ${PROJECT_SOURCE_DIR}/cmake/debian/holdfast-${component}.logrotate
    DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/logrotate.d RENAME holdfast-${component} COMPONENT ${component})
endforeach()

option(HOLDFAST_PACKAGES "Install what only packages have, for cpack -G DEB" OFF)
if(NOT HOLDFAST_PACKAGES)
  return()
endif()

set(debian ${PROJECT_SOURCE_DIR}/cmake/debian)
set(made ${PROJECT_BINARY_DIR}/debian)
set(CPACK_COMPONENTS_ALL agent driver-container mounthelper server fencer cli)
if(TARGET selinux_module) # where the module can be built
  list(APPEND CPACK_COMPONENTS_ALL selinux)
endif()

set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME holdfast)
set(CPACK_PACKAGE_CONTACT "Holdfast maintainers <maintainers@holdfast.example.org>")
set(CPACK_SET_DESTDIR ON) # files in /etc have absolute paths
set(CPACK_STRIP_FILES ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING ONE_PER_GROUP)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SOURCE holdfast)
set(CPACK_DEBIAN_PACKAGE_SECTION admin)
set(CPACK_DEBIAN_PACKAGE_PRIORITY optional)
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
set(CPACK_PRE_BUILD_SCRIPTS ${PROJECT_SOURCE_DIR}/cmake/PackageFinish.cmake)

set(same "(= ${PROJECT_VERSION})")
# for systemd-sysusers and systemd-tmpfiles, and to run anything
set(service_manager "systemd (>= 252)")

set(what_holdfast_is "Holdfast claims a volume cluster-wide, mounts it on a node by the smallest
privileged program that can do it, and puts every privileged operation on
record.
.
")

set(CPACK_DEBIAN_SERVER_PACKAGE_DEPENDS "${service_manager}")
set(CPACK_DEBIAN_SERVER_PACKAGE_RECOMMENDS "holdfast-cli ${same}, openssl")
set(CPACK_DEBIAN_SERVER_DESCRIPTION "claim server of Holdfast, storage for hardened nodes
${what_holdfast_is}This is the claim server: it knows who may use which volume, and frees a
claim only upon recorded evidence. It needs no privilege.")

# holdfast-drain.service runs the command line
set(CPACK_DEBIAN_AGENT_PACKAGE_DEPENDS "${service_manager}, holdfast-cli ${same}, holdfast-mounthelper ${same}")
set(CPACK_DEBIAN_AGENT_PACKAGE_RECOMMENDS "dbus")
set(CPACK_DEBIAN_AGENT_PACKAGE_SUGGESTS "polkitd, holdfast-selinux ${same}")
set(CPACK_DEBIAN_AGENT_DESCRIPTION "unprivileged node agent of Holdfast, storage for hardened nodes
${what_holdfast_is}This is the agent of a node: it gives allocations their volumes, and speaks
to CSI plugins. It has no privilege; its mount helper is in holdfast-
mounthelper.")

set(CPACK_DEBIAN_DRIVER-CONTAINER_PACKAGE_DEPENDS "${service_manager}, holdfast-agent ${same}")
set(CPACK_DEBIAN_DRIVER-CONTAINER_PACKAGE_RECOMMENDS "podman | docker.io")
set(CPACK_DEBIAN_DRIVER-CONTAINER_PACKAGE_SUGGESTS "logrotate")
set(CPACK_DEBIAN_DRIVER-CONTAINER_DESCRIPTION "driver of containers of Holdfast, storage for hardened nodes
${what_holdfast_is}This is the driver that runs tasks of allocations as containers on their
volumes, with podman or Docker: what the claim server ordered and root's file
allows. It has an account of its own.")

set(CPACK_DEBIAN_FENCER_PACKAGE_DEPENDS "${service_manager}")
set(CPACK_DEBIAN_FENCER_PACKAGE_RECOMMENDS "fence-agents")
set(CPACK_DEBIAN_FENCER_DESCRIPTION "fencer of Holdfast, storage for hardened nodes
${what_holdfast_is}This is the fencer: it switches a failed node off by a fence agent, when the
claim server orders it with a signature, and proves it by a second action. It
has an account of its own, and the secrets of the power switches.")

set(CPACK_DEBIAN_MOUNTHELPER_PACKAGE_DEPENDS "${service_manager}")
set(CPACK_DEBIAN_MOUNTHELPER_PACKAGE_SUGGESTS "auditd, logrotate, holdfast-selinux ${same}")
set(CPACK_DEBIAN_MOUNTHELPER_DESCRIPTION "mount helper of Holdfast, its only privileged part
${what_holdfast_is}This is that program: it mounts what root's policy and a ticket signed by
the claim server allow, and nothing else. It is started by its setuid bit,
which dpkg-statoverride can take away, or by a socket of systemd.")

set(CPACK_DEBIAN_CLI_PACKAGE_RECOMMENDS "jq")
set(CPACK_DEBIAN_CLI_PACKAGE_SUGGESTS "holdfast-agent ${same}, holdfast-mounthelper ${same}, bash-completion | zsh | fish")
set(CPACK_DEBIAN_CLI_DESCRIPTION "command line of Holdfast, storage for hardened nodes
${what_holdfast_is}This is the command for operators: volumes, allocations, nodes, certificates
and tokens, the mount helper's policy and its trail.")

set(CPACK_DEBIAN_SELINUX_PACKAGE_ARCHITECTURE all)
set(CPACK_DEBIAN_SELINUX_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_SELINUX_PACKAGE_DEPENDS "selinux-policy-default, policycoreutils")
set(CPACK_DEBIAN_SELINUX_DESCRIPTION "SELinux policy of Holdfast, storage for hardened nodes
${what_holdfast_is}This is the policy module: a domain each for server, agent, mount helper and
holders of volumes.")

# Changelog, copyright and overrides; maintainer scripts with what they share filled in.
file(READ ${debian}/forget.sh FORGET)
find_program(GZIP gzip REQUIRED)
file(MAKE_DIRECTORY ${made})
execute_process(COMMAND ${GZIP} -9nc ${debian}/changelog OUTPUT_FILE ${made}/changelog.gz COMMAND_ERROR_IS_FATAL ANY)
set_property(DIRECTORY APPEND PROPERTY CMAKE_CONFIGURE_DEPENDS ${debian}/changelog ${debian}/forget.sh)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  string(TOUPPER ${component} upper)
  set(CPACK_DEBIAN_${upper}_PACKAGE_NAME holdfast-${component})
  set(control "")
  foreach(script postinst prerm postrm)
    set(source ${debian}/${component}.${script})
    if(NOT EXISTS ${source})
      set(source ${PROJECT_SOURCE_DIR}/${component}/debian/${script})
    endif()
    if(EXISTS ${source})
      configure_file(${source} ${made}/${component}/${script} @ONLY
        FILE_PERMISSIONS OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
      list(APPEND control ${made}/${component}/${script})
    endif()
  endforeach()
  set(CPACK_DEBIAN_${upper}_PACKAGE_CONTROL_EXTRA ${control})
  install(FILES ${made}/changelog.gz ${debian}/copyright
    DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/holdfast-${component} COMPONENT ${component})
  if(EXISTS ${debian}/${component}.lintian-overrides)
    install(FILES ${debian}/${component}.lintian-overrides
      DESTINATION ${CMAKE_INSTALL_DATADIR}/lintian/overrides RENAME holdfast-${component} COMPONENT ${component})
  endif()
endforeach()

# The documents, in the package of the command line.
file(GLOB documents ${PROJECT_SOURCE_DIR}/docs/*.md)
install(FILES ${documents} ${PROJECT_SOURCE_DIR}/README.md ${PROJECT_SOURCE_DIR}/CHANGELOG.md ${PROJECT_SOURCE_DIR}/SECURITY.md
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/holdfast-cli COMPONENT cli)
install(DIRECTORY ${PROJECT_SOURCE_DIR}/docs/runbook ${PROJECT_SOURCE_DIR}/docs/pictures ${PROJECT_SOURCE_DIR}/docs/prometheus
  DESTINATION ${CMAKE_INSTALL_DATADIR}/doc/holdfast-cli COMPONENT cli)

# Folders for what an administrator puts there.
foreach(component agent server fencer)
  install(DIRECTORY DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/holdfast/tls COMPONENT ${component})
endforeach()
install(DIRECTORY DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/holdfast COMPONENT mounthelper)
install(DIRECTORY DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/holdfast COMPONENT driver-container)
install(DIRECTORY DESTINATION ${CMAKE_INSTALL_SYSCONFDIR}/holdfast/volumes.d COMPONENT cli)

include(CPack)
