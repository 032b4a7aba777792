# paddleop_batches(OUT NAME a.cc b.cc ...)
#
# Several sources compiled as one, PADDLEOP_BATCH at a time: half of what a file costs is the headers it shares with its
# neighbours. So names in anonymous namespaces must differ within a batch; NEXT in a list begins another. 1 compiles each
# file alone, which is how `make lint` finds a file that leans on its neighbour's includes.
function(paddleop_batches out name)
  set(batches)
  set(sources)
  set(text "")
  set(count 0)
  foreach(source IN LISTS ARGN ITEMS NEXT)
    if(NOT source STREQUAL "NEXT")
      cmake_path(ABSOLUTE_PATH source)
      # Relative, so that ccache knows the batch again in another checkout.
      cmake_path(RELATIVE_PATH source BASE_DIRECTORY ${CMAKE_SOURCE_DIR})
      list(APPEND sources ${source})
      string(APPEND text "#include \"${source}\"\n")
    endif()
    list(LENGTH sources length)
    if(length EQUAL PADDLEOP_BATCH OR (source STREQUAL "NEXT" AND length GREATER 0))
      if(length EQUAL 1)
        list(APPEND batches ${CMAKE_SOURCE_DIR}/${sources})
      else()
        set(batch ${CMAKE_CURRENT_BINARY_DIR}/${name}_batch_${count}.cc)
        file(CONFIGURE OUTPUT ${batch} CONTENT "${text}" @ONLY)
        list(APPEND batches ${batch})
      endif()
      math(EXPR count "${count} + 1")
      set(sources)
      set(text "")
    endif()
  endforeach()
  set(${out} ${batches} PARENT_SCOPE)
endfunction()

# paddleop_room(NAME volume_meta SOURCES a.cc b.cc TESTS a_test.cc DEPS paddleop::base LIBS PkgConfig::lz4)
#
# A room is one library and one unit-test program that links only that room (and the `testing` targets
# named in TEST_DEPS), so a test also proves the arrows between rooms. DEPS are rooms whose types appear
# in our headers; LIBS are third-party libraries, hidden from those who use the room.
function(paddleop_room)
  cmake_parse_arguments(ROOM "" "NAME" "SOURCES;TESTS;DEPS;LIBS;PUBLIC_LIBS;TEST_DEPS" ${ARGN})
  set(target paddleop_${ROOM_NAME})
  if(ROOM_SOURCES)
    paddleop_batches(batches ${ROOM_NAME} ${ROOM_SOURCES})
    add_library(${target} STATIC ${batches})
    target_link_libraries(${target}
      PUBLIC paddleop_compiler ${ROOM_DEPS} ${ROOM_PUBLIC_LIBS}
      PRIVATE ${ROOM_LIBS})
  else()
    add_library(${target} INTERFACE)
    target_link_libraries(${target} INTERFACE paddleop_compiler ${ROOM_DEPS} ${ROOM_PUBLIC_LIBS} ${ROOM_LIBS})
  endif()
  add_library(paddleop::${ROOM_NAME} ALIAS ${target})
  if(ROOM_TESTS)
    paddleop_test(NAME ${ROOM_NAME}_test SOURCES ${ROOM_TESTS} LABELS unit
      DEPS paddleop::${ROOM_NAME} ${ROOM_TEST_DEPS} LIBS ${ROOM_LIBS})
  endif()
endfunction()

# paddleop_test(NAME redis_integration_test SOURCES x_test.cc LABELS integration DEPS ... [TIMEOUT 120])
#
# One program and one ctest entry. Tests that need another process live in tests/ and carry a label
# other than `unit`.
function(paddleop_test)
  cmake_parse_arguments(TEST "" "NAME;TIMEOUT" "SOURCES;LABELS;DEPS;LIBS" ${ARGN})
  if(NOT TEST_TIMEOUT)
    set(TEST_TIMEOUT 120)
  endif()
  paddleop_batches(batches ${TEST_NAME} ${TEST_SOURCES})
  add_executable(${TEST_NAME} ${batches})
  target_link_libraries(${TEST_NAME} PRIVATE paddleop_compiler ${TEST_DEPS} ${TEST_LIBS} GTest::gmock GTest::gtest_main)
  add_test(NAME ${TEST_NAME} COMMAND ${TEST_NAME})
  set_tests_properties(${TEST_NAME} PROPERTIES
    LABELS "${TEST_LABELS}" TIMEOUT ${TEST_TIMEOUT}
    ENVIRONMENT "PADDLEOP_SOURCE_DIR=${CMAKE_SOURCE_DIR};PADDLEOP_BIN_DIR=${CMAKE_RUNTIME_OUTPUT_DIRECTORY}")
endfunction()

# paddleop_fuzz(NAME resp SOURCES resp_fuzz.cc DEPS paddleop::redis)
#
# With the `fuzz` preset a libFuzzer program; otherwise a plain program that replays the kept seeds
# (tests/fuzz/seeds/<name>/), so that every test run covers what fuzzing once found.
function(paddleop_fuzz)
  cmake_parse_arguments(FUZZ "" "NAME" "SOURCES;DEPS;LIBS" ${ARGN})
  set(target fuzz_${FUZZ_NAME})
  set(seeds ${CMAKE_SOURCE_DIR}/tests/fuzz/seeds/${FUZZ_NAME})
  if(PADDLEOP_FUZZ)
    add_executable(${target} ${FUZZ_SOURCES})
    target_link_options(${target} PRIVATE -fsanitize=fuzzer)
    if(NOT TARGET fuzzers)
      add_custom_target(fuzzers)
    endif()
    add_dependencies(fuzzers ${target})
  else()
    add_executable(${target} ${FUZZ_SOURCES} ${CMAKE_SOURCE_DIR}/tests/fuzz/replay_main.cc)
    add_test(NAME ${target} COMMAND ${target} ${seeds})
    set_tests_properties(${target} PROPERTIES LABELS unit TIMEOUT 120)
  endif()
  target_link_libraries(${target} PRIVATE paddleop_compiler ${FUZZ_DEPS} ${FUZZ_LIBS})
endfunction()
