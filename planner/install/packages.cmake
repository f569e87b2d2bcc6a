# Packages of Debian, by `cpack` in a build folder: zplan and, where it was built, zplan-cuda. The
# preset "package" builds for any processor of the architecture:
#   cmake --workflow --preset package       build/package/zplan_VERSION_ARCH.deb ..
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME zplan)
set(CPACK_PACKAGE_VENDOR "The zplan authors")
set(CPACK_PACKAGE_CONTACT "The zplan authors <zplan@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "planner and executor for the training of large transformers")
set(CPACK_RESOURCE_FILE_LICENSE ${PROJECT_SOURCE_DIR}/LICENSE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL zplan)
if(TARGET zplan_cuda_plugin)
  list(APPEND CPACK_COMPONENTS_ALL zplan-cuda)
endif()

set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_PACKAGE_SECTION science)
set(CPACK_DEBIAN_ZPLAN_PACKAGE_NAME zplan)
set(CPACK_DEBIAN_ZPLAN-CUDA_PACKAGE_NAME zplan-cuda)
set(CPACK_COMPONENT_ZPLAN_DESCRIPTION
  "Answers whether a cluster can train a model, with which plan, how fast and what limits it, and
trains with that plan on the CPU.")
set(CPACK_COMPONENT_ZPLAN-CUDA_DESCRIPTION
  "The backend of zplan for NVIDIA GPUs. It needs the driver and cuBLASLt, and where it was built
with them NCCL and cuDNN, which packages of Debian do not have: zplan doctor names what is missing.")
# Libraries of the toolkit belong to no package that shlibdeps knows.
set(CPACK_DEBIAN_ZPLAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_ZPLAN-CUDA_PACKAGE_SHLIBDEPS OFF)
set(CPACK_DEBIAN_ZPLAN-CUDA_PACKAGE_DEPENDS "zplan (= ${PROJECT_VERSION}), libc6, libstdc++6")

configure_file(copyright.in copyright @ONLY)
foreach(component IN LISTS CPACK_COMPONENTS_ALL)
  install(FILES ${CMAKE_CURRENT_BINARY_DIR}/copyright DESTINATION share/doc/${component}
          COMPONENT ${component})
endforeach()
include(CPack)
