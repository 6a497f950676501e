# Helpers that give every folder of src/ its CMake target and every test its label.

add_library(warpsmith_options INTERFACE)
target_compile_options(warpsmith_options INTERFACE -Wall -Wextra -Wshadow -Wnon-virtual-dtor -Wold-style-cast)
if(WARPSMITH_WERROR)
  target_compile_options(warpsmith_options INTERFACE -Werror)
endif()
if(WARPSMITH_SANITIZE)
  target_compile_options(warpsmith_options INTERFACE -fsanitize=address,undefined -fno-sanitize-recover=undefined -fno-omit-frame-pointer)
  target_link_options(warpsmith_options INTERFACE -fsanitize=address,undefined)
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
endfunction()

# warpsmith_test(name LABELS cpu SOURCES a_test.cpp DEPENDS warpsmith::base): one GoogleTest binary, run as one CTest.
function(warpsmith_test name)
  cmake_parse_arguments(ARG "" "TIMEOUT" "SOURCES;DEPENDS;LABELS" ${ARGN})
  if(NOT ARG_TIMEOUT)
    set(ARG_TIMEOUT 300)
  endif()
  add_executable(${name} ${ARG_SOURCES})
  target_link_libraries(${name} PRIVATE ${ARG_DEPENDS} warpsmith_options GTest::gtest_main)
  add_test(NAME ${name} COMMAND ${name})
  set_tests_properties(${name} PROPERTIES LABELS "${ARG_LABELS}" TIMEOUT ${ARG_TIMEOUT})
endfunction()
