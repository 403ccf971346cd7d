# find_package(tickwheel) makes two targets: tickwheel::tickwheel, the shared library, and tickwheel::static.
if(TARGET tickwheel::tickwheel)
  return()
endif()
get_filename_component(_tickwheel "${CMAKE_CURRENT_LIST_DIR}/../../.." ABSOLUTE)
add_library(tickwheel::tickwheel SHARED IMPORTED)
set_target_properties(tickwheel::tickwheel PROPERTIES
  IMPORTED_LOCATION "${_tickwheel}/lib/libtickwheel.so"
  IMPORTED_SONAME "@SONAME@"
  INTERFACE_INCLUDE_DIRECTORIES "${_tickwheel}/include")
add_library(tickwheel::static STATIC IMPORTED)
set_target_properties(tickwheel::static PROPERTIES
  IMPORTED_LOCATION "${_tickwheel}/lib/libtickwheel.a"
  INTERFACE_INCLUDE_DIRECTORIES "${_tickwheel}/include"
  INTERFACE_LINK_LIBRARIES "gcc_s;pthread;dl;m")
unset(_tickwheel)
