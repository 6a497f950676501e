# Third-party packages. HACKING.md says what each one is for.
find_package(Threads REQUIRED)
find_package(fmt REQUIRED)
find_package(nlohmann_json 3.10 REQUIRED)

# fmt's library, whose code is compiled once; a staged binary takes the headers alone and needs no library (every file
# then compiles twice as long).
add_library(warpsmith_fmt INTERFACE)
if(WARPSMITH_STATIC_RUNTIME)
  target_link_libraries(warpsmith_fmt INTERFACE fmt::fmt-header-only)
else()
  target_link_libraries(warpsmith_fmt INTERFACE fmt::fmt)
endif()

# The headers that nearly every file includes, parsed once for all libraries.
file(WRITE ${CMAKE_BINARY_DIR}/precompiled.cpp "")
add_library(warpsmith_precompiled OBJECT ${CMAKE_BINARY_DIR}/precompiled.cpp)
target_link_libraries(warpsmith_precompiled PRIVATE warpsmith_options warpsmith_fmt nlohmann_json::nlohmann_json)
target_precompile_headers(warpsmith_precompiled PRIVATE <fmt/format.h> <nlohmann/json.hpp> <filesystem> <functional>
  <map> <memory> <optional> <string> <variant> <vector>)
find_package(CLI11 REQUIRED)
find_package(SQLite3 REQUIRED)
find_package(OpenSSL REQUIRED COMPONENTS Crypto)
find_path(WARPSMITH_TOML_INCLUDE toml++/toml.h)  # headers alone, for src/task/toml_reader.cpp
mark_as_advanced(WARPSMITH_TOML_INCLUDE)
if(NOT WARPSMITH_TOML_INCLUDE)
  message(FATAL_ERROR "toml++ (toml++/toml.h) was not found; see scripts/install-deps.sh")
endif()
find_package(Boost 1.74 REQUIRED)  # headers alone: Beast and Asio, for src/serve/http_server.cpp

# The static archives are preferred, so that a staged binary runs on a host that lacks the packages.
find_library(WARPSMITH_SQLITE_STATIC NAMES libsqlite3.a)
find_library(WARPSMITH_CRYPTO_STATIC NAMES libcrypto.a)
add_library(warpsmith_sqlite INTERFACE)
if(WARPSMITH_SQLITE_STATIC)
  target_link_libraries(warpsmith_sqlite INTERFACE ${WARPSMITH_SQLITE_STATIC} Threads::Threads ${CMAKE_DL_LIBS} m)
else()
  target_link_libraries(warpsmith_sqlite INTERFACE SQLite::SQLite3)
endif()
add_library(warpsmith_crypto INTERFACE)
if(WARPSMITH_CRYPTO_STATIC)
  target_link_libraries(warpsmith_crypto INTERFACE ${WARPSMITH_CRYPTO_STATIC} Threads::Threads ${CMAKE_DL_LIBS})
else()
  target_link_libraries(warpsmith_crypto INTERFACE OpenSSL::Crypto)
endif()

# libcurl, with which language models are asked: its header here, the library at run time.
find_path(WARPSMITH_CURL_INCLUDE curl/curl.h PATH_SUFFIXES x86_64-linux-gnu)
mark_as_advanced(WARPSMITH_CURL_INCLUDE)
if(NOT WARPSMITH_CURL_INCLUDE)
  message(FATAL_ERROR "libcurl's headers (curl/curl.h) were not found; see scripts/install-deps.sh")
endif()

# oneDNN, a CPU baseline; only the module that uses its matmul primitive is compiled and linked against it.
find_path(WARPSMITH_DNNL_INCLUDE oneapi/dnnl/dnnl.hpp)
find_library(WARPSMITH_DNNL_LIBRARY dnnl)
mark_as_advanced(WARPSMITH_DNNL_INCLUDE WARPSMITH_DNNL_LIBRARY)
if(NOT WARPSMITH_DNNL_INCLUDE OR NOT WARPSMITH_DNNL_LIBRARY)
  message(STATUS "oneDNN's headers were not found: its matmul on 16-bit operands will not be among the CPU baselines")
endif()

# LibTorch, with which models are trained; only warpsmith-torch.so includes and links it (src/train/torch). Nothing else
# needs it.
set(WARPSMITH_TORCH AUTO CACHE STRING "Training: AUTO builds it where a LibTorch is found, ON requires it, OFF leaves it out")

# The CUDA target needs headers and libraries of the toolkit, never a GPU at build time. The host code is plain C++;
# the evaluator's own device code is compiled by nvcc.
set(WARPSMITH_HAVE_CUDA OFF)
if(NOT WARPSMITH_CUDA STREQUAL "OFF")
  find_package(CUDAToolkit 12.4 QUIET)
  include(CheckLanguage)
  if(NOT CMAKE_CUDA_COMPILER)
    unset(CMAKE_CUDA_COMPILER CACHE)  # forgets an earlier "not found": a toolkit may have come since
    if(NOT DEFINED ENV{CUDACXX} AND CUDAToolkit_NVCC_EXECUTABLE)
      set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})  # found off the PATH as well
    endif()
  endif()
  if(CUDAToolkit_FOUND)
    if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
      set(CMAKE_CUDA_ARCHITECTURES 80 90)
    endif()
    check_language(CUDA)
  endif()
  if(CUDAToolkit_FOUND AND CMAKE_CUDA_COMPILER AND TARGET CUDA::nvrtc AND TARGET CUDA::cublasLt)
    enable_language(CUDA)
    set(CMAKE_CUDA_STANDARD 20)
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)  # CMake before 3.26 does not know that nvcc has C++20
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
      set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION -std=c++20)
    endif()
    set(WARPSMITH_HAVE_CUDA ON)
    message(STATUS "CUDA target: on (toolkit ${CUDAToolkit_VERSION})")
  elseif(WARPSMITH_CUDA STREQUAL "ON")
    message(FATAL_ERROR "WARPSMITH_CUDA=ON, but no CUDA toolkit >= 12.4 with nvcc, NVRTC and cuBLASLt was found")
  else()
    message(STATUS "CUDA target: off (needs the CUDA toolkit >= 12.4 with nvcc, NVRTC and cuBLASLt); the cpu and replay targets build without it")
  endif()
endif()

if(WARPSMITH_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
