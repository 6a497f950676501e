# Helpers that give every folder of src/ its CMake target and every test its label.

option(WARPSMITH_STATIC_RUNTIME "Binaries that travel: libstdc++ and libgcc static, CUDA libraries found on the other host" OFF)

# A compiler cache is used where there is one; nothing needs it.
find_program(WARPSMITH_CCACHE ccache)
mark_as_advanced(WARPSMITH_CCACHE)
if(WARPSMITH_CCACHE AND NOT CMAKE_CXX_COMPILER_LAUNCHER)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${WARPSMITH_CCACHE})
endif()

# Options of our own code. Each is given to the host compiler alone: nvcc knows other spellings.
add_library(warpsmith_options INTERFACE)
set(warnings -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  list(APPEND warnings -Wno-restrict)  # GCC 12 gives it for any `"text" + std::string` (its bug 105651)
endif()
if(WARPSMITH_WERROR)
  list(APPEND warnings -Werror)
endif()
target_compile_options(warpsmith_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${warnings}>")
if(WARPSMITH_SANITIZE)
  set(sanitize -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    list(APPEND sanitize -Wno-maybe-uninitialized)  # instrumented std::regex and std::optional trip it without cause
  endif()
  target_compile_options(warpsmith_options INTERFACE "$<$<COMPILE_LANGUAGE:CXX>:${sanitize}>")
  target_link_options(warpsmith_options INTERFACE -fsanitize=address,undefined)
endif()
if(WARPSMITH_STATIC_RUNTIME)
  target_compile_options(warpsmith_options INTERFACE
    $<$<COMPILE_LANGUAGE:CXX>:-ffunction-sections> $<$<COMPILE_LANGUAGE:CXX>:-fdata-sections>)
  target_link_options(warpsmith_options INTERFACE -static-libstdc++ -static-libgcc -Wl,--gc-sections)
  set(CMAKE_BUILD_WITH_INSTALL_RPATH ON)
  set(CMAKE_INSTALL_RPATH "$ORIGIN:/usr/local/cuda/lib64")
endif()

# warpsmith_library(base SOURCES a.cpp b.cpp DEPENDS other ... PRIVATE_DEPENDS third::party ...)
# Makes warpsmith_base with the alias warpsmith::base. DEPENDS names other folders (or third-party targets) whose
# headers this folder's headers include: the link graph is the dependency rule, so a forbidden include does not compile.
function(warpsmith_library name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPENDS;PRIVATE_DEPENDS" ${ARGN})
  add_library(warpsmith_${name} STATIC ${ARG_SOURCES})
  add_library(warpsmith::${name} ALIAS warpsmith_${name})
  # Headers are included as "name/header.h" through a directory that holds nothing but this folder.
  set(view ${CMAKE_BINARY_DIR}/include/${name})
  file(MAKE_DIRECTORY ${view})
  file(CREATE_LINK ${CMAKE_CURRENT_SOURCE_DIR} ${view}/${name} SYMBOLIC)
  target_include_directories(warpsmith_${name} PUBLIC ${view})
  target_link_libraries(warpsmith_${name} PUBLIC ${ARG_DEPENDS} PRIVATE warpsmith_options ${ARG_PRIVATE_DEPENDS})
  target_precompile_headers(warpsmith_${name} REUSE_FROM warpsmith_precompiled)
endfunction()

# The tests that need a GPU, for scripts/stage.sh.
add_custom_target(gpu_tests)

# warpsmith_test(name LABELS cpu SOURCES a_test.cpp DEPENDS warpsmith::base [TIMEOUT seconds] [SERIAL])
# One GoogleTest binary, run as one CTest. SERIAL: not beside other tests, for tests that measure time. A binary with a
# skipped case is reported as skipped, never as passed: CTest lets that hide an exit code, so the expression asks that
# GoogleTest's list of skipped cases ends the output, which it does only when nothing failed.
function(warpsmith_test name)
  cmake_parse_arguments(ARG "SERIAL" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} warpsmith_options GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES
    LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT}
    SKIP_REGULAR_EXPRESSION "\\[  SKIPPED \\] [0-9]+ tests?, listed below:\n(\\[  SKIPPED \\] [^\n]*\n)+\n*$")
  if(gpu IN_LIST ARG_LABELS)
    add_dependencies(gpu_tests ${name})
  endif()
  if(ARG_SERIAL)
    set_tests_properties(${name} PROPERTIES RUN_SERIAL ON)
  endif()
endfunction()
