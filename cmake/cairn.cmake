# How cairn's modules, programs and tests are declared, and what every one of
# them is compiled with. The table of allowed edges is tools/check_layers.py;
# the DEPS here are the same edges, seen by the linker.

option(CAIRN_KILL_POINTS "Compile the named kill points in (crash tests)" ON)
set(CAIRN_SANITIZE "" CACHE STRING "address, thread or empty")

add_library(cairn_options INTERFACE)
target_compile_features(cairn_options INTERFACE cxx_std_20)
target_include_directories(cairn_options INTERFACE
  ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR}/include)
target_compile_options(cairn_options INTERFACE
  -Wall -Wextra -Werror -Wnon-virtual-dtor -Woverloaded-virtual
  -fno-omit-frame-pointer)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlaps in std::string's own code that are not there.
  target_compile_options(cairn_options INTERFACE -Wno-restrict)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL "Clang")
  target_compile_options(cairn_options INTERFACE -Wthread-safety)
endif()
if(CAIRN_KILL_POINTS)
  target_compile_definitions(cairn_options INTERFACE CAIRN_KILL_POINTS=1)
endif()
if(CAIRN_SANITIZE STREQUAL "address")
  target_compile_options(cairn_options INTERFACE -fsanitize=address,undefined
    -fno-sanitize-recover=undefined)
  target_link_options(cairn_options INTERFACE -fsanitize=address,undefined)
elseif(CAIRN_SANITIZE STREQUAL "thread")
  target_compile_options(cairn_options INTERFACE -fsanitize=thread)
  target_link_options(cairn_options INTERFACE -fsanitize=thread)
endif()

# cairn_module(NAME SOURCES ... DEPS ...): src/NAME as the library cairn_NAME.
function(cairn_module name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_library(cairn_${name} STATIC ${ARG_SOURCES})
  target_link_libraries(cairn_${name} PUBLIC cairn_options ${ARG_DEPS})
endfunction()

# cairn_test(NAME SOURCES ... DEPS ...): a GoogleTest program, one ctest entry
# for each of its cases.
function(cairn_test name)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${name} ${ARG_SOURCES})
  target_include_directories(${name} PRIVATE ${PROJECT_SOURCE_DIR})
  target_link_libraries(${name} PRIVATE ${ARG_DEPS} cairn_testing GTest::gmock
    GTest::gtest_main)
  gtest_discover_tests(${name} DISCOVERY_TIMEOUT 60 PROPERTIES TIMEOUT 300)
endfunction()
