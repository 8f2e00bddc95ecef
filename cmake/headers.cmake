# headers_alone: compiles every header of ours by itself, twice included, so
# that each brings what it needs and guards against a second inclusion. Not part
# of the default build; `make check` builds it.

file(GLOB_RECURSE headers CONFIGURE_DEPENDS RELATIVE ${PROJECT_SOURCE_DIR}
  ${PROJECT_SOURCE_DIR}/src/*.h ${PROJECT_SOURCE_DIR}/include/*.h
  ${PROJECT_SOURCE_DIR}/apps/*.h ${PROJECT_SOURCE_DIR}/testing/*.h)
set(header_sources)
foreach(header ${headers})
  set(source ${PROJECT_BINARY_DIR}/headers/${header}.cc)
  file(CONFIGURE OUTPUT ${source} CONTENT
    "#include \"${header}\"\n#include \"${header}\"\n")
  list(APPEND header_sources ${source})
endforeach()
add_library(headers_alone OBJECT EXCLUDE_FROM_ALL ${header_sources})
target_include_directories(headers_alone PRIVATE ${PROJECT_SOURCE_DIR})
target_link_libraries(headers_alone PRIVATE cairn_engine cairn_testing)
