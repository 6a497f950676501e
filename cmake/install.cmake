# What `cmake --install` places: programs, the library in both forms with its headers, the CMake package, pkg-config,
# wisdom, models, and kernel packs, which are compiled at that time. Components: runtime, development, pack.
include(CMakePackageConfigHelpers)
include(GNUInstallDirs)

install(TARGETS warpsmith warpsmith-worker-cpu RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(FILES ${CMAKE_SOURCE_DIR}/python/torch_baseline.py ${CMAKE_SOURCE_DIR}/python/torch_task.py DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT runtime)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/wisdom DESTINATION ${CMAKE_INSTALL_DATADIR}/warpsmith COMPONENT runtime OPTIONAL
  FILES_MATCHING PATTERN *.jsonl)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/tasks DESTINATION ${CMAKE_INSTALL_DATADIR}/warpsmith COMPONENT runtime)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/prompts DESTINATION ${CMAKE_INSTALL_DATADIR}/warpsmith COMPONENT runtime
  FILES_MATCHING PATTERN *.md)
install(DIRECTORY ${CMAKE_SOURCE_DIR}/models DESTINATION ${CMAKE_INSTALL_DATADIR}/warpsmith COMPONENT runtime
  FILES_MATCHING PATTERN *.safetensors)
if(NOT WARPSMITH_HAVE_CUDA)
  return()
endif()

install(TARGETS warpsmith_shared EXPORT warpsmith-targets
  LIBRARY DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT runtime NAMELINK_COMPONENT development)
install(FILES ${CMAKE_BINARY_DIR}/lib/libwarpsmith.a DESTINATION ${CMAKE_INSTALL_LIBDIR} COMPONENT development)
install(FILES ${CMAKE_SOURCE_DIR}/include/warpsmith/hgemm.h ${CMAKE_SOURCE_DIR}/include/warpsmith/hgemm.hpp
  DESTINATION ${CMAKE_INSTALL_INCLUDEDIR}/warpsmith COMPONENT development)

# The static library's own needs. A staged build holds fmt and libcrypto; others use the system's.
set(WARPSMITH_STATIC_NEEDS "-lstdc++ -lpthread -ldl -lm")
if(NOT WARPSMITH_STATIC_RUNTIME)
  string(PREPEND WARPSMITH_STATIC_NEEDS "-lfmt ")
endif()
if(NOT WARPSMITH_CRYPTO_STATIC)
  string(PREPEND WARPSMITH_STATIC_NEEDS "-lcrypto ")
endif()

set(package ${CMAKE_INSTALL_LIBDIR}/cmake/warpsmith)
install(EXPORT warpsmith-targets NAMESPACE warpsmith:: DESTINATION ${package} COMPONENT development)
configure_package_config_file(${CMAKE_SOURCE_DIR}/cmake/warpsmith-config.cmake.in
  ${CMAKE_BINARY_DIR}/package/warpsmith-config.cmake INSTALL_DESTINATION ${package}
  PATH_VARS CMAKE_INSTALL_LIBDIR CMAKE_INSTALL_INCLUDEDIR)
write_basic_package_version_file(${CMAKE_BINARY_DIR}/package/warpsmith-config-version.cmake
  COMPATIBILITY SameMinorVersion)
install(FILES ${CMAKE_BINARY_DIR}/package/warpsmith-config.cmake ${CMAKE_BINARY_DIR}/package/warpsmith-config-version.cmake
  DESTINATION ${package} COMPONENT development)

file(RELATIVE_PATH WARPSMITH_PC_PREFIX /${CMAKE_INSTALL_LIBDIR}/pkgconfig /)  # the package may be moved
configure_file(${CMAKE_SOURCE_DIR}/cmake/warpsmith.pc.in ${CMAKE_BINARY_DIR}/package/warpsmith.pc @ONLY)
install(FILES ${CMAKE_BINARY_DIR}/package/warpsmith.pc DESTINATION ${CMAKE_INSTALL_LIBDIR}/pkgconfig COMPONENT development)

# A pack for each wisdom file of a GPU: no GPU is needed, all cores are used.
install(CODE "
  file(GLOB files \"${CMAKE_SOURCE_DIR}/wisdom/*.jsonl\")
  foreach(file IN LISTS files)
    file(STRINGS \"\${file}\" header LIMIT_COUNT 1)
    if(header MATCHES \"\\\"target\\\":\\\"sm\")
      get_filename_component(gpu \"\${file}\" NAME_WE)
      execute_process(COMMAND \"\$<TARGET_FILE:warpsmith>\" pack --wisdom \"\${file}\"
        --output \"\$ENV{DESTDIR}\${CMAKE_INSTALL_PREFIX}/${CMAKE_INSTALL_DATADIR}/warpsmith/packs/\${gpu}.wspack\"
        RESULT_VARIABLE status)
      if(NOT status EQUAL 0)
        message(FATAL_ERROR \"no kernel pack for \${gpu}; install without it by --component runtime and development\")
      endif()
    endif()
  endforeach()" COMPONENT pack)
