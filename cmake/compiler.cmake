# Warnings, hardening and sanitizers: everything that is the same for every target of ours.
# They hang on one interface target, so third-party code is never compiled with them.
set(PADDLEOP_SANITIZE "" CACHE STRING "comma-separated list for -fsanitize=")
set(PADDLEOP_BATCH 5 CACHE STRING "how many sources of a room are compiled as one; 1: each alone")
option(PADDLEOP_FUZZ "build the libFuzzer targets" OFF)

add_library(paddleop_compiler INTERFACE)
# The root is for the batches of paddleop_batches().
target_include_directories(paddleop_compiler INTERFACE ${CMAKE_SOURCE_DIR}/src ${CMAKE_SOURCE_DIR})
target_compile_options(paddleop_compiler INTERFACE
  -Wall -Wextra -Wpedantic -Wshadow -Wconversion -Wnon-virtual-dtor -Werror
  -fno-omit-frame-pointer
  # Leaving members out of a designated initializer is how options are written here.
  -Wno-missing-field-initializers)
target_compile_definitions(paddleop_compiler INTERFACE _GLIBCXX_ASSERTIONS)

if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  # libstdc++ 12's own stable_sort uses what C++17 deprecates.
  target_compile_options(paddleop_compiler INTERFACE -Wthread-safety -Wno-deprecated-declarations)
  # libstdc++ 12 offers std::expected only to compilers that claim this level of concepts.
  target_compile_options(paddleop_compiler INTERFACE -Wno-builtin-macro-redefined -D__cpp_concepts=202002L)
endif()

if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU" AND CMAKE_CXX_COMPILER_VERSION VERSION_LESS 13)
  # g++ 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
  target_compile_options(paddleop_compiler INTERFACE -Wno-restrict)
endif()

if(PADDLEOP_SANITIZE)
  target_compile_options(paddleop_compiler INTERFACE -fsanitize=${PADDLEOP_SANITIZE} -fno-sanitize-recover=all)
  target_link_options(paddleop_compiler INTERFACE -fsanitize=${PADDLEOP_SANITIZE})
  if(PADDLEOP_SANITIZE MATCHES "undefined" AND NOT PADDLEOP_FUZZ)
    # A null pointer ends the program anyway. With the check of alignment (which the fuzz preset keeps) it would make up
    # four fifths of a program's data, 100 MB of it, and a fifth of the compile time.
    target_compile_options(paddleop_compiler INTERFACE -fno-sanitize=null,alignment)
  endif()
  if(PADDLEOP_SANITIZE MATCHES "address")
    # At a fixed address: every start would otherwise relocate what is left of that data.
    target_link_options(paddleop_compiler INTERFACE -no-pie)
  endif()
  if(PADDLEOP_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # Asio has fences, which the thread sanitizer does not follow; that alone is no error.
    target_compile_options(paddleop_compiler INTERFACE -Wno-tsan)
  endif()
endif()
if(PADDLEOP_FUZZ)
  target_compile_options(paddleop_compiler INTERFACE -fsanitize=fuzzer-no-link)
endif()

if(CMAKE_BUILD_TYPE STREQUAL "Debug")
  # With sanitizers, -O1 makes g++ 12 take more than twice as long per file.
  target_compile_options(paddleop_compiler INTERFACE -O0 -g1)
else()
  set(CMAKE_CXX_FLAGS_RELEASE "-O2 -g1")
  target_compile_options(paddleop_compiler INTERFACE
    -fstack-protector-strong -D_FORTIFY_SOURCE=2 -ffunction-sections -fdata-sections)
  # g++ 12 warns about overlapping copies in std::string's own operator+ (GCC bug 105651).
  if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    target_compile_options(paddleop_compiler INTERFACE -Wno-restrict)
  endif()
  target_link_options(paddleop_compiler INTERFACE
    -Wl,-z,relro,-z,now -Wl,--gc-sections)
endif()
